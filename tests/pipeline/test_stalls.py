"""A partition that has records and brings none: noticed, told, started anew, then the consumer."""

from __future__ import annotations

import pytest

from pipeline import limits
from pipeline.errors import Retriable, Stuck
from pipeline.observe import Observer
from pipeline.stalls import Stalls
from tests.pipeline.world import TestClock


class Told(Observer):
    def __init__(self) -> None:
        self.lags: list[dict[int, int]] = []
        self.stalls: list[tuple[int, int, int, float]] = []

    def lag(self, lag: object) -> None:
        assert isinstance(lag, dict)
        self.lags.append(lag)

    def stalled(self, partition: int, position: int, end: int, seconds: float) -> None:
        self.stalls.append((partition, position, end, seconds))


class Lagging:
    """A source with this lag; remembers what was started."""

    def __init__(self, lag: dict[int, int] | None) -> None:
        self.behind = lag
        self.asked = 0
        self.started: list[tuple[int, int | None]] = []

    def lag(self) -> dict[int, int] | None:
        self.asked += 1
        return self.behind

    def start(self, partition: int, offset: int | None) -> None:
        self.started.append((partition, offset))


class Watched:
    """Looks once a second."""

    def __init__(self, lag: dict[int, int] | None) -> None:
        self.clock, self.told, self.source = TestClock(), Told(), Lagging(lag)
        self.stalls = Stalls(self.clock, self.told)
        self.held: dict[int, int | None] = {0: 10, 1: None}

    def for_seconds(self, seconds: float) -> list[bool]:
        said = []
        for _ in range(int(seconds)):
            said.append(self.stalls.look(self.source, self.held))  # type: ignore[arg-type]
            self.clock.now += 1
        return said


def test_it_asks_every_few_seconds_only() -> None:
    watched = Watched({})
    watched.for_seconds(3 * limits.LAG_EVERY_S)
    assert watched.source.asked == 3
    assert watched.told.lags == [{}, {}, {}]


def test_a_stalled_partition_is_told_and_started_anew_where_it_is_folded_up_to() -> None:
    watched = Watched({0: 5, 1: 0})
    watched.for_seconds(limits.STALLED_S)
    assert watched.source.started == []
    watched.for_seconds(limits.LAG_EVERY_S)
    assert watched.source.started == [(0, 10)]
    assert watched.told.stalls == [(0, 10, 15, limits.STALLED_S)]


def test_one_that_was_never_folded_is_started_from_its_beginning() -> None:
    watched = Watched({1: 5})
    watched.for_seconds(limits.STALLED_S + 1)
    assert watched.source.started == [(1, None)]


def test_when_that_does_not_help_the_consumer_is_broken() -> None:
    watched = Watched({0: 5})
    with pytest.raises(Retriable, match="partition 0 brings nothing from offset 10 on"):
        watched.for_seconds(2 * limits.STALLED_S + limits.LAG_EVERY_S)
    assert watched.clock.now == pytest.approx(2 * limits.STALLED_S)
    assert watched.source.started == [(0, 10)]
    watched.clock.now += limits.LAG_EVERY_S
    watched.for_seconds(limits.STALLED_S)  # counted from the beginning again
    assert watched.source.started == [(0, 10)]


def test_what_moves_is_not_stalled_however_slow() -> None:
    watched = Watched({0: 5})
    for folded in range(10, 20):
        watched.held[0] = folded
        watched.for_seconds(limits.STALLED_S - limits.LAG_EVERY_S)
    assert watched.told.stalls == []


def test_what_is_not_held_is_not_watched_and_forgotten() -> None:
    watched = Watched({0: 5})
    watched.for_seconds(limits.STALLED_S - 1)
    del watched.held[0]
    watched.for_seconds(limits.STALLED_S)
    watched.held[0] = 10
    watched.for_seconds(limits.STALLED_S)
    assert watched.told.stalls == []


def test_nothing_is_said_while_partitions_are_dealt_out() -> None:
    watched = Watched(None)
    watched.for_seconds(limits.RESTLESS_S)
    assert (watched.told.lags, watched.told.stalls) == ([], [])


def test_a_group_that_never_comes_to_rest_is_joined_anew() -> None:
    watched = Watched(None)
    with pytest.raises(Stuck, match="has not come to rest"):
        watched.for_seconds(limits.RESTLESS_S + 2 * limits.LAG_EVERY_S)
    watched.for_seconds(limits.RESTLESS_S)  # counted from the beginning again
    watched.source.behind = {}
    watched.for_seconds(2 * limits.LAG_EVERY_S)
    watched.source.behind = None
    watched.for_seconds(limits.RESTLESS_S)


def test_behind_full_polls_a_partition_may_wait_longer_for_its_turn() -> None:
    watched = Watched({0: 5})
    watched.for_seconds(limits.LAG_EVERY_S)
    watched.stalls.polled(full=True)
    watched.for_seconds(limits.STALLED_BUSY_S - 2 * limits.LAG_EVERY_S)
    assert watched.told.stalls == []
    watched.for_seconds(3 * limits.LAG_EVERY_S)
    assert len(watched.told.stalls) == 1


def test_idle_is_two_looks_at_nothing_to_fold_without_a_failure_between() -> None:
    watched = Watched({0: 0})
    assert watched.for_seconds(limits.LAG_EVERY_S).count(True) == 0
    assert watched.for_seconds(limits.LAG_EVERY_S).count(True) == 1
    watched.stalls.failed()
    assert watched.for_seconds(limits.LAG_EVERY_S).count(True) == 0
    assert watched.for_seconds(limits.LAG_EVERY_S).count(True) == 1
    watched.source.behind = {0: 1}
    assert watched.for_seconds(limits.LAG_EVERY_S).count(True) == 0
