"""What a worker tells while it works: the loop calls these on its own thread, after the fact.

An observer never raises and never blocks: what it does is counted into the time of a batch. One
that only some of it concerns overrides those methods; the others do nothing."""

from __future__ import annotations

from collections.abc import Mapping

from .commit import Folded
from .errors import Retriable
from .ports import Polled


class Observer:
    """Nothing is told to anybody. Times in seconds, sizes in bytes, positions in offsets."""

    def polled(self, polled: Polled) -> None:
        """A poll returned, with records or without."""

    def rebalanced(self, revoked: tuple[int, ...], assigned: tuple[int, ...]) -> None:
        """Partitions changed hands: first ``revoked`` went (or were lost), then ``assigned``
        came."""

    def restoring(self, partition: int, done: int, total: int) -> None:
        """So far ``done`` of ``total`` offsets of the state topic are read."""

    def restored(
        self, partition: int, sessions: int, records: int, size: int, seconds: float
    ) -> None:
        """The states of a partition are complete: ``records`` of ``size`` bytes were read from
        the state topic (none, where the local store had all), and it holds ``sessions``."""

    def batch(self, folded: Folded, seconds: Mapping[str, float]) -> None:
        """A batch is committed; ``seconds`` by phase: ``fold``, ``send``, ``flush``, ``commit``."""

    def failed(self, error: Retriable) -> None:
        """A batch or a call failed; the producer is rebuilt next."""

    def rebuilt(self, seconds: float) -> None:
        """A new producer stands, ``seconds`` after the failure."""

    def lag(self, lag: Mapping[int, int]) -> None:
        """Per started partition: offsets from the position to the readable end."""

    def stalled(self, partition: int, position: int, end: int, seconds: float) -> None:
        """Nothing came from ``position`` for so long, although the partition ends at ``end``."""

    def turned(self) -> None:
        """The loop is alive: it went round once more."""


class Observers(Observer):
    """Each of several is told, in their order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def polled(self, polled: Polled) -> None:
        for each in self._observers:
            each.polled(polled)

    def rebalanced(self, revoked: tuple[int, ...], assigned: tuple[int, ...]) -> None:
        for each in self._observers:
            each.rebalanced(revoked, assigned)

    def restoring(self, partition: int, done: int, total: int) -> None:
        for each in self._observers:
            each.restoring(partition, done, total)

    def restored(
        self, partition: int, sessions: int, records: int, size: int, seconds: float
    ) -> None:
        for each in self._observers:
            each.restored(partition, sessions, records, size, seconds)

    def batch(self, folded: Folded, seconds: Mapping[str, float]) -> None:
        for each in self._observers:
            each.batch(folded, seconds)

    def failed(self, error: Retriable) -> None:
        for each in self._observers:
            each.failed(error)

    def rebuilt(self, seconds: float) -> None:
        for each in self._observers:
            each.rebuilt(seconds)

    def lag(self, lag: Mapping[int, int]) -> None:
        for each in self._observers:
            each.lag(lag)

    def stalled(self, partition: int, position: int, end: int, seconds: float) -> None:
        for each in self._observers:
            each.stalled(partition, position, end, seconds)

    def turned(self) -> None:
        for each in self._observers:
            each.turned()
