"""The figures against the reference's own, where the golden folder is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import readers_figures as figures
from tests.golden.cases import GOLDEN, SAMPLE, Case, find
from tests.golden.values import Finding

LOGS = [case for case in find(GOLDEN) if case.has("readers")] if GOLDEN.is_dir() else []
FOLDERS = [SAMPLE, *([GOLDEN] if LOGS else [])]
needs_golden = pytest.mark.skipif(not LOGS, reason=f"no golden folder at {GOLDEN}")


def unexplained(found: list[Finding]) -> list[str]:
    return [str(f) for f in found if f.reason not in figures.DIFFERENCES]


@pytest.mark.golden
@needs_golden
@pytest.mark.parametrize("case", LOGS, ids=str)
def test_log(case: Case) -> None:
    assert unexplained(figures.compare(case.read("readers"), case.body)) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_small_cases(folder: Path) -> None:
    told = json.loads((folder / "reader_cases.json").read_text("utf-8", "surrogatepass"))
    found = figures.compare_cases(told)
    assert [line for findings in found.values() for line in unexplained(findings)] == []
    met = {f.reason for findings in found.values() for f in findings}
    assert met == {figures.ASTRAY, figures.ANCHORLESS}


def _spoiled(value: Any) -> Any:
    """Every figure one more."""
    if isinstance(value, dict):
        return {name: _spoiled(inner) for name, inner in value.items()}
    return value + 1 if type(value) is int else value


@pytest.mark.golden
@needs_golden
def test_a_wrong_figure_is_seen() -> None:
    case = next(case for case in LOGS if case.group == "generated")
    golden = {key: value for key, value in case.read("readers").items() if key in figures.KEYS}
    wrong = {key: {"final": _spoiled(value["final"])} for key, value in golden.items()}
    found = {f.where.split()[1].partition(".")[0] for f in figures.compare(wrong, case.body)}
    assert found == set(golden)
