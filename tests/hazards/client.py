"""kafka-python as it is: what the hazards are shown with, and how their outcome is read.

Timeouts are short, so that a hazard takes seconds; none of them depends on that.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

REQUEST_MS = 1_500
DELIVERY_MS = 2_000


def topic(bootstrap: str, partitions: int = 2, copies: int = 1) -> str:
    """A new topic of one test; its group and transactional ids begin with the same name."""
    name = f"h{uuid.uuid4().hex[:10]}"
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics(
            [NewTopic(name, num_partitions=partitions, replication_factor=copies)],
            wait_for_metadata=True,
        )
    return name


@contextmanager
def transactional(bootstrap: str, name: str, **more: Any) -> Iterator[KafkaProducer]:
    settings = {
        "transactional_id": name,
        "request_timeout_ms": REQUEST_MS,
        "delivery_timeout_ms": DELIVERY_MS,
        "max_block_ms": 5_000,
        "linger_ms": 0,
        "retry_backoff_ms": 10,
        "transaction_timeout_ms": 60_000,
    }
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), **settings | more)
    try:
        producer.init_transactions()
        yield producer
    finally:
        in_thread(lambda: producer.close(timeout=1)).join(5)


@contextmanager
def member(bootstrap: str, name: str, **more: Any) -> Iterator[KafkaConsumer]:
    settings = {
        "group_id": f"{name}-group",
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6_000,
    }
    consumer = KafkaConsumer(name, bootstrap_servers=bootstrap.split(","), **settings | more)
    try:
        yield consumer
    finally:
        consumer.close(autocommit=False, timeout_ms=1_000)


def joined(consumer: KafkaConsumer, partitions: int) -> Any:
    """Poll until the member has that many partitions; its place in the group right then."""
    until = time.monotonic() + 60
    while True:
        consumer.poll(timeout_ms=100)
        if len(consumer.assignment()) == partitions:
            return consumer.group_metadata()
        assert time.monotonic() < until, f"only {consumer.assignment()} after 20 s"


def offsets(name: str, **of: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """``offsets(topic, p0=3)``: partition 0 goes on from offset 3."""
    return {
        TopicPartition(name, int(partition[1:])): OffsetAndMetadata(offset, "", -1)
        for partition, offset in of.items()
    }


def committed(bootstrap: str, name: str) -> dict[int, int]:
    """The group's committed offset by partition."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        group = f"{name}-group"
        found = admin.list_group_offsets({group: None}).get(group, {})
    return {at.partition: value.offset for at, value in found.items() if value.offset >= 0}


def visible(bootstrap: str, name: str, partition: int = 0) -> list[bytes]:
    """What a read_committed reader sees up to the end of the partition."""
    at = TopicPartition(name, partition)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    with closing(consumer):
        consumer.assign([at])
        consumer.seek_to_beginning(at)
        end = consumer.end_offsets([at])[at]
        found: list[bytes] = []
        until = time.monotonic() + 30
        while consumer.position(at) < end:
            assert time.monotonic() < until, f"{name}[{partition}]: {found}, not at {end}"
            found += [record.value for record in consumer.poll(timeout_ms=100).get(at, [])]
        return found


class Outcome:
    """What became of a call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self.returned = False
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        else:
            self.returned = True

    def join(self, seconds: float) -> Outcome:
        self._thread.join(seconds)
        return self

    def waits(self) -> bool:
        return self._thread.is_alive()


def in_thread(call: Callable[[], Any]) -> Outcome:
    return Outcome(call)


def gone(hazard: str, guard: str) -> str:
    """What a test of the client says when a hazard does not show any more."""
    return f"the hazard is gone: {hazard}; {guard} may be reconsidered"
