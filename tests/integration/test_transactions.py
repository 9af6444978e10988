"""What the whole delivery rests on: a reader of committed records sees whole transactions only."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

PARTITIONS = 2


@pytest.fixture
def topic(kafka: str, topic_prefix: str) -> str:
    name = f"{topic_prefix}events"
    with closing(KafkaAdminClient(bootstrap_servers=kafka)) as admin:
        admin.create_topics([NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)])
    return name


@contextmanager
def transactional(kafka: str, name: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=name, retry_backoff_ms=10)
    try:
        producer.init_transactions()
        yield producer
    finally:
        producer.close(timeout=2)


def values(kafka: str, topic: str, isolation: str) -> list[list[bytes]]:
    """Per partition every record up to the end as that reader sees it."""
    consumer = KafkaConsumer(
        bootstrap_servers=kafka, isolation_level=isolation, enable_auto_commit=False, group_id=None
    )
    with closing(consumer):
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found: dict[TopicPartition, list[bytes]] = {p: [] for p in partitions}
        deadline = time.monotonic() + 30
        while any(consumer.position(p) < ends[p] for p in partitions):
            assert time.monotonic() < deadline, f"not at {ends} after 30 s: {found}"
            for partition, records in consumer.poll(timeout_ms=200).items():
                found[partition] += [record.value for record in records]
        return [found[p] for p in partitions]


def test_read_committed_sees_committed_transactions_only(kafka: str, topic: str) -> None:
    with transactional(kafka, f"{topic}-tx") as producer:
        producer.begin_transaction()
        kept = [producer.send(topic, b"kept", partition=p) for p in range(PARTITIONS)]
        producer.flush(timeout=10)
        assert [future.get(timeout=10).offset for future in kept] == [0, 0]
        producer.commit_transaction()

        producer.begin_transaction()
        dropped = producer.send(topic, b"dropped", partition=1)
        producer.flush(timeout=10)
        assert dropped.get(timeout=10).offset > 0  # written, whatever becomes of it
        producer.abort_transaction()

        producer.begin_transaction()
        producer.send(topic, b"last", partition=1)
        producer.commit_transaction()

    assert values(kafka, topic, "read_committed") == [[b"kept"], [b"kept", b"last"]]
    assert values(kafka, topic, "read_uncommitted") == [[b"kept"], [b"kept", b"dropped", b"last"]]


def test_an_open_transaction_is_not_seen_and_holds_what_follows(kafka: str, topic: str) -> None:
    with transactional(kafka, f"{topic}-open") as slow, transactional(kafka, f"{topic}-2") as quick:
        slow.begin_transaction()
        slow.send(topic, b"open", partition=0).get(timeout=10)
        quick.begin_transaction()
        quick.send(topic, b"behind", partition=0).get(timeout=10)
        quick.commit_transaction()
        assert values(kafka, topic, "read_committed")[0] == []
        slow.commit_transaction()
    assert values(kafka, topic, "read_committed")[0] == [b"open", b"behind"]
