"""verify on a real broker: while a worker commits, and of two deployments that hold the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from pipeline.kafka.reader import KafkaReader
from pipeline.verify import Verdict, verify
from tests.integration.test_worker import BAD, LINES, PARTITIONS, Deployment
from tests.pipeline.world import partition_of

#: Sessions that have been folded, and those that go on meanwhile.
NAMES = sorted({session for session, _ in LINES})
BUSY = NAMES[:3]
RESTING = [(session, line) for session, line in LINES if session not in BUSY]
WRITTEN = [(session, line) for session, line in LINES if session in BUSY]


@pytest.fixture
def deployment(kafka: str, topic_prefix: str) -> Iterator[Deployment]:
    with closing(Deployment(kafka, topic_prefix)) as made:
        yield made


@contextmanager
def at_work(deployment: Deployment) -> Iterator[None]:
    """A worker, and sessions that are written line by line."""
    worker = deployment.worker(at_end=False, batch=20)
    done = threading.Event()

    def write() -> None:
        for line in WRITTEN:
            if done.wait(0.01):
                return
            deployment.feed([line])

    threads = [threading.Thread(target=target) for target in (worker.run, write)]
    for thread in threads:
        thread.start()
    try:
        until = time.monotonic() + 150
        while worker.totals["records"] < len(RESTING) + 20:
            assert time.monotonic() < until
            time.sleep(0.05)
        yield
    finally:
        done.set()
        deployment.stop.set()
        for thread in threads:
            thread.join(120)
        deployment.stop.clear()


def proven(deployment: Deployment) -> Verdict:
    with closing(KafkaReader(deployment.cluster)) as reader:
        return verify(reader, deployment.names)


def test_while_a_worker_commits_nothing_differs(deployment: Deployment) -> None:
    deployment.feed(RESTING)
    with at_work(deployment):
        for _ in range(2):
            verdict = proven(deployment)
            assert not verdict.differing, verdict.differences
            assert set(verdict.undecided) <= set(BUSY), "who rests is proven meanwhile"
            assert verdict.events >= len(RESTING)
    deployment.worker().run()
    verdict = proven(deployment)
    assert verdict.ok, verdict.mismatch
    assert verdict.behind == 0


def test_damage_is_found_while_a_worker_commits(deployment: Deployment) -> None:
    """A stray record on the surface of a session that rests."""
    deployment.feed(RESTING)
    surface, session = deployment.names.of("surface"), NAMES[-1]
    partition = partition_of(session, PARTITIONS)
    stray = deployment.producer.send(surface, b"stray", key=session.encode(), partition=partition)
    sent = stray.get(10)
    with at_work(deployment):
        verdict = proven(deployment)
    assert verdict.differing == 1, verdict
    assert verdict.mismatch is not None
    assert (verdict.mismatch.session, verdict.mismatch.offset) == (session, sent.offset)
    assert verdict.mismatch.field == "value"


def test_two_deployments_of_the_same_events_have_the_same_digests(
    deployment: Deployment, topic_prefix: str
) -> None:
    """One folded at once, one in small batches; other offsets, other dead-letter coordinates."""
    with closing(Deployment(deployment.bootstrap, f"{topic_prefix}b.")) as other:
        bad = BAD[2]
        deployment.append(*bad)
        deployment.feed(LINES)
        other.feed(LINES[: len(LINES) // 2])
        other.worker(batch=30).run()
        other.feed(LINES[len(LINES) // 2 :])
        other.append(*bad)
        other.producer.flush(10)
        for each, batch in ((deployment, 2_000), (other, 30)):
            each.worker(batch=batch).run()
        one, two = proven(deployment), proven(other)
        assert one.ok, one.mismatch
        assert two.ok, two.mismatch
        for role in ("surface", "transcript", "deadletter"):
            assert one.topics[role].digest == two.topics[role].digest, role
            assert one.topics[role].count == two.topics[role].count > 0
