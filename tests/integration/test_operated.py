"""A worker as a process of its own: asked over HTTP, read by its log, told to stop."""

from __future__ import annotations

import http.client
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.simulate import fleet
from pipeline.topics import Names, specs
from tests.pipeline.world import interleaved, partition_of

PARTITIONS = 3
LINES = interleaved(fleet(5, 6, events=60))
WAIT_S = 60


class Operated:
    """``foldstream run --listen 0 --log-format json``; ``log`` is its standard error so far."""

    def __init__(self, bootstrap: str, names: Names, folder: Path) -> None:
        options = {
            "--bootstrap": bootstrap,
            "--prefix": names.prefix,
            "--application-id": names.application,
            "--instance": "w",
            "--listen": "0",
            "--log-format": "json",
            "--log-level": "info",
            "--state-dir": str(folder),
        }
        given = [x for option in options.items() for x in option]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipeline.cli", "run", *given],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("FOLDSTREAM_")},
        )
        self.log: list[dict[str, Any]] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.at = self.said("http://").removeprefix("http://").partition("/")[0]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def said(self, what: str) -> str:
        """The next line that holds ``what``."""
        while True:
            line = self._lines.get(timeout=WAIT_S)
            assert line is not None, self.log
            self.log.append(json.loads(line))
            message: str = self.log[-1]["message"]
            if what in message:
                return message

    def ask(self, path: str) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(self.at, timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def metric(self, name: str) -> float:
        """The sum over its labels."""
        text = self.ask("/metrics")[1].decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        )

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not what():
            assert time.monotonic() < deadline
            assert self.process.poll() is None
            time.sleep(0.1)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT_S)
        self._reader.join()
        while (line := self._lines.get(timeout=1)) is not None:
            self.log.append(json.loads(line))
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def names(kafka: str, topic_prefix: str) -> Names:
    made = Names(topic_prefix, f"{topic_prefix}app")
    with KafkaTopics(Cluster(kafka)) as topics:
        topics.create(specs(made, PARTITIONS))
    return made


@pytest.fixture
def worker(kafka: str, names: Names, tmp_path: Path) -> Iterator[Operated]:
    with closing(Operated(kafka, names, tmp_path / "states")) as running:
        yield running


def feed(bootstrap: str, names: Names) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for session, line in LINES:
            at = partition_of(session, PARTITIONS)
            producer.send(names.of("events"), line, key=session.encode(), partition=at)
        producer.send(names.of("events"), b"{torn", key=b"torn", partition=0)
        producer.flush(30)


def test_a_worker_is_watched_from_its_start_to_its_end(
    kafka: str, names: Names, worker: Operated
) -> None:
    worker.until(lambda: worker.ask("/readyz")[0] == 200)
    ready = json.loads(worker.ask("/readyz")[1])
    assert ready == {"ok": True, "why": [], "restored": [0, 1, 2], "restoring": []}
    assert worker.ask("/livez")[0] == 200
    feed(kafka, names)
    count = len(LINES) + 1
    worker.until(lambda: worker.metric("foldstream_records_total") == count)
    for name, value in {
        "foldstream_ready": 1,
        "foldstream_partitions": PARTITIONS,
        "foldstream_dead_letters_total": 1,
        "foldstream_failures_total": 0,
        "foldstream_restore_seconds_count": PARTITIONS,
        "foldstream_event_to_commit_seconds_count": count,
    }.items():
        assert worker.metric(name) == value, name
    assert 0 < worker.metric("foldstream_event_to_commit_seconds_sum") < count * WAIT_S
    worker.until(lambda: worker.metric("foldstream_sessions") == 6 + 1)  # the torn one, too
    assert worker.metric("foldstream_sessions_bytes") > 0
    assert worker.end() == 0
    assert worker.log[-1]["message"].startswith("folding: ")
    assert {line["instance"] for line in worker.log if line["logger"].startswith("pipeline")} == {
        "w"
    }
    restored = [line for line in worker.log if " sessions, " in line["message"]]
    assert {line["partition"] for line in restored} == {0, 1, 2}


def test_a_worker_that_is_killed_is_back_and_ready(
    kafka: str, names: Names, worker: Operated, tmp_path: Path
) -> None:
    feed(kafka, names)
    worker.until(lambda: worker.metric("foldstream_records_total") == len(LINES) + 1)
    worker.process.kill()
    worker.process.wait()
    with closing(Operated(kafka, names, tmp_path / "states")) as again:
        assert again.ask("/readyz")[0] == 503
        again.until(lambda: again.ask("/readyz")[0] == 200)
        assert again.metric("foldstream_records_total") == 0
        assert again.end() == 0
