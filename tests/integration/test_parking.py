"""Parking over a real Kafka: a strict worker, a bad record, the commands, and the proof."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from operators.changes import SessionOverview
from pipeline.cli import main
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.patterns import matcher
from pipeline.simulate import simulate
from pipeline.topics import Names, specs
from pipeline.verify import verify
from pipeline.wiring import WorkerSettings, build
from schemas.codec import decode_change

S = "sim-00000007"
LINES = simulate(7, events=60, features=()).lines
OTHER = simulate(8, events=60, features=())
PATTERN = "sim-*7"
WAIT_S = 60.0


class Deployment:
    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = Cluster(bootstrap)
        self.names = Names(prefix, f"{prefix}app")
        with KafkaTopics(self.cluster) as topics:
            topics.create(specs(self.names, 2))
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)

    def feed(self, session: str, *lines: bytes) -> None:
        for line in lines:
            self.producer.send(self.names.of("events"), line, session.encode(), partition=1)
        self.producer.flush(30)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A worker that folds strictly what the pattern names."""
        stop = threading.Event()
        settings = WorkerSettings(
            broker=self.bootstrap,
            instance="1",
            prefix=self.names.prefix,
            application=self.names.application,
            strict=(PATTERN,),
            stop=stop,
        )
        worker = threading.Thread(target=build(settings).run)
        worker.start()
        try:
            yield
        finally:
            stop.set()
            worker.join(WAIT_S)
            assert not worker.is_alive()

    def overview(self, session: str) -> SessionOverview | None:
        last = None
        with closing(KafkaReader(self.cluster)) as reader:
            for record in reader.read(self.names.of("overview"), 1):
                if record.key == session.encode():
                    last = decode_change(record.value or b"")
        assert last is None or isinstance(last, SessionOverview)
        return last

    def until(self, wanted: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not wanted():
            assert time.monotonic() < deadline, self.overview(S)
            time.sleep(0.2)

    def is_at(self, session: str, state: str, next_seq: int) -> bool:
        found = self.overview(session)
        return found is not None and (found.state, found.next_seq) == (state, next_seq)

    def command(self, *words: str) -> int:
        where = ["--bootstrap", self.bootstrap, "--prefix", self.names.prefix]
        return main([*words, *where, "--application-id", self.names.application])

    def proven(self) -> None:
        with closing(KafkaReader(self.cluster)) as reader:
            verdict = verify(reader, self.names, strict=matcher((PATTERN,)))
        assert verdict.ok, verdict


@pytest.fixture
def deployment(
    kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    for name in [name for name in os.environ if name.startswith("FOLDSTREAM_")]:
        monkeypatch.delenv(name)  # the commands read them as options
    made = Deployment(kafka, topic_prefix)
    yield made
    made.producer.close(5)


def documents(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_session_parks_and_is_folded_on(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = LINES[10][:40]
    marked = json.dumps(json.loads(LINES[20]) | {"surfaceOp": "\x1b[31m"}).encode()
    with deployment.working():
        deployment.feed(S, *LINES[:10], torn, *LINES[11:20], marked, *LINES[21:40])
        deployment.feed(OTHER.id, *OTHER.lines)
        deployment.until(lambda: deployment.is_at(S, "parked", 9))
        deployment.until(lambda: deployment.is_at(OTHER.id, "idle", OTHER.events))

    # found by reason, shown with what a replay would do
    capsys.readouterr()
    assert deployment.command("deadletter", "list", "--session", S, "--json") == 0
    found = documents(capsys)
    assert [letter["reason"] for letter in found] == ["not-json", *["parked"] * 29]
    assert deployment.command("deadletter", "show", S, "--json") == 0
    (shown,) = documents(capsys)
    assert (shown["parked"]["seq"], shown["parked"]["reason"]) == (9, "not-json")
    assert (shown["waiting"], shown["replay"]["stop"]["reason"]) == (30, "not-json")
    assert shown["skip"]["stop"]["reason"] == "seq-not-contiguous"
    place = shown["parked"]["offender"]
    assert deployment.command("deadletter", "show", place) == 0
    page = capsys.readouterr().out
    assert torn.decode() in page
    assert "parks again at seq -: not-json" in page

    # put right with the session still being written; it parks again at the second bad record
    fix = tmp_path / "line.json"
    fix.write_bytes(LINES[10] + b"\n")
    with deployment.working():
        assert deployment.command("deadletter", "replay", S, "--with", str(fix)) == 1
        assert "parked again at seq 19: surfaceop-on-log-only" in capsys.readouterr().out
        deployment.feed(S, *LINES[40:50])
    deployment.proven()

    assert deployment.command("deadletter", "show", S) == 0
    page = capsys.readouterr().out
    assert "with skip  " in page
    assert "\x1b" not in page
    writing = threading.Thread(target=_slowly, args=(deployment, LINES[50:]))
    with deployment.working():  # a new worker, from the saved states
        writing.start()
        assert deployment.command("deadletter", "replay", S, "--skip", "--json") == 0
        (outcome,) = documents(capsys)
        writing.join()
        assert outcome["parked"] is None
        deployment.until(lambda: deployment.is_at(S, "idle", len(LINES) - 1))
    after = deployment.overview(S)
    assert after is not None
    of_the_log = {fact for fact in after.quality if not fact.startswith("reader:")}
    assert of_the_log == {"fault"}
    assert after.quality["fault"] == 1
    deployment.proven()
    assert deployment.command("deadletter", "replay", S) == 0
    assert "not parked, nothing to replay" in capsys.readouterr().out
    assert deployment.command("verify", "--strict", PATTERN) == 0


def _slowly(deployment: Deployment, lines: list[bytes]) -> None:
    for line in lines:
        deployment.feed(S, line)
        time.sleep(0.02)


def test_what_cannot_be_shown_or_replayed_is_said(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, says in (
        (("show", "sessions.events/0/7"), "no dead letter of sessions.events/0/7"),
        (("show", "nobody"), "session 'nobody' has no dead letters"),
        (("replay", "nobody"), "session 'nobody' has no dead letters"),
    ):
        assert deployment.command("deadletter", *words) == 1
        assert says in capsys.readouterr().err
