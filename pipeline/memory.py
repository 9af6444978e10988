"""Topics in memory, with Kafka's semantics as far as the pipeline leans on them.

Partitions with offsets, transactions (a marker takes an offset, aborted records stay but are not
read), the last stable offset, producer fencing by transactional id, consumer groups with
generations, and offsets inside transactions. Product code: `up --broker memory`, replay and tests
run on it. Thread-safe; nothing is persisted. ``memory_ends.py`` puts the ports on top.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from .errors import CommitUnknown, Fatal, Fenced, Retriable
from .ports import Headers, InRecord, Member


class Txn(Struct, eq=False):
    """One transaction: where it wrote, the offsets it carries, and how it ended."""

    name: str
    epoch: int
    first: dict[tuple[str, int], int] = {}
    offsets: dict[str, dict[int, int]] = {}
    outcome: str = "open"  #: open, committed or aborted


class _Slot(Struct, frozen=True, gc=False):
    """One offset: a record, or a transaction marker (``record`` None)."""

    record: InRecord | None
    txn: Txn | None


class _Place(Struct):
    """What a member was given, and what it lost since it last looked."""

    partitions: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()


class _Group(Struct):
    """Members in the order they joined."""

    topic: str
    generation: int = 0
    members: dict[str, _Place] = {}
    offsets: dict[int, int] = {}


class MemoryBroker:
    """All topics of one process. ``now_ms`` stamps records with their time of producing."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._topics: dict[str, list[list[_Slot]]] = {}
        self._groups: dict[str, _Group] = {}
        self._producers: dict[str, int] = {}
        self._open: dict[str, Txn] = {}
        self._joined = 0
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
            self._topics.setdefault(topic, [[] for _ in range(partitions)])

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
            log = self._log(topic, partition)
            if txn is not None:
                self._require(txn)
                txn.first.setdefault((topic, partition), len(log))
            record = InRecord(
                topic, partition, len(log), self._now_ms(), key, value, tuple(headers)
            )
            log.append(_Slot(record, txn))
            self.changed.notify_all()
            return record.offset

    def _log(self, topic: str, partition: int) -> list[_Slot]:
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
            return len(self._log(topic, partition))

    def stable(self, topic: str, partition: int) -> int:
        """The last stable offset: everything below it is decided."""
        with self.changed:
            at = (topic, partition)
            firsts = (txn.first[at] for txn in self._open.values() if at in txn.first)
            return min(firsts, default=len(self._log(topic, partition)))

    def fetch(
        self, topic: str, partition: int, start: int, limit: int
    ) -> tuple[list[InRecord], int]:
        """At most ``limit`` committed records from ``start``, and the position after them; it
        moves over markers and aborted records too."""
        with self.changed:
            log, stable = self._log(topic, partition), self.stable(topic, partition)
            found: list[InRecord] = []
            position = start
            while position < stable and len(found) < limit:
                slot = log[position]
                if slot.record is not None and (slot.txn is None or slot.txn.outcome != "aborted"):
                    found.append(slot.record)
                position += 1
            return found, position

    # --- transactions -----------------------------------------------------------------------------

    def init_producer(self, name: str) -> int:
        """A new producer epoch for a transactional id; the open transaction of an earlier one is
        aborted, and its every later call raises `Fenced`."""
        with self.changed:
            left = self._open.get(name)
            if left is not None:
                self._end(left, "aborted")
            self._producers[name] = self._producers.get(name, -1) + 1
            return self._producers[name]

    def begin(self, name: str, epoch: int) -> Txn:
        with self.changed:
            txn = Txn(name, epoch)
            self._require_epoch(txn)
            self._open[name] = txn
            return txn

    def add_offsets(self, txn: Txn, group: str, offsets: Mapping[int, int], member: Member) -> None:
        """Offsets that count when the transaction commits; a stale member is refused."""
        with self.changed:
            self._require(txn)
            known = self._groups.get(group)
            if known is None or member.member_id not in known.members:
                raise Retriable(f"{member.member_id or 'a member'} is not in group {group}")
            if member.generation != known.generation:
                raise Retriable(
                    f"generation {member.generation} of group {group} has passed "
                    f"(now {known.generation})"
                )
            txn.offsets.setdefault(group, {}).update(offsets)

    def commit(self, txn: Txn) -> None:
        with self.changed:
            self._require(txn)
            for group, offsets in txn.offsets.items():
                self._groups[group].offsets.update(offsets)
            self._end(txn, "committed")

    def abort(self, txn: Txn) -> None:
        """End it without effect; what the coordinator does when a transaction times out."""
        with self.changed:
            self._require(txn)
            self._end(txn, "aborted")

    def _end(self, txn: Txn, outcome: str) -> None:
        txn.outcome = outcome
        del self._open[txn.name]
        for topic, partition in txn.first:
            self._log(topic, partition).append(_Slot(None, txn))
        self.changed.notify_all()

    def _require_epoch(self, txn: Txn) -> None:
        if self._producers.get(txn.name) != txn.epoch:
            raise Fenced(f"a newer producer has the transactional id {txn.name}")

    def _require(self, txn: Txn) -> None:
        self._require_epoch(txn)
        if txn.outcome != "open":
            raise CommitUnknown(f"the transaction of {txn.name} is {txn.outcome} already")

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
        """Whether there is such a group and it shares this topic."""
        with self.changed:
            known = self._groups.get(group)
            return known is not None and known.topic == topic

    def committed(self, group: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """Committed offsets; `Retriable` while an open transaction carries some of the group."""
        with self.changed:
            if any(group in txn.offsets for txn in self._open.values()):
                raise Retriable(f"a transaction with offsets of group {group} is open")
            known = self._groups.get(group)
            offsets = known.offsets if known else {}
            wanted = offsets.keys() if partitions is None else frozenset(partitions)
            return {partition: at for partition, at in offsets.items() if partition in wanted}
