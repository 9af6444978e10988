"""A golden log shown while it is written, event by event, and shown when it is there: the same."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.commands.following import Screen
from pipeline.commands.terminal import Terminal
from pipeline.config import Config
from pipeline.logtail import LogTail
from tests.golden.cases import GOLDEN, SAMPLE, Case, find

GROUPS = sorted({case.group for case in find(GOLDEN)})


@contextmanager
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BytesIO]:
    """What is written to standard output."""
    with monkeypatch.context() as patch:
        found = io.BytesIO()
        patch.setattr("sys.stdout", io.TextIOWrapper(found, "utf-8", write_through=True))
        patch.setenv("COLUMNS", "80")
        yield found


def live(path: Path, lines: list[bytes], monkeypatch: pytest.MonkeyPatch, aux: bool) -> bytes:
    path.write_bytes(b"")
    with output(monkeypatch) as out, path.open("ab", buffering=0) as file:
        screen = Screen(Config(auxiliary=aux), Terminal())
        tail = LogTail(path)
        for line in lines:
            file.write(line + b"\n")
            for rows in tail.more():
                screen.take(rows)
        screen.end(tail.running())
        assert tail.began == 1
        return out.getvalue()


def replayed(path: Path, monkeypatch: pytest.MonkeyPatch, aux: bool) -> bytes:
    with output(monkeypatch) as out:
        assert main(["show", str(path), *(["--auxiliary"] if aux else [])]) in (0, 3)
        return out.getvalue()


def differing(cases: list[Case], path: Path, patch: pytest.MonkeyPatch, aux: bool) -> list[str]:
    assert cases
    return [
        case.id
        for case in cases
        if live(path, case.lines, patch, aux) != replayed(path, patch, aux)
    ]


@pytest.mark.parametrize("auxiliary", [False, True])
def test_live_is_replayed_byte_for_byte(
    auxiliary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = list(find(SAMPLE))
    assert differing(cases, tmp_path / "log.jsonl", monkeypatch, auxiliary) == []


@pytest.mark.golden
@pytest.mark.skipif(not GROUPS, reason=f"no golden data in {GOLDEN}")
@pytest.mark.parametrize("group", GROUPS)
def test_so_it_is_of_every_golden_log(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = list(find(GOLDEN, group))
    assert differing(cases, tmp_path / "log.jsonl", monkeypatch, False) == []
