"""`ports.Source` over kafka-python: one member of the consumer group.

Rebalance callbacks run on the client's IO thread while we are inside `poll`: they write down what
happened and pause what is new. Everything else happens after the poll, on its thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka import errors as raised
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import MemberState
from msgspec import Struct

from pipeline import limits
from pipeline.ports import InRecord, Member, Polled

from .client import COMMON, Cluster, by_remedy, new_consumer


class SourceSettings(Struct, frozen=True):
    topic: str
    group: str
    batch_records: int = limits.BATCH_RECORDS
    linger_ms: int = limits.LINGER_MS
    call_timeout_s: float = limits.COMMITTED_TIMEOUT_S


class KafkaSource:
    def __init__(self, cluster: Cluster, settings: SourceSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._changes: deque[tuple[str, int]] = deque()
        self._mine: set[int] = set()
        self._started: set[int] = set()
        self._stable = False
        self._opened: Any = None

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

    def committed(self, partitions: Iterable[int]) -> dict[int, int | None]:
        wanted = [self._at(partition) for partition in partitions]
        if not wanted:
            return {}
        consumer, timeout = self._consumer(), self._settings.call_timeout_s
        with by_remedy("reading committed offsets"):
            return {
                at.partition: consumer.committed(at, timeout_ms=int(timeout * 1000))
                for at in wanted
            }

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

    def behind(self) -> int | None:
        if not self._stable:
            return None
        consumer = self._consumer()
        timeout_ms = int(self._settings.call_timeout_s * 1000)
        started = [self._at(partition) for partition in sorted(self._started)]
        if not started:
            return 0
        with by_remedy("reading end offsets"):
            ends = consumer.end_offsets(started, timeout_ms=timeout_ms)
            positions = {at: consumer.position(at, timeout_ms=timeout_ms) for at in started}
        if any(position is None for position in positions.values()):
            return None
        behind: int = sum(max(0, ends[at] - positions[at]) for at in started)
        return behind

    def close(self) -> None:
        if self._opened is not None:
            with suppress(raised.KafkaError):  # then the session runs out by itself
                timeout_ms = int(limits.CLOSE_TIMEOUT_S * 1000)
                self._opened.close(autocommit=False, timeout_ms=timeout_ms)
            self._opened = None

    # --- inside -----------------------------------------------------------------------------------

    def _at(self, partition: int) -> TopicPartition:
        return TopicPartition(self._settings.topic, partition)

    def _consumer(self) -> Any:
        """Joins on first use: the producer must be open before (it ends its predecessor's
        transaction, on which committed offsets wait)."""
        if self._opened is None:
            consumer = new_consumer(self._cluster, self._consumer_settings())
            with by_remedy("connecting"):
                # Makes it know this topic and no other: a leader of the group that does not know
                # it deals out nothing, and the assignor's work is quadratic in all it knows.
                timeout_ms = int(self._settings.call_timeout_s * 1000)
                consumer.beginning_offsets([self._at(0)], timeout_ms=timeout_ms)
            consumer.subscribe([self._settings.topic], listener=_Listener(consumer, self._changes))
            self._opened = consumer
        return self._opened

    def _consumer_settings(self) -> dict[str, Any]:
        return {
            **COMMON,
            "group_id": self._settings.group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "partition_assignment_strategy": [CooperativeStickyAssignor],
            "session_timeout_ms": limits.SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": limits.HEARTBEAT_MS,
            "max_poll_records": self._settings.batch_records,
            "fetch_min_bytes": limits.FETCH_MIN_BYTES if self._settings.linger_ms else 1,
            "fetch_max_wait_ms": max(self._settings.linger_ms, 1),
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
