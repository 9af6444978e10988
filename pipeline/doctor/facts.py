"""What ``doctor`` looks at and what it says: facts of a deployment, findings about them.

Checks are functions from facts to findings and need no broker; `Probe` is what a cluster answers
(`pipeline/kafka/doctor.py`). What it cannot answer it raises as a `PipelineError`, which becomes a
finding: a doctor without a right says what it could not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from pipeline.topics import Found, Names

Level: TypeAlias = Literal["ok", "warn", "fail"]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Finding(Struct, frozen=True):
    """One thing looked at. ``check`` is a stable name, ``where`` a topic, group, broker or folder;
    ``remedy`` what to do, a command where there is one. *fail*: records or the proof are in danger,
    or nothing goes on; *warn*: it will be one day, or it cannot be told."""

    level: Level
    check: str
    where: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level:<4} {self.check:<13} {self.where}: {self.what}{remedy}"


class Broker(Struct, frozen=True):
    """``version`` as (major, minor), as far as the protocol tells; ``features`` those in effect."""

    id: int
    address: str
    version: tuple[int, ...] | None = None
    fenced: bool = False
    features: Mapping[str, int] = {}


class Copies(Struct, frozen=True):
    """One partition's replicas; ``leader`` -1: nobody."""

    topic: str
    partition: int
    leader: int
    replicas: int
    in_sync: int


class Member(Struct, frozen=True):
    id: str
    client: str
    host: str
    instance: str | None
    partitions: tuple[int, ...]


class Group(Struct, frozen=True):
    """``state`` as Kafka calls it: Stable, Empty, PreparingRebalance, CompletingRebalance, Dead."""

    state: str
    members: tuple[Member, ...] = ()


class Offsets(Struct, frozen=True):
    """Of a partition of events: first kept, last stable, end, and the group's (None: none yet)."""

    begin: int
    stable: int
    end: int
    committed: int | None

    @property
    def lag(self) -> int:
        """Records that wait; those that expired do not."""
        return max(0, self.end - max(self.begin, self.committed or 0))


class Open(Struct, frozen=True):
    """A transaction that its partition holds to be open, since the record at ``start``; ``last_ms``
    is the time of the producer's last record."""

    topic: str
    partition: int
    producer: int
    start: int
    last_ms: int


class Transaction(Struct, frozen=True):
    """What the coordinator of a transactional id says; ``started_ms`` is by its clock."""

    id: str
    producer: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: frozenset[tuple[str, int]] = frozenset()

    @property
    def ongoing(self) -> bool:
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort")


class Probe(Protocol):
    """One cluster. Every method may raise `PipelineError`."""

    def cluster(self) -> str:
        """The cluster's id."""
        ...

    def brokers(self) -> list[Broker]: ...

    def settings(self) -> Mapping[str, str]:
        """One broker's settings; those that matter here are the same on all."""
        ...

    def topics(self, names: Iterable[str]) -> dict[str, Found]: ...
    def copies(self, topics: Iterable[str]) -> list[Copies]: ...
    def group(self, group: str) -> Group: ...
    def offsets(self, group: str, topic: str) -> dict[int, Offsets]: ...

    def stamp(self, topic: str, partition: int, offset: int) -> int | None:
        """The timestamp of the first committed record from ``offset`` on, epoch ms."""
        ...

    def newest(self, topic: str) -> int | None:
        """The greatest timestamp on a topic, epoch ms; None if it is empty."""
        ...

    def open_transactions(self, topics: Iterable[str]) -> list[Open]: ...

    def transactions(self, names: Names) -> list[Transaction]:
        """Those of the application's workers, and whichever have something open here."""
        ...


def plural(count: int, one: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def span(milliseconds: float) -> str:
    """A length of time for a person."""
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= 2 * size:
            return f"{milliseconds / size:.0f} {unit}"
    return f"{milliseconds:.0f} ms"
