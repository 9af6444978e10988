"""Ingest onto a real Kafka: each line once, in its session's partition, across restarts."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

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
from pipeline.wiring import WorkerSettings, build
from tests.schemas.logs import header, raw, row, turns, zstd

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
    known = already_in(reader, names)
    sink = KafkaLineSink(cluster, names)
    try:
        return Ingest(sink, names.of("events"), known.sessions.get).once([root]).sent
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


# --- as a process ---------------------------------------------------------------------------------


def ingesting(cluster: Cluster, names: Names, *argv: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pipeline.cli", "ingest", *map(str, argv)]
    command += ["--bootstrap", cluster.bootstrap, "--prefix", names.prefix]
    command += ["--application-id", names.application]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def written(root: Path, sessions: int, turned: int) -> dict[bytes, list[bytes]]:
    """Session directories, every second one zstd in a root of its own, which grow to so many turns
    (one more frame each); the lines by key."""
    lines = {}
    for at in range(sessions):
        session, packed = f"session-{at}", at % 2
        folder = root / ("zipped" if packed else "raw") / "--b--" / session
        folder.mkdir(parents=True, exist_ok=True)
        lines[session.encode()] = whole = turns(turned, session=session)
        name = "session.v4.jsonl.zstd" if packed else "session.v4.jsonl"
        with (folder / name).open("ab") as file:
            file.write((zstd(whole) if packed else raw(whole))[file.tell() :])
    return lines


def arrived(reader: KafkaReader, names: Names) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for record in all_of(reader, names.of("events")):
        assert dict(record.headers) == {"epoch": b"0"}
        found.setdefault(record.key or b"", []).append(record.value or b"")
    return found


def until_sent(reader: KafkaReader, names: Names, least: int) -> None:
    deadline = time.monotonic() + 60
    while sum(reader.bounds(names.of("events"), at)[1] for at in range(PARTITIONS)) < least:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fold(cluster: Cluster, names: Names) -> None:
    """A worker folds what is there."""
    own: dict[str, Any] = {
        "prefix": names.prefix,
        "application": names.application,
        "stop_at_end": True,
    }
    build(WorkerSettings(broker=cluster.bootstrap, instance="1", **own)).run()


@pytest.mark.parametrize("folded", [False, True], ids=["nothing folded", "folded in between"])
def test_killed_in_the_middle_and_started_again_no_line_is_lost_or_doubled(
    cluster: Cluster, names: Names, reader: KafkaReader, tmp_path: Path, folded: bool
) -> None:
    roots = [tmp_path / "raw", tmp_path / "zipped"]
    lines = written(tmp_path, 40, 60)
    whole = sum(map(len, lines.values()))
    for least in (1, whole // 4, whole // 2):
        with ingesting(cluster, names, *roots, "--follow") as child:
            until_sent(reader, names, least)
            child.kill()
        if folded:
            fold(cluster, names)
    more = written(tmp_path, 40, 70)
    with ingesting(cluster, names, *roots, "--follow") as child:
        until_sent(reader, names, sum(map(len, more.values())))
        still = written(tmp_path, 40, 72)
        until_sent(reader, names, sum(map(len, still.values())))
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert arrived(reader, names) == still
    with ingesting(cluster, names, *roots, "--json") as again:
        out, _ = again.communicate(timeout=60)
    assert msgspec.json.decode(out)["sent"] == 0
    assert arrived(reader, names) == still


def test_a_topic_that_takes_little_at_once_gets_all_that_it_takes(
    cluster: Cluster, names: Names, reader: KafkaReader, tmp_path: Path
) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        for role in ("events", "deadletter"):
            limit = {"max.message.bytes": "20000"}
            topic = ConfigResource(ConfigResourceType.TOPIC, names.of(role), limit)
            admin.alter_configs([topic])
    with KafkaTopics(cluster) as topics:
        deadline = time.monotonic() + 10
        events = names.of("events")
        while topics.describe([events])[events].settings["max.message.bytes"] != "20000":
            assert time.monotonic() < deadline
            time.sleep(0.05)
    lines = [header(), *(row(at, data="x" * (at * 97 % 19_700)) for at in range(400))]
    fits, long = row(400, data="x" * 19_700), row(401, data="x" * 19_990)
    (tmp_path / "s.jsonl").write_bytes(raw([*lines, fits, long, row(402)]))
    with ingesting(cluster, names, tmp_path, "--json") as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert msgspec.json.decode(out)["dead_letters"] == 1
    assert arrived(reader, names) == {b"s": [*lines, fits, row(402)]}
    with ingesting(cluster, names, tmp_path, "--json") as child:
        out, _ = child.communicate(timeout=60)
    assert msgspec.json.decode(out) | {"known": 0} == {
        **dict.fromkeys(("unreadable", "sent", "bytes", "known", "dead_letters", "epochs"), 0),
        "sessions": 1,
    }
