"""`ports.Source` over kafka-python: one member of the consumer group.

Rebalance callbacks run on the client's IO thread while we are inside `poll`: they write down what
happened and pause what is new. Everything else happens after the poll, on its thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka import errors as raised
from kafka.admin import MemberToRemove
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import ConsumerGroupMetadata, MemberState
from msgspec import Struct

from pipeline import limits
from pipeline.errors import PipelineError, Retriable, Stuck
from pipeline.identity import Identity, require_written_by_us
from pipeline.ports import InRecord, Member, Polled

from .client import CALL_SETTINGS, COMMON, Cluster, by_remedy, new_admin, new_asker, new_consumer
from .watch import Watch

CALL_MS = limits.REQUEST_TIMEOUT_MS
LAG_MS = int(limits.LOOK_S * 1000)
MINIMAL_WAIT_S = 0.05
UNTOLD = 4  #: the lag asked for in vain so often means that the consumer is broken, not a broker


class SourceSettings(Struct, frozen=True):
    """``instance``: the name of a static member, which keeps its place over a restart; None: a
    member like any other. ``began``: the topics as they were; committed offsets must be of them
    (None: whoever committed them)."""

    topic: str
    group: str
    instance: str | None = None
    began: Identity | None = None
    batch_records: int = limits.BATCH_RECORDS
    linger_ms: int = limits.LINGER_MS


class KafkaSource:
    def __init__(
        self, cluster: Cluster, settings: SourceSettings, watch: Watch | None = None
    ) -> None:
        self._cluster = cluster
        self._watch = watch
        self._clients = cluster.clients
        self._settings = settings
        self._changes: deque[tuple[str, int]] = deque()
        self._mine: set[int] = set()
        self._started: set[int] = set()
        self._stable = False
        self._opened: Any = None
        #: Not the member itself: what that asks waits behind its own requests to the coordinator.
        self._asker: Any = None
        self._untold = 0  #: how often, one after the other, the lag was asked for in vain
        self._in_vain: float | None = None  #: since when it has been asked so
        self._admin: Any = None

    def poll(self, timeout: float) -> Polled:
        consumer = self._consumer()
        with by_remedy("poll"):
            polled = consumer.poll(
                timeout_ms=int(timeout * 1000), max_records=self._settings.batch_records
            )
            # Here and not later: offsets sent with what we are *then* would be accepted over the
            # head of the partitions' new owner.
            group = consumer.group_metadata()
        self._stable = group.state == MemberState.STABLE
        revoked, assigned = self._rebalanced()
        records = {
            at.partition: [in_record(record) for record in found]
            for at, found in polled.items()
            if at.partition in self._started and found
        }
        member = Member(group.generation_id, group.member_id, group)
        return Polled(records, member, revoked=revoked, assigned=assigned)

    def committed(
        self, partitions: Iterable[int], wait_s: float = limits.COMMITTED_TIMEOUT_S
    ) -> dict[int, int | None]:
        until = self._clients.monotonic() + wait_s
        found: dict[int, int | None] = {}
        for at in map(self._at, partitions):
            left_s = max(until - self._clients.monotonic(), MINIMAL_WAIT_S)
            told = self._ask(at, left_s)
            found[at.partition] = None if told is None else self._ours(at, told)
        self._look()
        return found

    def _ask(self, at: TopicPartition, left_s: float) -> Any:
        """What is committed of a partition. Who has asked in vain for long asks over new
        connections: an old one may be silent for good."""
        if self._asker is None:
            self._asker = new_asker(self._cluster, self._settings.group)
        try:
            with by_remedy("reading committed offsets"):
                told = self._asker.committed(at, metadata=True, timeout_ms=int(left_s * 1000))
        except PipelineError:
            now = self._clients.monotonic()
            self._in_vain = self._in_vain or now
            if now - self._in_vain > CALL_MS / 1000:
                self._close_asker()
            raise
        self._in_vain = None
        return told

    def _ours(self, at: TopicPartition, told: Any) -> int | None:
        """The offset, if it was committed by a worker over the topics of now."""
        offset: int = told.offset
        if offset < 0:
            return None
        if self._settings.began is not None:
            require_written_by_us(at.topic, at.partition, offset, told.metadata)
        return offset

    def _look(self) -> None:
        if self._watch is not None:
            self._watch.look()

    def start(self, partition: int, offset: int | None) -> None:
        consumer, at = self._consumer(), self._at(partition)
        if partition not in self._mine or at not in consumer.assignment():
            return  # revoked in the meantime: the next poll says so
        with by_remedy("seek"):
            if offset is None:
                consumer.seek_to_beginning(at)
            else:
                consumer.seek(at, offset)
            consumer.resume(at)
        self._started.add(partition)

    def pause(self, partitions: Iterable[int]) -> None:
        if self._watch is not None:
            self._watch.soon()
        for partition in partitions:
            self._started.discard(partition)
            at = self._at(partition)
            if self._opened is not None and at in self._opened.assignment():
                self._opened.pause(at)

    def lag(self) -> dict[int, int] | None:
        if not self._stable:
            return None
        self._look()
        consumer = self._consumer()
        started = [self._at(partition) for partition in sorted(self._started)]
        if not started:
            return {}
        try:
            ends = consumer.end_offsets(started, timeout_ms=LAG_MS)
            positions = {at: consumer.position(at, timeout_ms=LAG_MS) for at in started}
        except raised.RetriableError as error:  # a broker is away, and others' partitions wait
            self._untold += 1
            if self._untold < UNTOLD:
                return None
            raise Stuck(f"a broker has not told its offsets {UNTOLD} times: {error}") from error
        self._untold = 0
        if any(position is None for position in positions.values()):
            return None
        return {at.partition: max(0, ends[at] - positions[at]) for at in started}

    def current(self, member: Member) -> bool:
        now, then = self._consumer().group_metadata(), member.token
        assert isinstance(then, ConsumerGroupMetadata)
        return (now.generation_id, now.member_id) == (then.generation_id, then.member_id)

    def ownerless(self) -> frozenset[int]:
        if not self._stable:
            return frozenset()
        consumer, settings = self._consumer(), self._settings
        with by_remedy("describing the group"):
            self._admin = self._admin or new_admin(self._cluster, CALL_SETTINGS)
            told = self._admin.describe_groups([settings.group])[settings.group]
            partitions = consumer.partitions_for_topic(settings.topic) or ()
        if told["group_state"] != "Stable":
            return frozenset()
        members = {
            member["member_id"]: _dealt(member, settings.topic) for member in told["members"]
        }
        first = min(members, default="")
        if consumer.group_metadata().member_id != first:
            return frozenset()
        return frozenset(partitions).difference(*members.values())

    def abandon(self, *, leave: bool = False) -> None:
        self._started.clear()
        self._untold = 0
        self._close_asker()
        if self._opened is not None:
            # Of its own: what the one that is dropped still writes down is not the next one's.
            self._changes = deque(("lost", partition) for partition in self._mine)
            self._shut(leave=leave)

    def _close_asker(self) -> None:
        asker, self._asker, self._in_vain = self._asker, None, None
        if asker is not None:
            self._close(asker)

    def close(self, *, leave: bool = True) -> None:
        self._close_asker()
        if self._opened is not None:
            self._shut(leave=leave)
        if self._admin is not None:
            admin, self._admin = self._admin, None
            with suppress(raised.KafkaError, Retriable):
                self._clients.bounded("close", limits.CLOSE_TIMEOUT_S, admin.close)

    def _shut(self, *, leave: bool) -> None:
        """By closing alone a static member keeps its place."""
        consumer, self._opened = self._opened, None
        self._close(consumer)
        if leave and self._settings.instance is not None:
            with suppress(raised.KafkaError, Retriable):  # then its session runs out
                self._clients.bounded("leave", limits.CLOSE_TIMEOUT_S, self._leave)

    def _close(self, consumer: Any) -> None:
        timeout = limits.CLOSE_TIMEOUT_S
        close = partial(consumer.close, autocommit=False, timeout_ms=int(timeout * 1000))
        with suppress(raised.KafkaError, Retriable):  # then the session runs out by itself
            self._clients.bounded("close", 3 * timeout, close)

    def _leave(self) -> None:
        with closing(new_admin(self._cluster, CALL_SETTINGS)) as admin:
            member = MemberToRemove(group_instance_id=self._settings.instance)
            admin.remove_group_members(self._settings.group, [member])

    # --- inside -----------------------------------------------------------------------------------

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self._settings.topic, partition)

    def _consumer(self) -> Any:
        """Joins on first use: the producer must be open before (it ends its predecessor's
        transaction, on which committed offsets wait)."""
        if self._opened is None:
            self._look()  # it would wait long for a topic that is gone
            consumer = new_consumer(self._cluster, self._consumer_settings())
            try:
                with by_remedy("connecting"):
                    # Makes it know this topic and no other: a leader of the group that does not
                    # know it deals out nothing, and the assignor's work is quadratic in all it
                    # knows.
                    consumer.beginning_offsets([self._at(0)], timeout_ms=CALL_MS)
            except PipelineError:
                self._close(consumer)
                raise
            consumer.subscribe([self._settings.topic], listener=_Listener(consumer, self._changes))
            self._opened = consumer
        return self._opened

    def _consumer_settings(self) -> dict[str, Any]:
        return {
            **COMMON,
            "request_timeout_ms": limits.MEMBER_TIMEOUT_MS,
            "group_id": self._settings.group,
            "group_instance_id": self._settings.instance,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",  # an offset that is gone is an error, not a new beginning
            "isolation_level": "read_committed",
            "partition_assignment_strategy": [CooperativeStickyAssignor],
            "session_timeout_ms": limits.SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": limits.HEARTBEAT_MS,
            "max_poll_records": self._settings.batch_records,
            "fetch_min_bytes": limits.FETCH_MIN_BYTES if self._settings.linger_ms else 1,
            "fetch_max_wait_ms": self._settings.linger_ms or limits.FETCH_WAIT_MS,
            "max_poll_interval_ms": limits.MAX_POLL_INTERVAL_MS,
            "fetch_max_bytes": limits.FETCH_BYTES,
            "max_partition_fetch_bytes": limits.FETCH_PARTITION_BYTES,
            "allow_auto_create_topics": False,
        }

    def _rebalanced(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What changed hands during the poll: lost (perhaps given back), then new."""
        lost: set[int] = set()
        new: set[int] = set()
        while self._changes:
            what, partition = self._changes.popleft()
            if what == "assigned":
                new.add(partition)
            else:
                lost.add(partition)
                new.discard(partition)
        self._mine = (self._mine - lost) | new
        self._started -= lost
        return tuple(sorted(lost)), tuple(sorted(new))


def _dealt(member: Mapping[str, Any], topic: str) -> set[int]:
    """The partitions of ``topic`` that a member of a described group was given."""
    return {
        partition
        for given in (member["member_assignment"] or {}).get("assigned_partitions", ())
        if given["topic"] == topic
        for partition in given["partitions"]
    }


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python has no types
    """Only writes down and pauses: this is the client's IO thread."""

    def __init__(self, consumer: Any, changes: deque[tuple[str, int]]) -> None:
        self._consumer = consumer
        self._changes = changes

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._changes.extend(("revoked", at.partition) for at in revoked)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._changes.extend(("lost", at.partition) for at in lost)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        new = list(assigned)
        self._consumer.pause(*new)
        for at in new:  # else a poll would look for a position by itself
            self._consumer.seek(at, 0)
        self._changes.extend(("assigned", at.partition) for at in new)


def in_record(record: Any) -> InRecord:
    return InRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
    )
