"""The live core under fault schedules (`python -m tests.pipeline.gateway.schedules` runs more)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.pipeline.gateway.schedule_mutants import MUTANTS, applied
from tests.pipeline.gateway.schedule_world import Violation
from tests.pipeline.gateway.schedules import Step, check, schedule_of, search, shrunk, violated

#: Of the guards that show soonest; the command shows that every one is missed.
SOON = (
    "text after its row is superseded",
    "cursors before all is answered",
    "frames are dropped in silence",
    "what was dropped is taken for sent",
    "nothing is kept while it is looked up",
    "a rebuilt read model is not noticed",
)


def test_every_client_ends_equal_to_the_server() -> None:
    result = search(1_000_000, 60)
    assert result.schedule is None, result.text
    assert result.run == 60
    assert result.struck["resyncs"] > 0
    assert result.struck["squeezed"] > 0


#: A row that is to get another block is read after text of its first, which fits without it.
OVERTAKEN = (
    Step("slow reply", 3, 83),
    Step("slow answer", 8, 93),
    Step("write", 5, 144),
    Step("write", 4, 31),
    Step("text first", 9, 79),
)


def test_text_does_not_overtake_a_row_with_another_block() -> None:
    check(OVERTAKEN)
    with applied("text waits for no row"), pytest.raises(Violation):
        check(OVERTAKEN)


#: A gateway that begins anew tells a client that is ahead of it, and resyncs it half-way.
BEHIND = (
    *(Step("text below", 0, 68), Step("write", 1, 98), Step("text below", 11, 124)),
    *(Step("write", 5, 106), Step("write", 5, 51), Step("storm", 10, 150)),
    *(Step("write", 9, 133), Step("write", 5, 135), Step("text below", 0, 179)),
    *(Step("half known", 8, 121), Step("slow reply", 0, 83)),
)


def test_a_gateway_that_is_behind_brings_no_removed_row_back() -> None:
    check(BEHIND)


#: A session of a later epoch is gone with its topics, and of the new ones it has the first.
BEGUN_ANEW = (
    Step("write", 5, 181),
    Step("round", 5, 102),
    Step("topics", 4, 167),
    Step("wipe", 10, 249),
    Step("flush", 0, 138),
    Step("round", 10, 79),
)


def test_a_session_that_went_with_its_topics_comes_again() -> None:
    check(BEGUN_ANEW)


@pytest.mark.parametrize("name", SOON)
def test_a_guard_that_is_taken_away_is_missed(name: str) -> None:
    assert name in MUTANTS
    assert search(0, 100, mutant=name, shrinks=False).schedule is not None


def test_a_schedule_is_the_same_each_time_and_shrinks() -> None:
    assert schedule_of(7) == schedule_of(7)
    found = search(0, 100, mutant=SOON[0], shrinks=False).schedule
    assert found is not None
    with applied(SOON[0]):
        small = shrunk(found)
        assert violated(small, Counter()) is not None
    assert len(small) < len(found)
    check(small)  # with the guard, nothing is violated
