"""The contracts of the ports over a real Kafka (over memory: tests/contracts)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaProducer

from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.ports import Headers
from pipeline.topics import specs
from tests.contracts.deployment import PARTITIONS, Deployment, fresh_names, kafka_deployment, take
from tests.contracts.reader_contract import ReaderContract
from tests.contracts.sink_contract import SinkContract
from tests.contracts.source_contract import SourceContract


@pytest.fixture
def ends(kafka: str) -> Iterator[Deployment]:
    names, cluster = fresh_names(), Cluster(kafka)
    with KafkaTopics(cluster) as topics:
        topics.create(specs(names, PARTITIONS))
    events = names.of("events")
    with closing(KafkaProducer(bootstrap_servers=kafka)) as producer:

        def append(
            partition: int, key: bytes | None, value: bytes | None, headers: Headers
        ) -> object:
            future = producer.send(
                events, value, key=key, headers=list(headers), partition=partition
            )
            return future.get(10)

        with kafka_deployment(names, cluster, append) as made:
            yield made


class TestKafkaSource(SourceContract):
    pass


class TestKafkaSink(SinkContract):
    pass


class TestKafkaReader(ReaderContract):
    pass


class NoUtf8(str):
    """A header name as a C client may write it."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"n\xff\xfe"


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_header_name_that_is_no_utf8_stops_nobody(
    kafka: str, ends: Deployment, compression: str | None
) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka, linger_ms=100, compression_type=compression)
    for n in range(5):
        headers = [("epoch", b"1"), (NoUtf8(), b"\xff"), ("é", b"")] if n == 2 else []
        producer.send(ends.names.of("events"), b"%d" % n, key=b"s", headers=headers, partition=0)
    producer.close()
    records, _ = take(ends.source(), 5)
    assert [record.value for record in records] == [b"0", b"1", b"2", b"3", b"4"]
    assert list(records[2].headers) == [("epoch", b"1"), ("n??", b"\xff"), ("é", b"")]
    assert ends.read("events") == records
