"""What the feed needs of the topics: all partitions of its roles, read without a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from pipeline.memory import MemoryBroker
from pipeline.ports import InRecord
from pipeline.topics import Names

from .changes import Offsets, Place

ROLES = ("transcript", "surface", "partials", "overview", "events")  #: what is read
Bounds: TypeAlias = Mapping[Place, tuple[int, int]]
"""Per place the first offset that is kept, and the one after the last that can be read."""
Held: TypeAlias = frozenset[Place]


class Taken(Struct, frozen=True):
    """Committed records by role, in the order of their offsets per partition, and of each place
    that moved the next offset."""

    records: Mapping[str, Sequence[InRecord]]
    offsets: Offsets


class Records(Protocol):
    """What is read on and on; raises as `Tail`."""

    def take(self, timeout_s: float, held: Held = frozenset()) -> Taken:
        """The next records, perhaps none within ``timeout_s``; of the places ``held`` none."""
        ...

    def written(self, places: Iterable[Place]) -> Offsets:
        """After the last record of each, whatever becomes of it: open transactions count."""
        ...


class Tail(Records, Protocol):
    """Raises `Retriable` while the brokers do not answer, `Fatal` for what will not pass."""

    def identity(self) -> str:
        """Which very topics these are: another text for topics that were made again."""
        ...

    def bounds(self) -> Bounds: ...

    def start(self, offsets: Offsets) -> None:
        """Read on from there; every place is named."""
        ...

    def close(self) -> None:
        """Idempotent; never raises."""
        ...


class MemoryTail:
    """Topics in memory. They live as long as their broker, whom ``name`` tells from others."""

    def __init__(self, broker: MemoryBroker, names: Names, name: str, limit: int = 2_000) -> None:
        self._broker = broker
        self._names = names
        self._name = name
        self._limit = limit
        self._at: dict[Place, int] = {}

    def identity(self) -> str:
        return f"memory {self._name} {self._names.prefix}"

    def bounds(self) -> Bounds:
        topics = self._broker.topics()
        return {
            (role, partition): (0, self._broker.stable(topic, partition))
            for role in ROLES
            for topic in (self._names.of(role),)
            for partition in range(topics[topic])
        }

    def start(self, offsets: Offsets) -> None:
        self._at = dict(offsets)

    def take(self, timeout_s: float, held: Held = frozenset()) -> Taken:
        with self._broker.changed:
            taken = self._now(held)
            if not taken.offsets and timeout_s > 0:
                self._broker.changed.wait(timeout_s)
                taken = self._now(held)
        return taken

    def written(self, places: Iterable[Place]) -> Offsets:
        return {at: self._broker.end(self._names.of(at[0]), at[1]) for at in places}

    def _now(self, held: Held) -> Taken:
        records: dict[str, list[InRecord]] = {}
        moved: dict[Place, int] = {}
        for (role, partition), at in self._at.items():
            if (role, partition) in held:
                continue
            topic = self._names.of(role)
            found, after = self._broker.fetch(topic, partition, at, self._limit)
            if after > at:
                moved[role, partition] = after
                records.setdefault(role, []).extend(found)
        self._at |= moved
        return Taken(records, moved)

    def close(self) -> None:
        """Nothing is open."""


def places(counts: Mapping[str, int]) -> Iterable[Place]:
    """Every place, by the number of partitions of each role."""
    return ((role, partition) for role, count in counts.items() for partition in range(count))
