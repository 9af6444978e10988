"""Offsets of an aborted transaction that the next one commits."""

from __future__ import annotations

import pytest
from kafka import errors as raised
from kafka.structs import ConsumerGroupMetadata

from pipeline.errors import Retriable
from pipeline.kafka.sink import KafkaSink
from pipeline.ports import Member
from tests.contracts.deployment import joined as member_of

from .client import committed, gone, joined, member, offsets, topic, transactional
from .ends import Ends
from .node import Proxied


def stale(now: ConsumerGroupMetadata) -> ConsumerGroupMetadata:
    """The same member before the last rebalance."""
    return ConsumerGroupMetadata(now.group_id, now.generation_id - 1, now.member_id)


def test_h5_the_next_transaction_commits_the_offsets_of_the_aborted_one(node: Proxied) -> None:
    name = topic(node.bootstrap)
    with (
        member(node.bootstrap, name) as consumer,
        transactional(node.bootstrap, name) as producer,
    ):
        now = joined(consumer, 2)
        producer.begin_transaction()
        with pytest.raises(raised.CommitFailedError):
            producer.send_offsets_to_transaction(offsets(name, p1=777), stale(now))
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction(offsets(name, p0=1), now)
        producer.commit_transaction()
    assert committed(node.bootstrap, name) == {0: 1, 1: 777}, gone(
        "aborted offsets stay in the producer", "that the sink abandons its producer"
    )


class Reusing(KafkaSink):
    """Aborts, and goes on with the same producer."""

    def abandon(self) -> None:
        self._producer.abort_transaction()

    def open(self) -> None:
        if self._producer is None:
            super().open()

    def close(self) -> None:
        super().abandon()


@pytest.mark.parametrize(
    ("kind", "after"), [(KafkaSink, {0: 1}), (Reusing, {0: 1, 1: 777})], ids=["sink", "unguarded"]
)
def test_the_sink_forgets_them_with_its_producer(
    ends: Ends, kind: type[KafkaSink], after: dict[int, int]
) -> None:
    sink, source = ends.sink(kind=kind), ends.source()
    now = member_of(source).member
    passed = stale(now.token)
    transaction = sink.begin()
    transaction.send_offsets({1: 777}, Member(passed.generation_id, passed.member_id, passed))
    with pytest.raises(Retriable):
        transaction.flush()
    sink.abandon()
    sink.open()
    transaction = sink.begin()
    transaction.send_offsets({0: 1}, now)
    transaction.flush()
    transaction.commit()
    assert ends.committed() == after
