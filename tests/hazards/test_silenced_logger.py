"""The log of all producers of a process, which falls silent with the first that is collected."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import kafka.producer.kafka as producer_module
import pytest

from pipeline.kafka import sink as sink_module
from pipeline.kafka.sink import KafkaSink

from .client import gone, topic, transactional
from .ends import Ends
from .node import Proxied


@pytest.fixture(autouse=True)
def _loud() -> Iterator[None]:
    before = producer_module.log
    producer_module.log = logging.getLogger(producer_module.__name__)
    yield
    producer_module.log = before


def silent() -> bool:
    gc.collect()
    return not isinstance(producer_module.log, logging.Logger)


def test_a_collected_producer_silences_all_others(node: Proxied) -> None:
    with transactional(node.bootstrap, topic(node.bootstrap)) as producer:
        del producer
    assert silent(), gone("the log of producers is replaced", "client.restore_logger")


def rebuilt(sink: KafkaSink) -> None:
    """Its producer is collected and the next transaction begins."""
    sink.abandon()
    gc.collect()
    sink.open()
    sink.begin()


def test_a_rebuilt_sink_is_heard(ends: Ends) -> None:
    rebuilt(ends.sink())
    assert isinstance(producer_module.log, logging.Logger)


def test_without_restoring_it_is_not(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "restore_logger", lambda: None)
    rebuilt(ends.sink())
    assert silent()
