"""The contracts over the product's Kafka ends with a simulated client (over a real Kafka:
tests/integration/test_kafka_ends.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.kafka.client import Cluster
from pipeline.kafka.simulated import SimulatedClients
from pipeline.kafka.simulated_brokers import Brokers
from pipeline.memory_ends import create_topics
from pipeline.memory_network import Process
from pipeline.memory_time import VirtualTime
from pipeline.ports import Headers
from tests.contracts.deployment import PARTITIONS, Deployment, fresh_names, kafka_deployment
from tests.contracts.reader_contract import ReaderContract
from tests.contracts.sink_contract import SinkContract
from tests.contracts.source_contract import SourceContract


def simulated(brokers: Brokers, name: str = "process") -> Cluster:
    """The cluster as a process of its own reaches it."""
    return Cluster("simulated", {}, SimulatedClients(brokers, Process(name)))


@pytest.fixture
def ends() -> Iterator[Deployment]:
    names, brokers = fresh_names(), Brokers(VirtualTime())
    create_topics(brokers.memory, names, PARTITIONS)
    events, cluster = names.of("events"), simulated(brokers)

    def append(partition: int, key: bytes | None, value: bytes | None, headers: Headers) -> object:
        return brokers.memory.append(events, partition, key, value, headers=headers)

    with kafka_deployment(names, cluster, append) as made:
        yield made


class TestSimulatedSource(SourceContract):
    pass


class TestSimulatedSink(SinkContract):
    pass


class TestSimulatedReader(ReaderContract):
    pass
