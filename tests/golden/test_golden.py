"""Conformance with the reference: every golden file equal, or a listed difference with our value.

The whole golden folder lies beside the repository (``FOLDSTREAM_GOLDEN`` names another place) and
is not part of it; a small sample of the freely written logs is.
"""

from __future__ import annotations

import pytest

from tests.golden.cases import GOLDEN, SAMPLE, Case, find
from tests.golden.conformance import KINDS
from tests.golden.differences import DIFFERENCES
from tests.golden.run import judge, main

WHOLE = list(find(GOLDEN)) if GOLDEN.is_dir() else []
needs_golden = pytest.mark.skipif(
    not WHOLE, reason=f"no golden folder at {GOLDEN}: only the sample was compared"
)


def unexplained(case: Case) -> list[str]:
    found = judge(case).findings
    strange = {f.reason for fs in found.values() for f in fs} - {None, *DIFFERENCES}
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
