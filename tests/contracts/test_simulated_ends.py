"""The contracts over the product's Kafka ends with a simulated client (over a real Kafka:
tests/integration/test_kafka_ends.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import pytest

from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.simulated import SimulatedClients
from pipeline.kafka.simulated_brokers import Brokers
from pipeline.kafka.sink import KafkaSink, SinkSettings
from pipeline.kafka.source import KafkaSource, SourceSettings
from pipeline.memory_ends import create_topics
from pipeline.memory_network import Process
from pipeline.memory_time import VirtualTime
from pipeline.ports import Headers, Reader, Sink, Source
from tests.contracts.deployment import PARTITIONS, Deployment, fresh_names
from tests.contracts.reader_contract import ReaderContract
from tests.contracts.sink_contract import SinkContract
from tests.contracts.source_contract import SourceContract

T = TypeVar("T", Source, Sink, Reader)


def simulated(brokers: Brokers, name: str = "process") -> Cluster:
    """The cluster as a process of its own reaches it."""
    return Cluster("simulated", {}, SimulatedClients(brokers, Process(name)))


@pytest.fixture
def ends() -> Iterator[Deployment]:
    names, brokers = fresh_names(), Brokers(VirtualTime())
    create_topics(brokers.memory, names, PARTITIONS)
    events, cluster = names.of("events"), simulated(brokers)
    with ExitStack() as stack:

        def closed_later(make: Callable[[], T]) -> T:
            made = make()
            stack.callback(made.close)
            return made

        def append(
            partition: int, key: bytes | None, value: bytes | None, headers: Headers
        ) -> object:
            return brokers.memory.append(events, partition, key, value, headers=headers)

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


class TestSimulatedSource(SourceContract):
    pass


class TestSimulatedSink(SinkContract):
    pass


class TestSimulatedReader(ReaderContract):
    pass
