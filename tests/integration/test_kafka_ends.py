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
from tests.contracts.deployment import PARTITIONS, Deployment, fresh_names
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
                lambda: KafkaSource(
                    cluster, SourceSettings(events, names.application, call_timeout_s=3.0)
                )
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
