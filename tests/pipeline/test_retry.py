"""How long is tried, with which pauses, and what is said at the end."""

from __future__ import annotations

import pytest

from pipeline.errors import Fatal, Fenced, Retriable, Stuck
from pipeline.retry import Budget
from tests.pipeline.world import TestClock

AWAY = Retriable("no broker answers")


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    clock = TestClock()
    budget = Budget(clock, seconds=1000)
    for _ in range(7):
        budget.spend(AWAY)
    assert clock.slept == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    budget.succeeded()
    budget.spend(AWAY)
    assert clock.slept[-1] == 0.2


def test_the_budget_is_time_without_a_success() -> None:
    clock = TestClock()
    budget = Budget(clock, seconds=10)
    budget.spend(AWAY)
    clock.now += 9
    budget.succeeded()
    clock.now += 100
    budget.spend(AWAY)
    clock.now += 10
    with pytest.raises(Fatal, match=r"nothing could be committed for 10 s: no broker answers; see"):
        budget.spend(AWAY)


def test_the_errors_own_remedy_is_kept() -> None:
    clock = TestClock()
    budget = Budget(clock, seconds=0.1)
    budget.spend(Retriable("disk full", "free some space"))
    with pytest.raises(Fatal, match="free some space"):
        budget.spend(Retriable("disk full", "free some space"))


def test_fenced_once_goes_on_and_twice_within_a_minute_does_not() -> None:
    clock = TestClock()
    budget = Budget(clock, seconds=1000)
    budget.spend(Fenced("a newer producer"))
    budget.succeeded()
    clock.now += 120
    budget.spend(Fenced("a newer producer"))
    budget.succeeded()
    clock.now += 30
    with pytest.raises(Fatal, match="--instance"):
        budget.spend(Fenced("a newer producer"))


def test_two_troubles_far_apart_are_two_although_nothing_was_committed_between() -> None:
    clock = TestClock()
    budget = Budget(clock, seconds=60)
    budget.spend(AWAY)
    clock.now += 7200
    budget.spend(AWAY)
    assert clock.slept == [0.2, 0.2]


def test_a_consumer_that_had_to_be_made_anew_is_no_outage() -> None:
    clock = TestClock()
    budget = Budget(clock, seconds=10)
    budget.spend(AWAY)
    clock.now += 11
    budget.spend(Stuck("the group has not come to rest"))
    clock.now += 11
    with pytest.raises(Fatal, match="nothing could be committed"):
        budget.spend(AWAY)
