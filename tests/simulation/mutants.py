"""Guards of the product taken away, each by its name: the simulation must find every one.

What two guards see to is taken away in both, as one would hide that the other is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from kafka import TopicPartition
from kafka import errors as raised

from pipeline import commit, loop, partitions
from pipeline import restore as restoring
from pipeline.errors import CommitUnknown, PipelineError, Retriable
from pipeline.kafka import sink, source
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.simulated import SimulatedClients
from pipeline.kafka.sink import KafkaSink, KafkaTransaction
from pipeline.kafka.source import KafkaSource
from pipeline.loop import Worker
from pipeline.ownership import Ownerless
from pipeline.ports import InRecord, Member, Polled, Segment
from pipeline.restore import Restore
from pipeline.state import States
from pipeline.store.memory import MemoryStore
from tests.simulation.fleet import KeptStore

Patches = Callable[[], Iterable[Any]]


@contextmanager
def applied(name: str) -> Iterator[None]:
    """The product without that guard; "" for the product as it is."""
    with ExitStack() as stack:
        for change in MUTANTS[name]() if name else ():
            stack.enter_context(change)
        yield


def _futures_not_looked_at() -> Iterable[Any]:
    flush = KafkaTransaction.flush

    def blind(self: Any) -> dict[int, int]:
        self._sent, states, self._states = [], self._states, {}
        flush(self)
        return _offsets(states)

    yield patch.object(KafkaTransaction, "flush", blind)


def _no_flush_before_commit() -> Iterable[Any]:
    def skipped(self: Any) -> dict[int, int]:
        return _offsets(self._states)

    yield patch.object(KafkaTransaction, "flush", skipped)


def _offsets(states: Mapping[int, Any]) -> dict[int, int]:
    """What is not known is 0: the state topic is then read from its beginning."""
    return {p: f.value.offset + 1 if f.succeeded() else 0 for p, f in states.items()}


def _producer_used_again() -> Iterable[Any]:
    opened = KafkaSink.open

    def again(self: Any) -> None:
        if self._producer is None:
            opened(self)

    yield patch.object(KafkaSink, "abandon", lambda _: None)
    yield patch.object(KafkaSink, "open", again)


def _aborted_and_used_again() -> Iterable[Any]:
    """With it the look at whether the group has moved on, after which few transactions begin that
    must be aborted (H5)."""
    opened, abandoned = KafkaSink.open, KafkaSink.abandon

    def aborts(self: Any) -> None:
        producer = self._producer
        if producer is None:
            return
        try:
            self._cluster.clients.bounded("abort", 8.0, producer.abort_transaction)
        except (raised.KafkaError, PipelineError):
            abandoned(self)

    def again(self: Any) -> None:
        if self._producer is None:
            opened(self)

    yield patch.object(KafkaSource, "current", lambda *_: True)
    yield patch.object(KafkaSink, "abandon", aborts)
    yield patch.object(KafkaSink, "open", again)


def _member_at_commit() -> Iterable[Any]:
    """With it both looks at whether that member is one (H3)."""
    polled = KafkaSource.poll
    sent = KafkaTransaction.send_offsets

    def late(self: Any, timeout: float) -> Polled:
        found = polled(self, timeout)
        return Polled(
            found.records,
            Member(0, "somebody", self._opened),
            revoked=found.revoked,
            assigned=found.assigned,
        )

    def now(self: Any, offsets: Mapping[int, int], member: Member) -> None:
        sent(self, offsets, Member(0, "somebody", _metadata(member.token)))

    yield patch.object(KafkaSource, "poll", late)
    yield patch.object(KafkaSource, "current", lambda *_: True)
    yield patch.object(KafkaTransaction, "send_offsets", now)


def _metadata(consumer: Any) -> Any:
    return consumer.group_metadata()


def _no_watchdog() -> Iterable[Any]:
    def unbounded(_self: Any, _what: str, _seconds: float, call: Callable[[], Any]) -> Any:
        return call()

    yield patch.object(SimulatedClients, "bounded", unbounded)


def _raised_is_aborted() -> Iterable[Any]:
    awaited = Worker._await_all

    def trusting(self: Any, error: Retriable) -> None:
        if not isinstance(error, CommitUnknown):
            awaited(self, error)
            return
        for partition, offset in self._partitions.held.items():
            self._ends.source.start(partition, offset)

    yield patch.object(Worker, "_await_all", trusting)


def _merged_before_commit() -> Iterable[Any]:
    def early(folded: Any, to: Any, states: States, *, current: Any, step: Any) -> None:
        step(1)
        transaction = to.begin()
        step(2)
        commit._require_current(folded.member, current)
        transaction.send_offsets(folded.nexts, folded.member)
        step(3)
        commit._send(transaction, folded)
        step(4)
        positions = transaction.flush()
        commit._merge(folded, states, positions)
        step(5)
        transaction.commit()
        step(6)
        step(7)

    yield patch.object(loop, "deliver", early)


def _states_not_read() -> Iterable[Any]:

    def nothing(reader: Any, topic: str, states: States, start: Any) -> Restore:
        restore = restoring.begin(reader, topic, states, start)
        restore.cursor.close()
        done = SimpleNamespace(position=restore.first, done=True, close=lambda: None)
        return Restore(start, done, restore.first, 0)

    yield patch.object(partitions, "begin", nothing)
    yield patch.object(partitions, "require_states", lambda *given, **_: given[3])


def _not_rewound() -> Iterable[Any]:
    def resumes(self: Any, partition: int, offset: int | None) -> None:
        consumer, at = self._consumer(), self._at(partition)
        if partition in self._mine and at in consumer.assignment():
            if not consumer.position(at):
                consumer.seek(at, offset or 0)
            consumer.resume(at)
            self._started.add(partition)

    yield patch.object(KafkaSource, "start", resumes)


def _offsets_outside() -> Iterable[Any]:
    def at_once(self: Any, offsets: Mapping[int, int], _: Member) -> None:
        topic, group = self._settings.names.of("events"), self._settings.names.application
        committed = self._clients._site.brokers.memory.offsets
        committed.add(group, -1, {(topic, p): offset for p, offset in offsets.items()})
        committed.mark(group, -1, commits=True)

    yield patch.object(KafkaTransaction, "send_offsets", at_once)


def _undecided_offsets_taken() -> Iterable[Any]:
    def hasty(self: Any, partitions: Iterable[int], _: float = 0.0) -> dict[int, int | None]:
        consumer = self._consumer()
        offsets = consumer._brokers.memory.offsets.committed(self._settings.group)
        return {p: offsets.get((self._settings.topic, p)) for p in partitions}

    yield patch.object(KafkaSource, "committed", hasty)


def _orphans_left() -> Iterable[Any]:
    yield patch.object(sink, "end_orphans", lambda *_: None)


def _position_before_states() -> Iterable[Any]:
    write = MemoryStore.write

    def torn(self: Any, partition: int, items: Iterable[Segment], position: int, **_: Any) -> None:
        write(self, partition, (), position)
        self.reached("store:between")
        write(self, partition, items, position)

    yield patch.object(KeptStore, "write", torn)


def _uncommitted_states() -> Iterable[Any]:
    consumer = KafkaReader._consumer

    def uncommitted(self: Any, _: str) -> Any:
        return consumer(self, "read_uncommitted")

    yield patch.object(KafkaReader, "_consumer", uncommitted)


def _undecided_not_waited_for() -> Iterable[Any]:
    """Both by whom the offsets are asked for and by whom the states are read: either hides that
    the other does not wait, as the fold is silent on what it has."""
    yield from _undecided_offsets_taken()

    def stable(self: Any) -> Any:
        self._opened = self._opened or self._consumer("read_committed")
        return self._opened

    yield patch.object(KafkaReader, "_plain", stable)


def _read_before_restored() -> Iterable[Any]:
    """Both that a new partition is paused and that its records are passed over."""
    polled = KafkaSource.poll

    def all_started(self: Any, timeout: float) -> Polled:
        self._started |= self._mine
        return polled(self, timeout)

    def assigned(self: Any, new: Iterable[TopicPartition]) -> None:
        for at in new:
            self._consumer.seek(at, 0)
            self._changes.append(("assigned", at.partition))

    yield patch.object(KafkaSource, "poll", all_started)
    yield patch.object(source._Listener, "on_partitions_assigned", assigned)


def _ownerless_left() -> Iterable[Any]:
    yield patch.object(Ownerless, "look", lambda *_: None)


def _state_of_others_kept() -> Iterable[Any]:
    """Residents survive what is read from the state topic, and the partition's leaving."""

    def stale(self: Any, partition: int, records: Iterable[InRecord], position: int) -> None:
        from pipeline.state import _segment

        self._store.write(partition, [_segment(record) for record in records], position)

    yield patch.object(States, "apply", stale)
    yield patch.object(States, "drop", lambda *_: None)


def _late_call_not_unknown() -> Iterable[Any]:
    """A transaction that the broker ended is committed all the same, as far as we are told."""

    def swallowed(self: Any) -> None:
        try:
            self._checked("commit", self._committed)
        except PipelineError:
            return

    yield patch.object(KafkaTransaction, "commit", swallowed)


MUTANTS: Mapping[str, Patches] = {
    "futures not looked at": _futures_not_looked_at,
    "no flush before the commit": _no_flush_before_commit,
    "producer used again": _producer_used_again,
    "transaction aborted, producer used again": _aborted_and_used_again,
    "member taken at the commit": _member_at_commit,
    "no watchdog": _no_watchdog,
    "a commit that raised is taken for aborted": _raised_is_aborted,
    "a commit that raised is taken for done": _late_call_not_unknown,
    "states merged before the commit": _merged_before_commit,
    "state topic not read": _states_not_read,
    "position not rewound": _not_rewound,
    "offsets outside of the transaction": _offsets_outside,
    "orphans left open": _orphans_left,
    "store position before its states": _position_before_states,
    "uncommitted states read": _uncommitted_states,
    "the undecided is not waited for": _undecided_not_waited_for,
    "records before the states are there": _read_before_restored,
    "ownerless partitions left": _ownerless_left,
    "residents kept over a loss": _state_of_others_kept,
}
