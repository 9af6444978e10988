"""`ports.Reader` over kafka-python: topics at rest, partition by partition, without a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised

from pipeline import limits
from pipeline.errors import PipelineError, Retriable
from pipeline.ports import InRecord

from .client import COMMON, Cluster, by_remedy, new_asker, new_consumer, patiently
from .clients import Clients
from .source import in_record

POLL_MS = 50  #: short, as a poll that meets only a transaction marker waits all of it
POSITION_MS = 500
BACKOFF_MS = 10  #: the first look at a topic waits so long for what the client must learn of it


class KafkaReader:
    """``stall_s``: how long a read may come no further; ``look_s``: an answer about offsets may
    take."""

    def __init__(
        self,
        cluster: Cluster,
        stall_s: float = limits.READ_STALL_S,
        look_s: float = limits.COMMITTED_TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._stall_s = stall_s
        self._look_s = look_s
        self._opened: Any = None
        self._askers: dict[str, Any] = {}
        self._idle: list[Any] = []  # connecting costs more than a short read

    def partitions(self, topic: str) -> int:
        with by_remedy(f"reading the partitions of {topic}"):
            return len(self._plain().partitions_for_topic(topic) or ())

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        at = TopicPartition(topic, partition)
        timeout_ms = int(self._look_s * 1000)
        try:
            with by_remedy(f"reading the offsets of {topic}"):
                consumer = self._plain()
                first = consumer.beginning_offsets([at], timeout_ms=timeout_ms)[at]
                return first, consumer.end_offsets([at], timeout_ms=timeout_ms)[at]
        except PipelineError:
            self._drop_plain()
            raise

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        first, last = self.bounds(topic, partition)
        position, stop = max(start, first), last if end is None else end
        if position >= stop:
            return
        cursor = self.cursor(topic, partition, position, stop)
        try:
            while not cursor.done:
                yield from cursor.take(self._stall_s)
        finally:  # the generator may be closed halfway, too
            cursor.close()

    def cursor(self, topic: str, partition: int, start: int, end: int) -> KafkaCursor:
        at = TopicPartition(topic, partition)
        if start >= end:
            return KafkaCursor(self._cluster.clients, None, at, (start, end))
        consumer = self._idle.pop() if self._idle else self._consumer("read_committed")
        try:
            consumer.assign([at])
            consumer.seek(at, start)
        except BaseException:
            _close(self._cluster.clients, consumer)
            raise
        return KafkaCursor(
            self._cluster.clients,
            consumer,
            at,
            (start, end),
            stall_s=self._stall_s,
            idle=self._rest,
        )

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """While a transaction carries offsets of a partition, its end is waited for."""
        with by_remedy(f"reading the offsets of group {group}"):
            partitions = sorted(self._plain().partitions_for_topic(topic) or ())
            consumer = self._asker(group)

            def ask(partition: int) -> int | None:
                at, timeout_ms = TopicPartition(topic, partition), int(self._look_s * 1000)
                found: int | None = consumer.committed(at, timeout_ms=timeout_ms)
                return found

            # On a fresh broker the coordinator's own topic is made by the first who asks.
            clients = self._cluster.clients
            found = {
                partition: patiently(clients, limits.COORDINATOR_S, partial(ask, partition))
                for partition in partitions
            }
        return {partition: at for partition, at in found.items() if at is not None and at >= 0}

    def _asker(self, group: str) -> Any:
        if group not in self._askers:
            self._askers[group] = new_asker(self._cluster, group)
        return self._askers[group]

    def close(self) -> None:
        for consumer in (*self._idle, *self._askers.values(), self._opened):
            if consumer is not None:
                _close(self._cluster.clients, consumer)
        self._idle, self._askers, self._opened = [], {}, None

    def _drop_plain(self) -> None:
        """A consumer whose broker did not answer may never get an answer again, of that partition,
        though the broker is back: the next one asks over new connections."""
        consumer, self._opened = self._opened, None
        if consumer is not None:
            _close(self._cluster.clients, consumer)

    def _plain(self) -> Any:
        """For offsets: they must be those of everything written, open transactions included."""
        if self._opened is None:
            self._opened = self._consumer("read_uncommitted")
        return self._opened

    def _rest(self, consumer: Any) -> None:
        """A read is over. One consumer is kept: each has a thread and its connections."""
        if self._idle:
            _close(self._cluster.clients, consumer)
        else:
            self._idle.append(consumer)

    def _consumer(self, isolation: str) -> Any:
        ours = {
            **COMMON,
            "request_timeout_ms": limits.REQUEST_TIMEOUT_MS,
            "retry_backoff_ms": BACKOFF_MS,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": isolation,
            "max_poll_records": limits.BATCH_RECORDS,
            "max_partition_fetch_bytes": 4 * limits.FETCH_PARTITION_BYTES,
            "fetch_max_wait_ms": POLL_MS,
            "allow_auto_create_topics": False,
        }
        return new_consumer(self._cluster, ours)


class KafkaCursor:
    """A bounded read in slices (`ports.Cursor`) over a consumer of its own, which is given back to
    ``idle`` when the read came to its end."""

    def __init__(
        self,
        clients: Clients,
        consumer: Any,
        at: TopicPartition,
        bounds: tuple[int, int],
        *,
        stall_s: float = limits.READ_STALL_S,
        idle: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self._clients = clients
        self._consumer = consumer
        self._at = at
        self.position, self._end = bounds
        self._stall_s = stall_s
        self._idle = idle
        self._waited = 0.0  # in takes: between them a cursor may wait for its turn for long

    @property
    def done(self) -> bool:
        return self.position >= self._end

    def take(self, timeout_s: float) -> list[InRecord]:
        """The position also moves over transaction markers and aborted records, which bring
        nothing; it stands still at the first open transaction."""
        still = self._clients.monotonic()
        until = still + timeout_s
        while not self.done:
            with by_remedy(f"reading {self._at.topic}"):
                polled = self._consumer.poll(timeout_ms=POLL_MS)
                position = self._consumer.position(self._at, timeout_ms=POSITION_MS)
            now = self._clients.monotonic()
            if position is not None and position > self.position:
                self.position, self._waited, still = position, 0.0, now
            if found := polled.get(self._at):
                return [in_record(record) for record in found if record.offset < self._end]
            self._refuse_stall(self._waited + now - still)
            if now >= until:
                self._waited += now - still
                break
        return []

    def _refuse_stall(self, waited: float) -> None:
        if waited > self._stall_s:
            raise Retriable(
                f"{self._at.topic}[{self._at.partition}] cannot be read beyond offset "
                f"{self.position} of {self._end}",
                "an open transaction may hold it, or a broker is away",
            )

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        if self.done:
            self._idle(consumer)
        else:
            _close(self._clients, consumer)


def _close(clients: Clients, consumer: Any) -> None:
    """Within seconds: the client's own close waits for its thread without a limit, and would keep
    a process that ends over an error from ending."""
    timeout = limits.CLOSE_TIMEOUT_S
    with suppress(raised.KafkaError, Retriable):
        close = partial(consumer.close, autocommit=False, timeout_ms=int(timeout * 1000))
        clients.bounded("close", 3 * timeout, close)
