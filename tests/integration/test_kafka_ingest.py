"""Ingest onto a real Kafka: each line once, in its session's partition, across restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from pipeline.errors import Fatal, Poison
from pipeline.ingest import Ingest
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.lines import KafkaLineSink
from pipeline.kafka.reader import KafkaReader
from pipeline.limits import MAX_OUTPUT_RECORD_BYTES
from pipeline.ports import InRecord, OutRecord
from pipeline.resume import already_in
from pipeline.topics import Names, specs
from tests.schemas.logs import raw, turns, zstd

PARTITIONS = 3


@pytest.fixture
def names(topic_prefix: str) -> Names:
    return Names(topic_prefix, topic_prefix + "app")


@pytest.fixture
def cluster(kafka: str, names: Names) -> Cluster:
    found = Cluster(kafka)
    with KafkaTopics(found) as topics:
        topics.create(specs(names, PARTITIONS))
    return found


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[KafkaReader]:
    opened = KafkaReader(cluster)
    yield opened
    opened.close()


def ingested(cluster: Cluster, names: Names, reader: KafkaReader, root: Path) -> int:
    """One run, as a process of its own would; the lines it sent."""
    known = already_in(reader, names.of("events"))
    sink = KafkaLineSink(cluster, names)
    try:
        return Ingest(sink, names.of("events"), known.get).once([root]).sent
    finally:
        sink.close()


def all_of(reader: KafkaReader, topic: str) -> list[InRecord]:
    return [record for at in range(PARTITIONS) for record in reader.read(topic, at)]


def test_each_line_once_and_where_every_producer_would_put_it(
    cluster: Cluster, names: Names, reader: KafkaReader, tmp_path: Path
) -> None:
    sessions = [f"session-{at}" for at in range(12)]
    for session in sessions:
        folder = tmp_path / "--b--" / session
        folder.mkdir(parents=True)
        (folder / "session.v4.jsonl").write_bytes(raw(turns(2, session=session)))
    assert ingested(cluster, names, reader, tmp_path) == 12 * 7
    assert ingested(cluster, names, reader, tmp_path) == 0
    (tmp_path / "--b--" / "session-0" / "session.v4.jsonl").write_bytes(
        raw(turns(3, session="session-0"))
    )
    assert ingested(cluster, names, reader, tmp_path) == 3

    records = all_of(reader, names.of("events"))
    other = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    for session in sessions:
        key = session.encode()
        mine = [record for record in records if record.key == key]
        turned = 3 if session == "session-0" else 2
        assert [record.value for record in mine] == turns(turned, session=session)
        assert {tuple(record.headers) for record in mine} == {(("epoch", b"0"),)}
        placed = other.send(names.of("surface"), key=key, value=b"").get(10)
        assert {record.partition for record in mine} == {placed.partition}
    other.close()
    assert len(records) == 12 * 7 + 3


def test_what_cannot_be_read_is_a_dead_letter(
    cluster: Cluster, names: Names, reader: KafkaReader, tmp_path: Path
) -> None:
    folder = tmp_path / "--b--" / "s"
    folder.mkdir(parents=True)
    data = bytearray(zstd(turns()))
    data[-1] ^= 1
    (folder / "session.v4.jsonl.zstd").write_bytes(data)
    assert ingested(cluster, names, reader, tmp_path) == 4
    [letter] = reader.read(names.of("deadletter"), 0)
    assert letter.key == b"s"


def test_a_line_of_the_greatest_length_arrives(
    cluster: Cluster, names: Names, reader: KafkaReader, tmp_path: Path
) -> None:
    long = b'{"type":"a/b","seq":0,"time":0,"data":"%b"}' % (b"x" * (8 * 1024 * 1024 - 41))
    assert len(long) == 8 * 1024 * 1024
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "log.jsonl").write_bytes(long + b"\n")
    assert ingested(cluster, names, reader, tmp_path) == 1
    assert [record.value for record in all_of(reader, names.of("events"))] == [long]


def test_a_record_too_large_and_a_missing_topic_say_so(cluster: Cluster, names: Names) -> None:
    sink = KafkaLineSink(cluster, names, patience_s=6)
    try:
        with pytest.raises(Poison, match="above the limit"):
            sink.send(OutRecord("events", 0, b"k", b"x" * (MAX_OUTPUT_RECORD_BYTES + 1), []))
        sink.flush()
    finally:
        sink.close()
    with pytest.raises(Fatal, match="does not exist"):
        KafkaLineSink(cluster, Names("nowhere."), patience_s=6)
