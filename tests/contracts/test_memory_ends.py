"""The contracts over topics in memory (over a real Kafka: tests/integration/test_kafka_ends.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.ports import StateStore
from pipeline.store import MemoryStore
from tests.contracts.deployment import Deployment, memory_deployment
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
    pass
