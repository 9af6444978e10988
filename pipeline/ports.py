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

    def committed(
        self, partitions: Iterable[int], wait_s: float = limits.COMMITTED_TIMEOUT_S
    ) -> dict[int, int | None]:
        """Each partition's committed offset, None if never committed. Waits at most ``wait_s``
        while a transaction that carries offsets is open, then raises `Retriable`. `Fatal` if the
        offsets are those of another topic of the same name."""
        ...

    def start(self, partition: int, offset: int | None) -> None:
        """Read ``partition`` from ``offset`` on (None: from its beginning). Ignored when the
        partition is no longer ours."""
        ...

    def pause(self, partitions: Iterable[int]) -> None:
        """No more records from ``partitions`` until they are started again."""
        ...

    def lag(self) -> dict[int, int] | None:
        """Per started partition the offsets between its position and its end, as readable now; 0
        when all is read. None while the group is dealing out partitions, or if a broker does not
        tell at once."""
        ...

    def current(self, member: Member) -> bool:
        """Whether the group is still as it was when ``member`` was taken, as far as is known here
        without asking the broker."""
        ...

    def ownerless(self) -> frozenset[int]:
        """Partitions that no member holds although the group is at rest. Empty, too, while this
        member is not the one to do something about it. `Retriable` if that cannot be told."""
        ...

    def abandon(self, *, leave: bool = False) -> None:
        """Drop the consumer, which may be broken. Never raises, never blocks long. The next poll
        joins anew, under the same name, and reports all that was held as revoked. ``leave``: the
        place in the group is given up, so that all partitions are dealt out again."""
        ...

    def close(self, *, leave: bool = True) -> None:
        """Idempotent. ``leave``: the place in the group is given up at once; else it is kept for
        the member's return within its session timeout."""
        ...


class Transaction(Protocol):
    """One open transaction; the steps in the order of `commit.deliver`. Never aborted by us: a
    transaction that cannot commit is abandoned with its producer (`Sink.abandon`)."""

    def send_offsets(self, offsets: Mapping[int, int], member: Member) -> None:
        """Begin to commit the offsets of the *next* records to read, on behalf of ``member``;
        `flush` waits for it. A member that never joined, or whose generation passed, is refused:
        here or there."""
        ...

    def send(self, record: OutRecord) -> None:
        """Hand over one record; its outcome is known at `flush`. `Poison` if it is too large."""
        ...

    def flush(self) -> dict[int, int]:
        """Return when the offsets and every record sent are acknowledged; raise if one is not. For
        each partition of the state topic it gives the offset after the last record sent there."""
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


class Cursor(Protocol):
    """A bounded read of one partition in slices: committed records below ``end``, in order."""

    @property
    def position(self) -> int:
        """Everything below it was taken, markers and aborted records included."""
        ...

    @property
    def done(self) -> bool: ...

    def take(self, timeout_s: float) -> Sequence[InRecord]:
        """The next records, perhaps none within ``timeout_s``. `Retriable` without any progress
        for long: a transaction that is open below the end holds it."""
        ...

    def close(self) -> None:
        """Idempotent; never raises."""
        ...


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

    def cursor(self, topic: str, partition: int, start: int, end: int) -> Cursor:
        """`read` in slices, for who has other things to do meanwhile."""
        ...

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The group's committed offset per partition; one without any is left out. While an open
        transaction carries some of them, its end is waited for, in the end `Retriable`."""
        ...

    def close(self) -> None: ...


Segment: TypeAlias = tuple[str, str, bytes | None]
"""Session id, segment of its snapshot ("" is the head), bytes (None: gone)."""


class StateStore(Protocol):
    """Snapshots of cold sessions as bytes, per partition, and the offset of the state topic that
    they stand for. Both change in one step: a crash never leaves the one without the other."""

    def open(self, partition: int) -> int | None:
        """Take the partition up; the offset of the state topic to read on from. None: nothing that
        can be used is held (what could not be is wiped, and the log says why)."""
        ...

    def write(
        self,
        partition: int,
        items: Iterable[Segment],
        position: int,
        *,
        current: bool = True,
    ) -> None:
        """Apply changed segments in order; a value None deletes the segment. ``position`` is the
        offset after the last record of the state topic that is now part of it. Not ``current``:
        that topic is still being read, and may hold more."""
        ...

    def segments(self, partition: int, session: str) -> Mapping[str, bytes] | None:
        """All segments of one session, None if it has no head."""
        ...

    def sessions(self, partition: int) -> int:
        """How many sessions of the partition are known, without looking through them."""
        ...

    def release(self, partition: int) -> None:
        """Somebody else's now. What is held may stay for its return."""
        ...

    def wipe(self, partition: int) -> None:
        """Forget the partition: what is held is not to be believed."""
        ...

    def close(self) -> None: ...


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
