"""The gateway's tail over kafka-python: all partitions of its topics, assigned, without a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised

from pipeline import identity, limits
from pipeline.errors import Fatal, Retriable
from pipeline.gateway.changes import Offsets, Place
from pipeline.gateway.tail import ROLES, Bounds, Held, Taken
from pipeline.ports import InRecord
from pipeline.topics import Found, Names

from .admin import described
from .client import CALL_SETTINGS, COMMON, Cluster, by_remedy, new_admin, new_consumer
from .source import in_record

ASK_MS = int(limits.LOOK_S * 1000)
POSITION_MS = 500

#: Bytes of one fetch: a rebuild reads all there is.
FETCH_BYTES = 4 * limits.FETCH_BYTES

_OURS: Mapping[str, Any] = {
    **COMMON,
    "request_timeout_ms": limits.REQUEST_TIMEOUT_MS,
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "isolation_level": "read_committed",
    "max_poll_records": limits.BATCH_RECORDS,
    "max_partition_fetch_bytes": 4 * limits.FETCH_PARTITION_BYTES,
    "fetch_max_bytes": FETCH_BYTES,
    "fetch_max_wait_ms": limits.FETCH_WAIT_MS,
    "allow_auto_create_topics": False,
}
_UNCOMMITTED: Mapping[str, Any] = {"isolation_level": "read_uncommitted"}


class KafkaTail:
    def __init__(self, cluster: Cluster, names: Names) -> None:
        self._cluster = cluster
        self._names = names
        self._opened: Any = None
        self._asker: Any = None
        self._paused: Held = frozenset()
        self._at: dict[TopicPartition, int] = {}
        self._places = {names.of(role): role for role in ROLES}

    def identity(self) -> str:
        """Asked over a connection of its own, as a consumer answers from what it remembers."""
        cluster, found = self._described()
        missing = [name for name in self._places if name not in found]
        if missing:
            raise Retriable(
                f"topic {', '.join(missing)} does not exist",
                "name the right --prefix, or run `foldstream topics create`",
            )
        return f"{cluster} {self._names.prefix} {identity.of(self._names, found)}"

    def _described(self) -> tuple[str, dict[str, Found]]:
        def ask() -> tuple[str, dict[str, Found]]:
            with closing(new_admin(self._cluster, CALL_SETTINGS)) as admin:
                return str(admin.describe_cluster()["cluster_id"]), described(admin, self._places)

        with by_remedy("describing topics"):
            return self._cluster.clients.bounded("describing topics", limits.CALL_TIMEOUT_S, ask)

    def bounds(self) -> Bounds:
        with by_remedy("reading the offsets of the topics"):
            consumer = self._consumer()
            every = [
                TopicPartition(topic, partition)
                for topic in self._places
                for partition in sorted(consumer.partitions_for_topic(topic) or ())
            ]
            first = consumer.beginning_offsets(every, timeout_ms=2 * ASK_MS)
            last = consumer.end_offsets(every, timeout_ms=2 * ASK_MS)
        return {self._place(at): (first[at], last[at]) for at in every}

    def start(self, offsets: Offsets) -> None:
        self._at = {self._partition(place): at for place, at in offsets.items()}
        with by_remedy("assigning the topics"):
            consumer = self._consumer()
            consumer.assign(list(self._at))
            self._paused = frozenset()
            for at, offset in self._at.items():
                consumer.seek(at, offset)

    def take(self, timeout_s: float, held: Held = frozenset()) -> Taken:
        """Positions also move over transaction markers and aborted records."""
        with by_remedy("reading the topics"):
            consumer = self._consumer()
            self._pause(consumer, held)
            try:
                polled = consumer.poll(timeout_ms=int(timeout_s * 1000))
            except raised.OffsetOutOfRangeError as error:
                raise Retriable("what was to be read next has expired") from error
            moved = {}
            for at, before in self._at.items():
                position = consumer.position(at, timeout_ms=POSITION_MS)
                if position is not None and position != before:
                    moved[at] = position
        self._at |= moved
        records: dict[str, list[InRecord]] = {}
        for at, found in polled.items():
            records.setdefault(self._places[at.topic], []).extend(map(in_record, found))
        return Taken(records, {self._place(at): offset for at, offset in moved.items()})

    def _pause(self, consumer: Any, held: Held) -> None:
        for places, turn in ((held - self._paused, "pause"), (self._paused - held, "resume")):
            if places:
                getattr(consumer, turn)(*map(self._partition, places))
        self._paused = held

    def written(self, places: Iterable[Place]) -> Offsets:
        """Asked by a consumer of its own: one that reads what is committed is told of that."""
        at = {self._partition(place): place for place in places}
        with by_remedy("reading the offsets of the topics"):
            if self._asker is None:
                self._asker = new_consumer(self._cluster, {**_OURS, **_UNCOMMITTED})
            ends = self._asker.end_offsets(list(at), timeout_ms=2 * ASK_MS)
        return {place: ends[of] for of, place in at.items()}

    def _partition(self, place: Place) -> TopicPartition:
        return TopicPartition(self._names.of(place[0]), place[1])

    def _place(self, at: TopicPartition) -> Place:
        return self._places[at.topic], at.partition

    def close(self) -> None:
        consumers, self._opened, self._asker = (self._opened, self._asker), None, None
        timeout = limits.CLOSE_TIMEOUT_S
        for consumer in consumers:
            if consumer is None:
                continue
            with suppress(raised.KafkaError, Retriable, Fatal):
                close = partial(consumer.close, autocommit=False, timeout_ms=int(timeout * 1000))
                self._cluster.clients.bounded("close", 3 * timeout, close)

    def _consumer(self) -> Any:
        if self._opened is None:
            self._opened = new_consumer(self._cluster, dict(_OURS))
        return self._opened
