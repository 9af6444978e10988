"""Bytes written once per subject and version, readable for ever.

``golden/<subject>.v<N>.jsonl``: one sample a line, its value in hex and its fields as decoded then
(bytes as latin-1). A new version adds a file; none is edited. ``python -m
tests.schemas.test_golden_bytes`` writes those that are missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.catalog import load
from schemas.codec import decode, decode_change, decode_session_line
from schemas.deadletter import decode_dead_letter, encode_dead_letter
from schemas.encoder import compile_encoder
from schemas.outbound import encode
from schemas.wire import single_object_prefix
from tests.schemas.samples import SAMPLES

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.jsonl"))


def write(subject: str, sample: Any) -> bytes:
    return encode_dead_letter(sample) if subject == "deadletter" else encode(sample)


def spelled(value: Any) -> Any:
    """Decoded fields as the golden file spells them."""
    text = json.dumps(value, default=lambda raw: raw.decode("latin-1"), ensure_ascii=False)
    return json.loads(text)


def lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    found = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [(bytes.fromhex(line["value"]), line["fields"]) for line in found]


def test_every_version_has_golden_bytes() -> None:
    catalog = load()
    published = {
        f"{s.subject}.v{s.version}.jsonl" for n in catalog.subjects() for s in catalog.versions(n)
    }
    assert {path.name for path in FILES} == published


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_old_bytes_are_read_as_they_were(path: Path) -> None:
    for value, fields in lines(path):
        decoded = spelled(decode(value))
        assert {name: decoded[name] for name in fields} == fields


@pytest.mark.parametrize("subject", SAMPLES)
def test_the_newest_version_is_written_as_it_was(subject: str) -> None:
    golden = lines(GOLDEN / f"{subject}.v{load().latest(subject).version}.jsonl")
    assert [write(subject, sample) for sample in SAMPLES[subject]] == [value for value, _ in golden]
    read = decode_dead_letter if subject == "deadletter" else decode_change
    assert [read(value) for value, _ in golden] == SAMPLES[subject]


def test_a_session_line_is_read_as_it_was() -> None:
    (value, fields), *_ = lines(GOLDEN / "session_line.v1.jsonl")
    assert decode_session_line(value) == fields["line"].encode("latin-1")


def _write_missing() -> None:
    samples = {**SAMPLES, "session_line": [b'{"type":"session","id":"s","x":"\xff"}']}
    for subject, changes in samples.items():
        latest = load().latest(subject)
        path = GOLDEN / f"{subject}.v{latest.version}.jsonl"
        if path.exists():
            continue
        if subject == "session_line":
            line = compile_encoder(
                latest.source, {}, prefix=single_object_prefix(latest.fingerprint)
            )
            values = [line(type("SessionLine", (), {"line": raw})) for raw in changes]
        else:
            values = [write(subject, change) for change in changes]
        path.write_text(
            "".join(
                json.dumps({"value": v.hex(), "fields": spelled(decode(v))}, ensure_ascii=False)
                + "\n"
                for v in values
            ),
            "utf-8",
        )


if __name__ == "__main__":
    _write_missing()
