"""The contracts over topics in memory (over a real Kafka: tests/integration/test_kafka_ends.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.errors import Retriable
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, MemorySink, MemorySource, create_topics
from pipeline.ports import StateStore
from pipeline.store import MemoryStore
from tests.contracts.deployment import Deployment, fresh_names, memory_deployment, take
from tests.contracts.reader_contract import ReaderContract
from tests.contracts.sink_contract import SinkContract
from tests.contracts.source_contract import SourceContract
from tests.contracts.store_contract import StoreContract


@pytest.fixture
def ends() -> Iterator[Deployment]:
    with memory_deployment() as deployment:
        yield deployment


@pytest.fixture
def store() -> StateStore:
    return MemoryStore()


class TestMemoryStore(StoreContract):
    pass


class TestMemorySource(SourceContract):
    pass


class TestMemorySink(SinkContract):
    pass


class TestMemoryReader(ReaderContract):
    def test_committed_waits_for_the_end_of_a_transaction_that_carries_some(self) -> None:
        """So does Kafka's, which waits longer than a test should."""
        names, broker = fresh_names(), MemoryBroker()
        create_topics(broker, names, 1)
        events = names.of("events")
        broker.append(events, 0, b"s", b"x")
        sink = MemorySink(broker, names, "a")
        sink.open()
        _, member = take(MemorySource(broker, names.application, events), 1)
        transaction = sink.begin()
        transaction.send_offsets({0: 1}, member)
        with pytest.raises(Retriable, match="offsets of group"):
            MemoryReader(broker, wait=lambda _: None).committed(names.application, events)
        reader = MemoryReader(broker, wait=lambda _: transaction.commit())
        assert reader.committed(names.application, events) == {0: 1}
