"""Topics in memory, with Kafka's semantics as far as the pipeline leans on them.

Partitions with offsets, transactions (a marker takes an offset, aborted records stay but are not
read), the last stable offset, producer fencing by transactional id, consumer groups with
generations, and offsets inside transactions. Product code: `up --broker memory`, replay and tests
run on it. Thread-safe; nothing is persisted. ``memory_ends.py`` puts the ports on top, and
``kafka/simulated.py`` a client of kafka-python's shape, which talks to ``memory_log.py``,
``memory_transactions.py`` and ``memory_groups.py`` as to a real broker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from .errors import CommitUnknown, Fatal, Fenced, Retriable
from .memory_groups import Offsets
from .memory_log import Log, Refusal
from .memory_transactions import ABORTED, COMMITTED, Markers, Transactions
from .ports import Headers, InRecord, Member


class Txn(Struct, eq=False):
    """One transaction of a producer; ``at`` is its producer id and epoch."""

    name: str
    at: tuple[int, int]
    began: bool = False
    outcome: str = "open"  #: open, committed or aborted


class _Place(Struct):
    """What a member was given, and what it lost since it last looked."""

    partitions: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()


class _Group(Struct):
    """Members in the order they joined."""

    topic: str
    generation: int = 0
    members: dict[str, _Place] = {}


class MemoryBroker:
    """All topics of one process. ``now_ms`` stamps records with their time of producing."""

    def __init__(
        self,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now_ms = now_ms
        self._topics: dict[str, list[Log]] = {}
        self._groups: dict[str, _Group] = {}
        self._joined = 0
        self.version = 0  #: of what can be read
        self.transactions = Transactions(monotonic, self.write_markers)
        self.offsets = Offsets()
        self.changed = threading.Condition(threading.RLock())

    # --- topics -----------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic; one that exists with as many partitions is left as it is."""
        with self.changed:
            has = self._topics.get(topic)
            if has is not None and len(has) != partitions:
                raise Fatal(
                    f"topic {topic} has {len(has)} partitions, not {partitions}",
                    "use another name or the same number",
                )
            self._topics.setdefault(topic, [Log() for _ in range(partitions)])

    def lose(self, topic: str) -> None:
        """Everything that stands in the topic is gone, as after it was deleted and made anew."""
        with self.changed:
            self._topics[topic] = [Log() for _ in self._topics[topic]]

    def topics(self) -> dict[str, int]:
        """Name → number of partitions."""
        with self.changed:
            return {name: len(logs) for name, logs in self._topics.items()}

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        txn: Txn | None = None,
    ) -> int:
        """Write one record and return its offset; readable at once outside a transaction."""
        with self.changed:
            self.log(topic, partition)
            writer = None
            if txn is not None:
                self._require(txn)
                with _translated(txn.name):
                    self.transactions.add(txn.name, txn.at, {(topic, partition)})
                txn.began, writer = True, txn.at[0]
            return self.put(topic, partition, (key, value, headers), writer)

    def put(
        self,
        topic: str,
        partition: int,
        what: tuple[bytes | None, bytes | None, Headers],
        writer: int | None,
    ) -> int:
        """Key, value and headers onto the log, whoever ``writer`` is (`Log.append`)."""
        key, value, headers = what
        with self.changed:
            log = self.log(topic, partition)
            record = InRecord(topic, partition, log.end, self._now_ms(), key, value, tuple(headers))
            log.append(record, writer)
            self.version += 1
            self.changed.notify_all()
        return record.offset

    def log(self, topic: str, partition: int) -> Log:
        logs = self._topics.get(topic)
        if logs is None:
            raise Fatal(f"topic {topic} does not exist", "run `foldstream topics create`")
        if not 0 <= partition < len(logs):
            raise Fatal(f"topic {topic} has no partition {partition} (it has {len(logs)})")
        return logs[partition]

    # --- reading ----------------------------------------------------------------------------------

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last one written, whatever becomes of it."""
        with self.changed:
            return self.log(topic, partition).end

    def stable(self, topic: str, partition: int) -> int:
        """The last stable offset: everything below it is decided."""
        with self.changed:
            return self.log(topic, partition).stable

    def fetch(
        self, topic: str, partition: int, start: int, limit: int
    ) -> tuple[list[InRecord], int]:
        """At most ``limit`` committed records from ``start``, and the position after them; it
        moves over markers and aborted records too."""
        with self.changed:
            return self.log(topic, partition).fetch(start, limit)

    # --- transactions -----------------------------------------------------------------------------

    def init_producer(self, name: str) -> int:
        """A new producer epoch for a transactional id; the open transaction of an earlier one is
        aborted, and its every later call raises `Fenced`."""
        with self.changed:
            return self.transactions.init(name, float("inf"))[1]

    def begin(self, name: str, epoch: int) -> Txn:
        with self.changed, _translated(name):
            at = (self.transactions.producer_id(name) or 0, epoch)
            self.transactions.require(name, at)
            return Txn(name, at)

    def add_offsets(self, txn: Txn, group: str, offsets: Mapping[int, int], member: Member) -> None:
        """Offsets that count when the transaction commits; a stale member is refused."""
        with self.changed, _translated(txn.name):
            self._require(txn)
            known = self._groups.get(group)
            if known is None or member.member_id not in known.members:
                raise Retriable(f"{member.member_id or 'a member'} is not in group {group}")
            if member.generation != known.generation:
                raise Retriable(
                    f"generation {member.generation} of group {group} has passed "
                    f"(now {known.generation})"
                )
            self.transactions.add(txn.name, txn.at, set(), group)
            txn.began = True
            places = {(known.topic, partition): offset for partition, offset in offsets.items()}
            self.offsets.add(group, txn.at[0], places)

    def commit(self, txn: Txn) -> None:
        self._end(txn, COMMITTED)

    def abort(self, txn: Txn) -> None:
        """End it without effect; what the coordinator does when a transaction times out."""
        self._end(txn, ABORTED)

    def _end(self, txn: Txn, outcome: str) -> None:
        with self.changed, _translated(txn.name):
            self._require(txn)
            txn.outcome = outcome
            if txn.began:
                self.transactions.end(txn.name, txn.at, outcome)

    def _require(self, txn: Txn) -> None:
        with _translated(txn.name):
            self.transactions.require(txn.name, txn.at)
        if txn.outcome != "open":
            raise CommitUnknown(f"the transaction of {txn.name} is {txn.outcome} already")

    def write_markers(self, markers: Markers) -> None:
        """What a coordinator decided becomes visible."""
        commits = markers.outcome == COMMITTED
        with self.changed:
            for topic, partition in markers.places:
                self.log(topic, partition).mark(markers.producer_id, markers.epoch, markers.outcome)
            for group in markers.groups:
                self.offsets.mark(group, markers.producer_id, commits)
            self.transactions.written(markers.name)
            self.version += 1
            self.changed.notify_all()

    # --- groups -----------------------------------------------------------------------------------

    def join(self, group: str, topic: str) -> str:
        """A new member; partitions are dealt anew and the generation rises."""
        with self.changed:
            known = self._groups.setdefault(group, _Group(topic))
            self._joined += 1
            member = f"member-{self._joined}"
            known.members[member] = _Place()
            self._deal(known)
            return member

    def leave(self, group: str, member: str) -> None:
        """The member goes, or is taken for dead."""
        with self.changed:
            known = self._groups.get(group)
            if known is not None and known.members.pop(member, None) is not None:
                self._deal(known)

    def members(self, group: str) -> tuple[str, ...]:
        """Who is in the group, in the order they joined."""
        with self.changed:
            return tuple(self._groups[group].members) if group in self._groups else ()

    def _deal(self, group: _Group) -> None:
        """Partition ``p`` goes to member ``p mod n``."""
        group.generation += 1
        count = len(self._topics[group.topic])
        for index, place in enumerate(group.members.values()):
            mine = frozenset(range(index, count, len(group.members)))
            place.lost |= place.partitions - mine
            place.partitions = mine
        self.changed.notify_all()

    def look(self, group: str, member: str) -> tuple[Member, frozenset[int], frozenset[int]]:
        """The member's place now, its partitions, and those it lost since it last looked (perhaps
        given back since); without a generation once it was taken for dead."""
        with self.changed:
            known = self._groups[group]
            place = known.members.get(member)
            if place is None:
                return Member(-1, ""), frozenset(), frozenset()
            lost, place.lost = place.lost, frozenset()
            return Member(known.generation, member), place.partitions, lost

    def subscribed(self, group: str, topic: str) -> bool:
        """Whether the group has anything to do with this topic."""
        with self.changed:
            known = self._groups.get(group)
            if known is not None and known.topic == topic:
                return True
            return any(place[0] == topic for place in self.offsets.committed(group))

    def committed(self, group: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """Committed offsets; `Retriable` while an open transaction carries some of the group."""
        with self.changed:
            if not self.offsets.decided(group):
                raise Retriable(f"a transaction with offsets of group {group} is open")
            offsets = {place[1]: at for place, at in self.offsets.committed(group).items()}
            wanted = offsets.keys() if partitions is None else frozenset(partitions)
            return {partition: at for partition, at in offsets.items() if partition in wanted}


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """A broker's answers as what the ports say."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code in ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"):
            raise Fenced(f"a newer producer has the transactional id {name}") from refusal
        raise CommitUnknown(f"the transaction of {name}: {refusal.code}") from refusal
