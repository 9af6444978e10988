"""A commit that raised, or never returned, and what became of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kafka import KafkaProducer
from kafka import errors as raised

from pipeline.commit import Folded
from pipeline.errors import CommitUnknown, Retriable
from pipeline.kafka.sink import KafkaTransaction
from pipeline.loop import Worker
from pipeline.simulate import fleet
from pipeline.wiring import WorkerSettings, build
from tests.contracts.deployment import out

from .client import REQUEST_MS, Outcome, gone, in_thread, topic, transactional, visible
from .ends import TIMES, Ends, Unwatched, ends_on
from .node import Proxied, a_cluster

#: Longer than any timeout that a client was given here.
PATIENCE_S = 8.0


def test_h4_a_commit_that_failed_took_effect(node: Proxied) -> None:
    name = topic(node.bootstrap)
    with transactional(node.bootstrap, name) as producer:
        ready(producer, name)
        with node.stopped():
            outcome = in_thread(producer.commit_transaction).join(10 * REQUEST_MS / 1000)
        assert isinstance(outcome.error, raised.KafkaError), outcome.error
    assert visible(node.bootstrap, name) == [b"value"], gone(
        "a commit that raised was committed", "that the committed offsets decide"
    )


def ready(producer: KafkaProducer, name: str) -> None:
    """All but the commit."""
    producer.begin_transaction()
    producer.send(name, b"value", partition=0)
    producer.flush(10)


# --- what the worker makes of it ------------------------------------------------------------------

STOPPED_S = 2 * REQUEST_MS / 1000


def transcript_over(node: Proxied, ends: Ends, *, fault: bool) -> list[bytes | None]:
    """What a worker publishes of one session; with ``fault`` the broker stands still over its first
    commit."""
    left = [True] if fault else []

    def step(line: int) -> None:
        if line == 5 and left:
            left.clear()
            node.cluster.signal(1, signal.SIGSTOP)
            threading.Timer(STOPPED_S, node.cluster.signal, (1, signal.SIGCONT)).start()

    (session,) = fleet(5, 1, events=40)
    for line in session.lines:
        ends.append(0, line, session.id.encode())
    running = build(
        WorkerSettings(
            broker=node.bootstrap,
            instance="a",
            prefix=ends.names.prefix,
            application=ends.names.application,
            client_options=TIMES,
            stop_at_end=True,
            step=step,
        )
    )
    running.run()
    assert not left
    assert ends.committed()[0] == len(session.lines)
    return ends.values("transcript")


@pytest.mark.slow
def test_the_worker_publishes_once_whatever_became_of_its_commit(node: Proxied, ends: Ends) -> None:
    rows = transcript_over(node, ends, fault=True)
    with ends_on(node.bootstrap) as others:
        assert rows == transcript_over(node, others, fault=False)


@pytest.mark.slow
def test_a_worker_that_takes_it_for_aborted_publishes_twice(
    node: Proxied, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered = Worker.deliver

    def again(worker: Worker, folded: Folded) -> None:
        try:
            delivered(worker, folded)
        except CommitUnknown:
            reopen(worker)
            delivered(worker, folded)

    monkeypatch.setattr(Worker, "deliver", again)
    rows = transcript_over(node, ends, fault=True)
    assert len(rows) == 2 * len(set(rows))


def reopen(worker: Worker) -> None:
    for _ in range(20):
        worker._ends.sink.abandon()
        try:
            worker._ends.sink.open()
        except Retriable:
            continue
        return


# --- without a limit ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def brokerless() -> Iterator[dict[str, Outcome]]:
    """Three commits of one moment, when the only broker is killed, for good."""
    with ExitStack() as stack:
        node = stack.enter_context(a_cluster(1))
        name = topic(node.bootstrap)
        producer = stack.enter_context(transactional(node.bootstrap, name))
        ends = stack.enter_context(ends_on(node.bootstrap))
        guarded = begun(ends, "guarded")
        unguarded = begun(ends, "unguarded", Unwatched())
        ready(producer, name)
        node.cluster.signal(1, signal.SIGKILL)
        outcomes = {
            "client": in_thread(producer.commit_transaction),
            "sink": in_thread(guarded.commit),
            "unguarded": in_thread(unguarded.commit),
        }
        for outcome in outcomes.values():
            outcome.join(PATIENCE_S)
        yield outcomes


def begun(ends: Ends, instance: str, clients: Unwatched | None = None) -> KafkaTransaction:
    """All but the commit."""
    transaction = ends.sink(instance=instance, clients=clients).begin()
    transaction.send(out(instance.encode()))
    transaction.flush()
    return transaction


@pytest.mark.slow
def test_h4b_a_commit_without_its_broker_waits_without_a_limit(
    brokerless: dict[str, Outcome],
) -> None:
    assert brokerless["client"].waits(), gone("a commit that does not return", "the watchdog")


@pytest.mark.slow
def test_the_watchdog_ends_it_as_unknown(brokerless: dict[str, Outcome]) -> None:
    assert isinstance(brokerless["sink"].error, CommitUnknown)


@pytest.mark.slow
def test_without_the_watchdog_the_sink_waits_as_well(brokerless: dict[str, Outcome]) -> None:
    assert brokerless["unguarded"].waits()
