"""What a contract test needs of either implementation: a fresh deployment and its ends."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from msgspec import Struct

from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.sink import KafkaSink, SinkSettings
from pipeline.kafka.source import KafkaSource, SourceSettings
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, MemorySink, MemorySource, create_topics
from pipeline.ports import Headers, InRecord, Member, OutRecord, Polled, Reader, Sink, Source
from pipeline.topics import Names

PARTITIONS = 3
End = TypeVar("End", KafkaSource, KafkaSink, KafkaReader)
Append = Callable[[int, bytes | None, bytes | None, Headers], object]


class Deployment(Struct, frozen=True):
    """Topics of one test. Whatever is made here is closed with the test."""

    names: Names
    source: Callable[[], Source]
    sink: Callable[[str], Sink]
    reader: Callable[[], Reader]
    append_record: Append

    def append(
        self,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = b"s",
        headers: Headers = (),
    ) -> None:
        """One record onto the events topic, outside any transaction."""
        self.append_record(partition, key, value, headers)

    def opened(self, instance: str = "a") -> Sink:
        sink = self.sink(instance)
        sink.open()
        return sink

    def read(self, role: str, partition: int = 0) -> list[InRecord]:
        return list(self.reader().read(self.names.of(role), partition))

    def values(self, role: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.read(role, partition)]

    def committed(self) -> dict[int, int]:
        return self.reader().committed(self.names.application, self.names.of("events"))


def joined(source: Source) -> Polled:
    """Poll until the member has its partitions; the last poll, with them as ``assigned``."""
    return until(source, lambda polled: bool(polled.assigned))


def until(source: Source, wanted: Callable[[Polled], bool]) -> Polled:
    for _ in range(60):
        polled = source.poll(0.25)
        if wanted(polled):
            return polled
    raise AssertionError("nothing of the kind came within 15 s")


def take(source: Source, count: int) -> tuple[list[InRecord], Member]:
    """Start everything assigned at its committed offset and poll until ``count`` records came."""
    found: list[InRecord] = []
    for _ in range(60):
        polled = source.poll(0.25)
        start_all(source, polled.assigned)
        found += [record for records in polled.records.values() for record in records]
        if len(found) >= count:
            return found, polled.member
    raise AssertionError(f"{len(found)} of {count} records came within 15 s")


def start_all(source: Source, partitions: Sequence[int]) -> None:
    for partition, offset in source.committed(partitions).items():
        source.start(partition, offset)


def out(value: bytes | None, *, partition: int = 0, role: str = "surface") -> OutRecord:
    return OutRecord(role, partition, b"s", value, [("session", b"s"), ("epoch", b"0")])


def publish(
    sink: Sink, records: Sequence[OutRecord], offsets: dict[int, int], member: Member
) -> None:
    """One whole transaction."""
    transaction = sink.begin()
    transaction.send_offsets(offsets, member)
    for record in records:
        transaction.send(record)
    transaction.flush()
    transaction.commit()


def fresh_names() -> Names:
    token = uuid.uuid4().hex[:10]
    return Names(f"t{token}.", f"app-{token}")


@contextmanager
def memory_deployment() -> Iterator[Deployment]:
    names, broker = fresh_names(), MemoryBroker()
    create_topics(broker, names, PARTITIONS)
    events = names.of("events")
    with ExitStack() as stack:

        def source() -> Source:
            made = MemorySource(broker, names.application, events)
            stack.callback(made.close)
            return made

        def append(
            partition: int, key: bytes | None, value: bytes | None, headers: Headers
        ) -> object:
            return broker.append(events, partition, key, value, headers=headers)

        yield Deployment(
            names,
            source,
            lambda instance: MemorySink(broker, names, f"{names.application}-{instance}"),
            lambda: MemoryReader(broker, patience=0.1),
            append,
        )


@contextmanager
def kafka_deployment(names: Names, cluster: Cluster, append: Append) -> Iterator[Deployment]:
    """The product's Kafka ends over ``cluster``, whose client may be a simulated one; ``append``
    writes to the events topic."""
    with ExitStack() as stack:

        def closed_later(made: End) -> End:
            stack.callback(made.close)
            return made

        source = SourceSettings(names.of("events"), names.application)

        def sink(instance: str) -> Sink:
            settings = SinkSettings(names, f"{names.application}-{instance}", 1)
            return closed_later(KafkaSink(cluster, settings))

        yield Deployment(
            names,
            lambda: closed_later(KafkaSource(cluster, source)),
            sink,
            lambda: closed_later(KafkaReader(cluster, stall_s=2.0)),
            append,
        )
