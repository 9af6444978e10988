"""A record that expires in the client while its transaction goes on and is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer
from kafka import errors as raised

from pipeline.errors import Retriable
from pipeline.kafka.sink import KafkaSink, KafkaTransaction
from tests.contracts.deployment import out

from .client import DELIVERY_MS, gone, topic, transactional, visible
from .ends import Ends
from .node import Proxied

GUARD = "that the sink flushes and looks at every future before it commits"


@contextmanager
def expired(node: Proxied, name: str) -> Iterator[KafkaProducer]:
    """A producer in a transaction of which ``kept`` is acknowledged and ``lost`` never arrived."""
    with transactional(node.through, name) as producer:
        producer.begin_transaction()
        kept = producer.send(name, b"kept", partition=0)
        producer.flush(10)
        node.proxy.swallow()
        try:
            lost = producer.send(name, b"lost", partition=0)
            with pytest.raises(raised.KafkaTimeoutError):
                lost.get(timeout=10 * DELIVERY_MS / 1000)
        finally:
            node.proxy.heal()
        assert kept.succeeded()
        yield producer


def test_h1_the_client_commits_without_a_record_that_expired(node: Proxied) -> None:
    name = topic(node.bootstrap)
    with expired(node, name) as producer:
        producer.commit_transaction()
    assert visible(node.bootstrap, name) == [b"kept"], gone("a commit over a lost record", GUARD)


def test_h1b_the_client_reports_as_committed_what_the_broker_aborted(node: Proxied) -> None:
    name = topic(node.bootstrap)
    with expired(node, name) as producer:
        after = producer.send(name, b"after", partition=0)
        producer.commit_transaction()  # no error
        assert isinstance(after.exception, raised.OutOfOrderSequenceNumberError)
    assert visible(node.bootstrap, name) == [], gone("a commit that was an abort", GUARD)


def test_h1c_the_client_loses_the_first_batch_of_the_next_transaction(node: Proxied) -> None:
    name = topic(node.bootstrap)
    with expired(node, name) as producer:
        producer.commit_transaction()
        seen = []
        for value in (b"next", b"third"):
            producer.begin_transaction()
            future = producer.send(name, value, partition=0)
            producer.commit_transaction()
            seen.append(type(future.exception))
    why = gone("a first batch lost after an expiry", "that the sink abandons its producer")
    assert seen == [raised.OutOfOrderSequenceNumberError, type(None)], why
    assert visible(node.bootstrap, name) == [b"kept", b"third"], why


def commit_with_a_loss(node: Proxied, sink: KafkaSink) -> None:
    transaction = sink.begin()
    transaction.send(out(b"kept"))
    transaction.flush()
    node.proxy.swallow()
    try:
        transaction.send(out(b"lost"))
        transaction.flush()
    finally:
        node.proxy.heal()
    transaction.commit()


def test_the_sink_commits_nothing_over_a_lost_record(node: Proxied, ends: Ends) -> None:
    sink = ends.sink(node.through)
    with pytest.raises(Retriable, match="not acknowledged"):
        commit_with_a_loss(node, sink)
    sink.abandon()
    sink.open()
    transaction = sink.begin()
    transaction.send(out(b"kept"))
    transaction.send(out(b"not lost"))
    transaction.flush()
    transaction.commit()
    assert ends.values() == [b"kept", b"not lost"]


def test_without_a_look_at_the_futures_the_record_is_lost(
    node: Proxied, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flush(transaction: KafkaTransaction) -> dict[int, int]:
        transaction._producer.flush(timeout=10)
        return {}

    monkeypatch.setattr(KafkaTransaction, "flush", flush)
    commit_with_a_loss(node, ends.sink(node.through))
    assert ends.values() == [b"kept"]
