"""`ports.Reader` over kafka-python: topics at rest, partition by partition, without a group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised
from kafka.admin import KafkaAdminClient

from pipeline import limits
from pipeline.errors import Retriable
from pipeline.ports import InRecord

from .client import COMMON, Cluster, bounded, by_remedy, new_consumer, patiently
from .source import in_record

POLL_MS = 50  #: short, as a poll that meets only a transaction marker waits all of it
POSITION_MS = 500


class KafkaReader:
    def __init__(self, cluster: Cluster, stall_s: float = limits.READ_STALL_S) -> None:
        self._cluster = cluster
        self._stall_s = stall_s
        self._opened: Any = None
        self._idle: list[Any] = []  # connecting costs more than a short read

    def partitions(self, topic: str) -> int:
        with by_remedy(f"reading the partitions of {topic}"):
            return len(self._plain().partitions_for_topic(topic) or ())

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        at = TopicPartition(topic, partition)
        timeout_ms = int(limits.COMMITTED_TIMEOUT_S * 1000)
        with by_remedy(f"reading the offsets of {topic}"):
            consumer = self._plain()
            first = consumer.beginning_offsets([at], timeout_ms=timeout_ms)[at]
            return first, consumer.end_offsets([at], timeout_ms=timeout_ms)[at]

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        first, last = self.bounds(topic, partition)
        position, stop = max(start, first), last if end is None else end
        if position >= stop:
            return
        consumer = self._idle.pop() if self._idle else self._consumer("read_committed")
        try:
            at = TopicPartition(topic, partition)
            consumer.assign([at])
            consumer.seek(at, position)
            yield from self._until(consumer, at, position, stop)
        except BaseException:  # the generator may be closed halfway, too
            _close(consumer)
            raise
        self._idle.append(consumer)

    def _until(
        self, consumer: Any, at: TopicPartition, position: int, stop: int
    ) -> Iterator[InRecord]:
        """Records below ``stop``. The position also moves over transaction markers and aborted
        records, which bring nothing; it stands still at the first open transaction."""
        moved = time.monotonic()
        while position < stop:
            with by_remedy(f"reading {at.topic}"):
                polled = consumer.poll(timeout_ms=POLL_MS)
                now = consumer.position(at, timeout_ms=POSITION_MS)
            for record in polled.get(at, ()):
                if record.offset >= stop:
                    return
                yield in_record(record)
            if now is not None and now > position:
                position, moved = now, time.monotonic()
            elif time.monotonic() - moved > self._stall_s:
                raise Retriable(
                    f"{at.topic}[{at.partition}] cannot be read beyond offset {position} of {stop}",
                    "an open transaction may hold it, or a broker is away",
                )

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with by_remedy(f"reading the offsets of group {group}"):
            admin = KafkaAdminClient(**self._cluster.settings(KafkaAdminClient, {}))
            try:
                # On a fresh broker the coordinator's own topic is made by the first who asks.
                offsets = patiently(
                    limits.COORDINATOR_S, lambda: admin.list_group_offsets({group: None})
                ).get(group, {})
            finally:
                admin.close()
        return {
            at.partition: found.offset
            for at, found in offsets.items()
            if at.topic == topic and found.offset >= 0
        }

    def close(self) -> None:
        for consumer in (*self._idle, self._opened):
            if consumer is not None:
                _close(consumer)
        self._idle, self._opened = [], None

    def _plain(self) -> Any:
        """For offsets: they must be those of everything written, open transactions included."""
        if self._opened is None:
            self._opened = self._consumer("read_uncommitted")
        return self._opened

    def _consumer(self, isolation: str) -> Any:
        ours = {
            **COMMON,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": isolation,
            "max_poll_records": limits.BATCH_RECORDS,
            "max_partition_fetch_bytes": 4 * limits.FETCH_PARTITION_BYTES,
            "fetch_max_wait_ms": POLL_MS,
            "allow_auto_create_topics": False,
        }
        return new_consumer(self._cluster, ours)


def _close(consumer: Any) -> None:
    """Within seconds: the client's own close waits for its thread without a limit, and would keep
    a process that ends over an error from ending."""
    timeout = limits.CLOSE_TIMEOUT_S
    with suppress(raised.KafkaError, Retriable):
        close = partial(consumer.close, autocommit=False, timeout_ms=int(timeout * 1000))
        bounded("close", 3 * timeout, close)
