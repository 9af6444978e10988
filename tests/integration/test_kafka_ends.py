"""The contracts of the ports over a real Kafka (over memory: tests/contracts)."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import kafka.producer.kafka as producer_module
import pytest
from kafka import KafkaProducer

from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.sink import KafkaSink, SinkSettings
from pipeline.kafka.source import KafkaSource, SourceSettings
from pipeline.ports import Headers, Reader, Sink, Source
from pipeline.topics import specs
from tests.contracts.deployment import PARTITIONS, Deployment, fresh_names, take
from tests.contracts.reader_contract import ReaderContract
from tests.contracts.sink_contract import SinkContract
from tests.contracts.source_contract import SourceContract

T = TypeVar("T", Source, Sink, Reader)


@pytest.fixture
def ends(kafka: str) -> Iterator[Deployment]:
    names, cluster = fresh_names(), Cluster(kafka)
    with KafkaTopics(cluster) as topics:
        topics.create(specs(names, PARTITIONS))
    events = names.of("events")
    with ExitStack() as stack:
        producer = KafkaProducer(bootstrap_servers=kafka)
        stack.callback(producer.close)

        def closed_later(make: Callable[[], T]) -> T:
            made = make()
            stack.callback(made.close)
            return made

        def append(
            partition: int, key: bytes | None, value: bytes | None, headers: Headers
        ) -> object:
            future = producer.send(
                events, value, key=key, headers=list(headers), partition=partition
            )
            return future.get(10)

        def sink(instance: str) -> Sink:
            settings = SinkSettings(names, f"{names.application}-{instance}", 1)
            return closed_later(lambda: KafkaSink(cluster, settings))

        yield Deployment(
            names,
            lambda: closed_later(
                lambda: KafkaSource(cluster, SourceSettings(events, names.application))
            ),
            sink,
            lambda: closed_later(lambda: KafkaReader(cluster, stall_s=2.0)),
            append,
        )


class TestKafkaSource(SourceContract):
    pass


class TestKafkaSink(SinkContract):
    def test_a_collected_producer_does_not_silence_its_successor(self, ends: Deployment) -> None:
        sink = ends.opened()
        sink.abandon()
        gc.collect()
        silenced = not isinstance(producer_module.log, logging.Logger)
        sink.open()
        assert silenced, "kafka-python no longer does that: restore_logger can go"
        assert isinstance(producer_module.log, logging.Logger)


class TestKafkaReader(ReaderContract):
    pass


class NoUtf8(str):
    """A header name as a C client may write it."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"n\xff\xfe"


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_header_name_that_is_no_utf8_stops_nobody(
    kafka: str, ends: Deployment, compression: str | None
) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka, linger_ms=100, compression_type=compression)
    for n in range(5):
        headers = [("epoch", b"1"), (NoUtf8(), b"\xff"), ("é", b"")] if n == 2 else []
        producer.send(ends.names.of("events"), b"%d" % n, key=b"s", headers=headers, partition=0)
    producer.close()
    records, _ = take(ends.source(), 5)
    assert [record.value for record in records] == [b"0", b"1", b"2", b"3", b"4"]
    assert list(records[2].headers) == [("epoch", b"1"), ("n??", b"\xff"), ("é", b"")]
    assert ends.read("events") == records
