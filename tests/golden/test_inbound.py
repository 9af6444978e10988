"""The inbound door on the golden logs: no fault on a valid one, both readers one, codes as told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from operators.events import BadMarker, BadSources, Event, Fault, ToolResult
from schemas import exact, fast
from schemas.inbound import read_line
from tests.golden.cases import GOLDEN, Case, find

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden data at {GOLDEN}"),
]
INVALID = ("invalid", "invalid_v4")
GROUPS = [p.name for p in GOLDEN.iterdir() if p.is_dir()] if GOLDEN.is_dir() else []
VALID = sorted(set(GROUPS) - {*INVALID, "directories"})
MARKERS = ("surfaceop-invalid", "surfaceop-invalid-replace")
SOURCES = ("sources-not-array", "sources-element", "sources-duplicate")


def lines(group: str) -> Iterator[tuple[Case, bytes]]:
    for case in find(GOLDEN, group):
        for line in case.lines:
            yield case, line


@pytest.mark.parametrize("group", VALID)
def test_no_line_of_a_valid_log_is_a_fault(group: str) -> None:
    for case, line in lines(group):
        read = read_line(line)
        assert not isinstance(read, Fault), (case.id, line[:200])
        assert "malformed" not in read.quality, (case.id, line[:200])


@pytest.mark.parametrize("group", [*VALID, *INVALID])
def test_both_readers_agree(group: str) -> None:
    for case, line in lines(group):
        found = fast.read(line, None)
        assert found is None or found == exact.read(line, None), (case.id, line[:200])


@pytest.mark.parametrize("group", VALID)
def test_identities_survive_being_written_anew(group: str) -> None:
    for case, line in lines(group):
        read = read_line(line)
        if isinstance(read, Event) and isinstance(read.body, ToolResult):
            row = json.loads(line)
            again = read_line(json.dumps(row, sort_keys=True, indent=1).encode())
            assert isinstance(again, Event)
            assert isinstance(again.body, ToolResult)
            assert again.body.identity == read.body.identity, (case.id, line[:200])


@pytest.mark.parametrize("group", INVALID)
def test_what_is_wrong_by_itself_has_the_code_of_the_verdict(group: str) -> None:
    seen = 0
    for case in find(GOLDEN, group):
        verdict: dict[str, Any] = case.read("verdict")["fold"]
        code = verdict.get("errorClass")
        if code not in (*MARKERS, *SOURCES):
            continue
        read = read_line(case.body[verdict["accepted"]])
        assert isinstance(read, Event), case.id
        wrong = read.marker if code in MARKERS else read.sources
        assert isinstance(wrong, BadMarker | BadSources), case.id
        assert wrong.reason == code, case.id
        seen += 1
    assert seen > 5
