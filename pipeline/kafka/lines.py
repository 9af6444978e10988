"""`lines.LineSink` over kafka-python: one idempotent producer, ``acks=all`` (streams.md §3)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import KafkaProducer
from kafka import errors as raised
from kafka.partitioner.default import murmur2

from pipeline import limits
from pipeline.errors import Fatal, Retriable
from pipeline.ports import OutRecord, too_large
from pipeline.topics import Found, Names, largest_batch

from .admin import KafkaTopics
from .client import CALL_SETTINGS, Cluster, by_remedy, translated
from .sink import TOO_LARGE, close_quietly, refused_size, size_of

#: A record that is not acknowledged for this long fails the run; the next one goes on from what
#: the topic has.
PATIENCE_S = limits.RETRY_BUDGET_S


class KafkaLineSink:
    """``patience_s``: how long a send may wait for room, and a record for its acknowledgement."""

    def __init__(self, cluster: Cluster, names: Names, patience_s: float = PATIENCE_S) -> None:
        self._clients = cluster.clients
        self._patience_s = patience_s
        self._topics = {role: names.of(role) for role in ("events", "deadletter")}
        self._underway: list[tuple[OutRecord, Any]] = []
        found = _found(cluster, self._topics.values())
        self._partitions = {role: found[topic].partitions for role, topic in self._topics.items()}
        ours = {
            **CALL_SETTINGS,
            "enable_idempotence": True,
            "acks": "all",
            "delivery_timeout_ms": int(patience_s * 1000),
            "max_block_ms": int(patience_s * 1000),
            "max_request_size": limits.MAX_OUTPUT_RECORD_BYTES,
            "batch_size": largest_batch(found.values()),
            "linger_ms": 5,
            "allow_auto_create_topics": False,
        }
        with by_remedy("opening the producer"):
            self._producer = cluster.clients.producer(**cluster.settings(KafkaProducer, ours))

    def partition(self, key: bytes) -> int:
        """As every Kafka client's default partitioner does."""
        hashed: int = murmur2(key)
        return (hashed & 0x7FFFFFFF) % self._partitions["events"]

    def send(self, record: OutRecord) -> None:
        topic = self._topics[record.role]
        try:
            future = self._producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition % self._partitions[record.role],
            )
        except raised.MessageSizeTooLargeError as error:
            raise too_large(record, size_of(record)) from error
        except raised.KafkaError as error:
            raise translated(f"sending to {topic}", error) from error
        self._underway.append((record, future))

    def flush(self) -> None:
        with by_remedy("flush"):
            self._producer.flush(timeout=self._patience_s)
        underway, self._underway = self._underway, []
        for record, future in underway:
            error = future.exception
            if isinstance(error, TOO_LARGE):
                raise refused_size(self._topics[record.role], record) from error
            if error is not None:
                raise translated("a line was not acknowledged", error) from error
            if not future.is_done:
                raise Retriable("a line was neither acknowledged nor refused")

    def close(self) -> None:
        """What is not flushed may or may not arrive; the next run finds out."""
        close_quietly(self._clients, self._producer)


def _found(cluster: Cluster, topics: Collection[str]) -> dict[str, Found]:
    with KafkaTopics(cluster) as admin:
        found = admin.describe(topics)
    for topic in topics:
        if topic not in found:
            raise Fatal(f"topic {topic} does not exist", "run `foldstream topics create`")
    return found
