"""A transaction that its coordinator took for ended and that is still open on a partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.producer.transaction_manager import TransactionalRequestResult, TxnOffsetCommitHandler
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from pipeline.errors import Retriable
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.sink import KafkaSink, SinkSettings
from pipeline.kafka.source import KafkaSource, SourceSettings
from pipeline.topics import Names, specs
from tests.contracts.deployment import fresh_names, out

CHECKED = "transaction.partition.verification.enable"


@pytest.fixture
def names(kafka: str) -> Iterator[Names]:
    """Topics on a broker that takes a transaction's records without asking its coordinator, so
    that a test can leave some behind of which that knows nothing, as a killed broker does."""
    names = fresh_names()
    with KafkaTopics(Cluster(kafka)) as topics:
        topics.create(specs(names, 2))
    with closing(KafkaAdminClient(bootstrap_servers=kafka)) as admin:
        _check(admin, "false")
        yield names
        _check(admin, "true")


def _check(admin: KafkaAdminClient, value: str) -> None:
    brokers = [str(broker["broker_id"]) for broker in admin.describe_cluster()["brokers"]]
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.BROKER, broker, {CHECKED: value}) for broker in brokers]
    )


def leave_open(kafka: str, names: Names, transactional_id: str) -> None:
    at = TopicPartition(names.of("surface"), 1)
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=transactional_id)
    with closing(producer):
        producer.init_transactions()
        producer.begin_transaction()
        producer._transaction_manager._partitions_in_transaction.add(at)
        producer.send(at.topic, b"orphan", key=b"s", partition=at.partition).get(10)


def test_the_next_commit_does_not_commit_what_a_lost_transaction_left(
    kafka: str, names: Names
) -> None:
    settings = SinkSettings(names, f"{names.application}-a", 1)
    leave_open(kafka, names, settings.transactional_id)
    sink = KafkaSink(Cluster(kafka), settings)
    with closing(sink):
        sink.open()
        transaction = sink.begin()
        transaction.send(out(b"own", partition=1))
        transaction.flush()
        transaction.commit()
    with closing(KafkaReader(Cluster(kafka), stall_s=5.0)) as reader:
        found = [record.value for record in reader.read(names.of("surface"), 1)]
    assert found == [b"own"]


def test_nor_its_offsets(kafka: str, names: Names) -> None:
    """They would be the group's word on what is folded, and hold back whoever asks for it."""
    settings = SinkSettings(names, f"{names.application}-a", 1)
    at, group = TopicPartition(names.of("events"), 1), ConsumerGroupMetadata(names.application)
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=settings.transactional_id)
    with closing(producer):
        producer.init_transactions()
        producer.begin_transaction()
        manager = producer._transaction_manager
        result = TransactionalRequestResult()
        commits = manager._pending_txn_offset_commits
        commits[at] = OffsetAndMetadata(7, "", -1)
        manager._enqueue_request(TxnOffsetCommitHandler(manager, group, commits, result))
        producer._sender.wakeup()
        assert result.wait(timeout_ms=10_000)
    source = KafkaSource(Cluster(kafka), SourceSettings(names.of("events"), names.application))
    with closing(KafkaSink(Cluster(kafka), settings)) as sink, closing(source):
        with pytest.raises(Retriable):
            source.committed([1], 2.0)
        sink.open()
        assert source.committed([1]) == {1: None}


def test_what_is_left_of_others_is_not_ours_to_end(kafka: str, names: Names) -> None:
    leave_open(kafka, names, f"{names.application}-b")
    sink = KafkaSink(Cluster(kafka), SinkSettings(names, f"{names.application}-a", 1))
    with closing(sink), closing(KafkaReader(Cluster(kafka))) as reader:
        before = reader.bounds(names.of("surface"), 1)
        sink.open()
        assert reader.bounds(names.of("surface"), 1) == before
