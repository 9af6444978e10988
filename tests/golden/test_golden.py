"""Conformance with the reference: every golden file equal, or a listed difference with our value.

The whole golden folder lies beside the repository (``FOLDSTREAM_GOLDEN`` names another place) and
is not part of it; a small sample of the freely written logs is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pipeline.documents import fold_lines
from tests.golden.cases import GOLDEN, SAMPLE, Case, find
from tests.golden.conformance import KINDS
from tests.golden.run import LISTED, judge, main

Node = dict[str, Any]
WHOLE = list(find(GOLDEN)) if GOLDEN.is_dir() else []
needs_golden = pytest.mark.skipif(
    not WHOLE, reason=f"no golden folder at {GOLDEN}: only the sample was compared"
)


def unexplained(case: Case) -> list[str]:
    found = judge(case).findings
    strange = {f.reason for fs in found.values() for f in fs} - {None, *LISTED}
    assert not strange
    return [f"{kind}: {f}" for kind, fs in found.items() for f in fs if f.reason is None]


@pytest.mark.parametrize("case", list(find(SAMPLE)), ids=str)
def test_sample(case: Case) -> None:
    assert unexplained(case) == []


def test_sample_has_every_kind_of_file() -> None:
    assert {kind for case in find(SAMPLE) for kind in KINDS if case.has(kind)} == set(KINDS)


@pytest.mark.golden
@needs_golden
@pytest.mark.parametrize("case", WHOLE, ids=str)
def test_golden(case: Case) -> None:
    assert unexplained(case) == []


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--root", str(SAMPLE), "--group", "invalid_v4"])
    said = capsys.readouterr().out
    assert "invalid_v4" in said
    assert "unexplained" in said
    assert status == 0


def _row(doc: Node, kind: str) -> Node:
    return next(row for row in doc["rows"] if row["kind"] == kind)


def _settle(doc: Node) -> None:
    _row(doc, "tool")["data"]["status"] = "interrupted"


def _sooner(doc: Node) -> None:
    _row(doc, "assistant")["data"]["first_token_time"] -= 1


def _slower(doc: Node) -> None:
    _row(doc, "turn")["data"]["ttft_ms"] += 1


def _unjoin(doc: Node) -> None:
    _row(doc, "tool")["data"]["call_seq"] = None


def _lose(doc: Node) -> None:
    doc["rows"].remove(_row(doc, "user"))


def _shift(doc: Node) -> None:
    _row(doc, "tool")["anchor_rank"] += 1


def _forget(doc: Node) -> None:
    del doc["surface"]["nodes"][0]


def _mark(doc: Node) -> None:
    doc["classification"] = "C" + doc["classification"][1:]


def _blame(doc: Node) -> None:
    doc["faults"].append({"line": 1, "seq": 0, "reason": "late", "message": ""})


@pytest.mark.parametrize(
    "spoil", [_settle, _sooner, _slower, _unjoin, _lose, _shift, _forget, _mark, _blame]
)
def test_a_wrong_document_is_unexplained(
    spoil: Callable[[Node], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison itself can fail: each of these mistakes would be seen."""

    def wrong(lines: Iterable[bytes], **options: Any) -> bytes:
        doc = json.loads(fold_lines(lines, **options))
        spoil(doc)
        return json.dumps(doc).encode()

    monkeypatch.setattr("tests.golden.conformance.fold_lines", wrong)
    case = Case(SAMPLE / "scenario" / "crash_with_pending_calls")
    found = judge(case).findings.values()
    assert [f for fs in found for f in fs if f.reason is None and f.where != "exception"]
