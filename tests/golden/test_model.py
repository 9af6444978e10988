"""The model is only worth something if it is right: it and the fold agree on spoilt logs too.

The logs are those of the sample, each mutated with seeds; any disagreement is an error in one of
the two readings of the rules.
"""

from __future__ import annotations

import zlib
from random import Random

import pytest

from tests.golden.agreement import compare
from tests.golden.cases import SAMPLE, Case, find
from tests.golden.mutants import mutant

CASES = [case for case in find(SAMPLE) if case.has("surface")]
MUTANTS = 12


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fold_and_model_agree_on_the_log_itself(case: Case) -> None:
    assert list(map(str, compare(case.events))) == []


@pytest.mark.parametrize("case", [c for c in CASES if c.events], ids=str)
def test_fold_and_model_agree_on_spoilt_logs(case: Case) -> None:
    for seed in range(MUTANTS):
        events = mutant(case.events, Random(zlib.crc32(case.id.encode()) + seed))
        assert (seed, list(map(str, compare(events)))) == (seed, [])
