"""The local broker, real: what stays over a restart, three nodes, and what a crash leaves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from pipeline.broker import Cluster, local_cluster, local_kafka, unavailable
from pipeline.broker_cluster import Process

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _java_and_maven() -> None:
    if reason := unavailable():
        if os.environ.get("CI") == "true" and not os.environ.get("KAFKA_BOOTSTRAP"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


def make(bootstrap: str, topic: str, copies: int) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=copies)])


def write(bootstrap: str, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all")) as producer:
        producer.send(topic, value, partition=0).get(timeout=30)


def read(bootstrap: str, topic: str) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        found: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(found) < end and time.monotonic() < deadline:
            found += [r.value for rs in consumer.poll(timeout_ms=200).values() for r in rs]
        return found


def test_a_killed_node_comes_back_with_its_records() -> None:
    with local_cluster() as cluster:
        make(cluster.bootstrap, "kept", 1)
        write(cluster.bootstrap, "kept", b"before")
        cluster.signal(1, signal.SIGKILL)
        cluster.start([1])
        assert read(cluster.bootstrap, "kept") == [b"before"]
    assert not cluster.folder.exists()


def test_three_nodes_keep_three_copies() -> None:
    with local_kafka(brokers=3) as bootstrap:
        assert len(bootstrap.split(",")) == 3
        make(bootstrap, "copied", 3)
        write(bootstrap, "copied", b"value")
        assert read(bootstrap, "copied") == [b"value"]


@contextmanager
def other_process(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    code = (
        "import sys, time; from pathlib import Path; from pipeline.broker import local_kafka\n"
        "with local_kafka(directory=Path(sys.argv[1])) as bootstrap:\n"
        "    print(bootstrap, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_directory_outlives_a_killed_process_and_continues_on_another_port(
    tmp_path: Path,
) -> None:
    with other_process(tmp_path / "k") as (process, first):
        make(first, "kept", 1)
        write(first, "kept", b"before")
        orphan = Cluster.open(tmp_path / "k").pid(1)
        assert orphan is not None
        left = Process.of(orphan)
    assert process.returncode == -signal.SIGKILL
    assert Process.of(orphan) == left
    port = int(first.rpartition(":")[2]) + 2
    with local_kafka(port=port, directory=tmp_path / "k") as second:
        assert Process.of(orphan) != left
        assert second == f"127.0.0.1:{port}"
        write(second, "kept", b"after")
        assert read(second, "kept") == [b"before", b"after"]
    assert not Cluster.open(tmp_path / "k").running
