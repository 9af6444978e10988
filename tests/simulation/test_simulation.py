"""The worker over simulated brokers (`make simulate-faults` runs many more of these histories)."""

from __future__ import annotations

import pytest

from pipeline.memory_time import Elapsed, Hang, VirtualTime
from tests.simulation.histories import History
from tests.simulation.known import KNOWN
from tests.simulation.mutants import MUTANTS, applied
from tests.simulation.oracle import Violation, check
from tests.simulation.search import search, silent


@pytest.mark.parametrize("number", [1, 2, 3])
def test_no_history_violates_anything(number: int) -> None:
    result = search(number, 60)
    assert result.history is None, result.text
    assert result.run == 60


@pytest.mark.parametrize("name", KNOWN)
def test_a_guard_that_is_taken_away_is_missed(name: str) -> None:
    with silent():
        check(KNOWN[name])
        with applied(name), pytest.raises(Violation):
            check(KNOWN[name])


def test_every_guard_has_its_history() -> None:
    assert KNOWN.keys() == MUTANTS.keys()


def test_a_history_is_the_same_each_time() -> None:
    history = KNOWN["the undecided is not waited for"]
    with silent():
        one, two = check(history), check(history)
    assert one.events == two.events != []
    assert one.time.monotonic() == two.time.monotonic()


def test_without_faults_all_is_folded_soon() -> None:
    with silent():
        fleet = check(History(0, 2, 3, 9, ()))
    assert fleet.deaths == []
    assert fleet.time.monotonic() < 30


def test_waiting_without_an_end_is_a_hang() -> None:
    time = VirtualTime()
    with pytest.raises(Hang):
        time.wait(lambda: False)


def test_a_limit_ends_what_runs_within_it_and_no_other() -> None:
    time = VirtualTime()

    def inner() -> None:
        with time.meanwhile():
            time.sleep(9)  # somebody else's: not bounded by ours
        time.sleep(1)

    with pytest.raises(TimeoutError):
        time.limited(5, inner)
    assert time.monotonic() == 9
    with pytest.raises(TimeoutError):
        time.limited(5, lambda: time.limited(50, lambda: time.sleep(20)))
    assert time.monotonic() == 14
    time._limits.append((15, "somebody's"))
    with pytest.raises(Elapsed):
        time.limited(50, lambda: time.sleep(20))
