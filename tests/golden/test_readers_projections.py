"""The small readers against the reference's own answers, where the golden folder is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import readers_projections as projections
from tests.golden.cases import GOLDEN, SAMPLE, Case, find
from tests.golden.values import Finding

CASES = "reader_cases.json"
LOGS = [case for case in find(GOLDEN) if case.has("readers")] if GOLDEN.is_dir() else []
needs_golden = pytest.mark.skipif(not LOGS, reason=f"no golden folder at {GOLDEN}")
FOLDERS = [SAMPLE, *([GOLDEN] if LOGS else [])]


@pytest.mark.golden
@needs_golden
@pytest.mark.parametrize("case", LOGS, ids=str)
def test_log(case: Case) -> None:
    assert projections.compare(case.read("readers"), case.body) == []


@pytest.mark.golden
@needs_golden
@pytest.mark.parametrize("case", [c for c in find(GOLDEN) if c.has("classification")], ids=str)
def test_traces(case: Case) -> None:
    path = case.folder / "log.jsonl"
    assert projections.compare_traces(case.read("classification"), path) == []


def unexplained(found: list[Finding]) -> list[str]:
    return [str(f) for f in found if f.reason not in projections.DIFFERENCES]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_small_cases(folder: Path) -> None:
    told = (folder / CASES).read_text("utf-8", "surrogatepass")
    found = projections.compare_cases(json.loads(told))
    assert [line for findings in found.values() for line in unexplained(findings)] == []
    met = {f.reason for findings in found.values() for f in findings}
    assert met == set(projections.DIFFERENCES), "a listed difference that no case shows"


def _spoiled(golden: dict[str, Any]) -> dict[str, Any]:
    """Another answer under every key."""
    return {
        key: [*value, [0, "C", "x"]] if isinstance(value, list) else {"value": 0, "other": 1}
        for key, value in golden.items()
        if key in projections.KEYS and key != "reference"
    }


@pytest.mark.golden
@needs_golden
def test_a_wrong_answer_is_seen() -> None:
    case = next(case for case in LOGS if case.group == "generated")
    wrong = _spoiled(case.read("readers"))
    found = {f.where.split()[1].split(".")[0] for f in projections.compare(wrong, case.body)}
    assert found == set(wrong)
