"""What the worker needs from the world: the protocols, and which semantics are part of them.

Two implementations stand behind each: ``memory.py`` and kafka-python (``source.py``, ``sink.py``).
``tests/contracts/`` runs one suite over both. What an implementation may raise is `Retriable`,
`Fenced`, `CommitUnknown`, `Poison` or `Fatal`, and nothing of its own.

Deliberately not part of the contract: which thread resolves a send, how many records one poll
returns within its bound, the order between partitions, and whether offsets are dense (transaction
markers and compaction leave holes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from . import limits
from .errors import Poison, Retriable

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class InRecord(Struct, frozen=True, gc=False):
    """One record as read. ``timestamp`` in epoch ms; ``headers`` in order, repeats allowed."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class OutRecord(Struct, frozen=True, gc=False):
    """One record to publish. ``role`` is a topic's role (`topics.Names`), not its name; ``value``
    None is a tombstone. ``partition`` is explicit always; the sink takes it modulo for roles whose
    topic has another number of partitions (the dead letters)."""

    role: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class Member(Struct, frozen=True):
    """A consumer's place in its group at one moment; ``token`` is the implementation's own."""

    generation: int
    member_id: str
    token: object = None

    @property
    def joined(self) -> bool:
        return self.generation >= 0 and self.member_id != ""


class Polled(Struct, frozen=True):
    """What one poll brought.

    First ``revoked`` happened, then ``assigned``; a partition may stand in both (lost and given
    back). ``records`` holds only partitions that were assigned throughout and started. ``member``
    was taken right after the poll: offsets sent with it are refused once the group moved on."""

    records: Mapping[int, Sequence[InRecord]]
    member: Member
    revoked: tuple[int, ...] = ()
    assigned: tuple[int, ...] = ()


class Source(Protocol):
    """One member of the consumer group that shares the partitions of the events topic."""

    def poll(self, timeout: float) -> Polled:
        """Wait at most ``timeout`` seconds. A newly assigned partition brings no records before
        `start`. The only call during which partitions change hands."""
        ...

    def committed(self, partitions: Iterable[int]) -> dict[int, int | None]:
        """Each partition's committed offset, None if never committed. Waits while a transaction
        that carries offsets is open, then raises `Retriable`."""
        ...

    def start(self, partition: int, offset: int | None) -> None:
        """Read ``partition`` from ``offset`` on (None: from its beginning). Ignored when the
        partition is no longer ours."""
        ...

    def behind(self) -> int | None:
        """Offsets between the positions of the started partitions and their ends, as readable
        now; 0 when all is read. None while the group is dealing out partitions."""
        ...

    def close(self) -> None:
        """Leave the group. Idempotent."""
        ...


class Transaction(Protocol):
    """One open transaction; the steps in the order of `commit.deliver`. Never aborted by us: a
    transaction that cannot commit is abandoned with its producer (`Sink.abandon`)."""

    def send(self, record: OutRecord) -> None:
        """Hand over one record; its outcome is known at `flush`. `Poison` if it is too large."""
        ...

    def send_offsets(self, offsets: Mapping[int, int], member: Member) -> None:
        """Offsets of the *next* records to read, on behalf of ``member``. A member that never
        joined, or whose generation passed, is refused."""
        ...

    def flush(self) -> None:
        """Return when every record sent is acknowledged; raise if one is not."""
        ...

    def commit(self) -> None:
        """All or nothing. Raises `CommitUnknown` when the outcome cannot be known."""
        ...


class Sink(Protocol):
    """The transactional producer of one worker (application id + instance)."""

    def open(self) -> None:
        """Make a producer and fence every earlier one of the same name; what such a one left open
        is aborted. Called before the first poll, and after each `abandon`."""
        ...

    def begin(self) -> Transaction: ...

    def abandon(self) -> None:
        """Drop the producer and whatever it has open. Never raises, never blocks long."""
        ...

    def close(self) -> None: ...


class Reader(Protocol):
    """Topics read at rest, without a group: state restore, ``verify``, ``deadletter``, ``show``."""

    def partitions(self, topic: str) -> int:
        """Number of partitions; 0 if there is no such topic."""
        ...

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """First offset kept, and the offset after the last one written (committed or not)."""
        ...

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        """Committed records with ``start`` ≤ offset < ``end`` (None: the end of this moment), in
        order. Waits for transactions that are open below ``end``; raises `Retriable` if there is
        no progress for long."""
        ...

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The group's committed offset per partition; one without any is left out."""
        ...

    def close(self) -> None: ...


Segment: TypeAlias = tuple[str, str, bytes | None]
"""Session id, segment of its snapshot ("" is the head), bytes (None: gone)."""


class StateStore(Protocol):
    """Snapshots of cold sessions as bytes, per partition: what the state topic says, locally."""

    def write(self, partition: int, items: Iterable[Segment]) -> None:
        """Apply changed segments in order; a value None deletes the segment."""
        ...

    def segments(self, partition: int, session: str) -> Mapping[str, bytes] | None:
        """All segments of one session, None if there are none."""
        ...

    def sessions(self, partition: int) -> int:
        """How many sessions of the partition are known."""
        ...

    def drop(self, partition: int) -> None:
        """Forget the partition: it is somebody else's now."""
        ...


class Clock(Protocol):
    """Time for retries and budgets; the fold never reads one (house.md, habit 6)."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None: ...


def require_joined(member: Member) -> None:
    """Refuse offsets of a member without a generation: a broker *accepts* them, over the head of
    whoever owns the partitions now."""
    if not member.joined:
        raise Retriable(f"the worker is not in its group (generation {member.generation})")


def too_large(record: OutRecord, size: int) -> Poison:
    """What a sink raises for a record above the limit."""
    return Poison(
        f"a record of {size} bytes for {record.role} (key {record.key!r}) is above the limit of "
        f"{limits.MAX_OUTPUT_RECORD_BYTES}",
        "the session cannot be carried on; raise pipeline/limits.py and the topic's "
        "max.message.bytes together",
    )
