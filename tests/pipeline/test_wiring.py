"""The graph is fold_batch and nothing more; `build` puts a worker together."""

from __future__ import annotations

import threading

import pytest
import reactivex

from pipeline.batch import fold_batch
from pipeline.commit import Folded
from pipeline.errors import Fatal
from pipeline.limits import MAX_ROW_BYTES
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.ports import InRecord, Member, Polled
from pipeline.simulate import fleet
from pipeline.state import States
from pipeline.store import MemoryStore
from pipeline.topics import Names
from pipeline.verify import verify
from pipeline.wiring import WorkerSettings, build, graph
from tests.pipeline.world import World, interleaved, partition_of

LINES = interleaved(fleet(71, 3, events=30))


def polled() -> Polled:
    records: dict[int, list[InRecord]] = {}
    for n, (session, line) in enumerate(LINES):
        at = partition_of(session)
        records.setdefault(at, []).append(InRecord("e", at, 2 * n, 0, session.encode(), line))
    return Polled(records, Member(1, "m"))


def test_the_graph_is_fold_batch_per_partition() -> None:
    batch, found = polled(), list[Folded]()
    states = States(MemoryStore())
    graph(reactivex.of(batch), states, MAX_ROW_BYTES).subscribe(found.append)
    (folded,) = found
    assert folded.member is batch.member
    assert folded.nexts == {at: part[-1].offset + 1 for at, part in batch.records.items()}
    for partition, records in batch.records.items():
        assert folded.results[partition].outputs == fold_batch(records, {}).outputs
        assert all(states.get(partition, session) is None for session, _ in LINES)


def test_a_subscriber_that_raises_does_not_end_the_graph() -> None:
    """What failed is offered again: the subscription must survive."""
    seen = []
    polls: reactivex.subject.Subject[Polled] = reactivex.subject.Subject()

    def deliver(folded: Folded) -> None:
        seen.append(folded)
        if len(seen) == 1:
            raise ConnectionError

    graph(polls, States(MemoryStore()), MAX_ROW_BYTES).subscribe(deliver)
    with pytest.raises(ConnectionError):
        polls.on_next(polled())
    polls.on_next(polled())
    assert len(seen) == 2


def test_build_over_memory() -> None:
    broker, names = MemoryBroker(), Names("x.", "app")
    settings = WorkerSettings(
        broker=broker, instance="1", prefix="x.", application="app", stop_at_end=True
    )
    with pytest.raises(Fatal, match="missing"):
        build(settings)
    create_topics(broker, names, 2)
    for session, line in LINES:
        broker.append("x.events", partition_of(session, 2), session.encode(), line)
    running = build(settings)
    taps = list[Folded]()
    running.committed.subscribe(taps.append)
    running.run()
    verdict = verify(MemoryReader(broker), names)
    assert verdict.ok, verdict.mismatch
    assert running.totals["records"] == len(LINES) == verdict.events
    assert running.totals["batches"] == len(taps) > 0
    assert running.totals["out.surface"] == verdict.surface


def test_the_transactional_id_is_application_and_instance() -> None:
    settings = WorkerSettings(broker="b:1", instance="host-2", application="fold")
    assert settings.transactional_id == "fold-host-2"
    assert not settings.stop.is_set()
    assert isinstance(settings.stop, threading.Event().__class__)


def test_a_tap_that_raises_is_no_failed_batch() -> None:
    """The batch is committed by then; the tap's error is its own, and ends the run."""
    world = World()
    world.feed(LINES)
    running = world.worker()

    def tap(_: Folded) -> None:
        raise LookupError

    running.committed.subscribe(tap)
    with pytest.raises(LookupError):
        running.run()
    assert world.verify().mismatch is None
