"""The worker over topics in memory: exact after any trouble, at every point of a batch."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.json import encode

from pipeline import limits
from pipeline.errors import CommitUnknown, Fatal, Fenced, Retriable
from pipeline.memory_ends import MemorySource
from pipeline.observe import Observer
from pipeline.ports import Polled, Transaction
from pipeline.simulate import fleet
from tests.pipeline.world import Trouble, TroubledSink, World, interleaved

LINES = interleaved(fleet(11, 6, events=40))
POINTS = [
    (call, when)
    for call in ("begin", "send", "send_offsets", "flush", "commit")
    for when in ("before", "after")
]
LEFT = ("transcript", "surface", "overview", "deadletter", "state", "partials")


class Crash(BaseException):
    """The process dies here: nothing is caught, nothing is cleaned up in the broker."""


@pytest.fixture
def world() -> World:
    world = World()
    world.feed(LINES)
    world.append(b"sim-00000011", b"{broken", partition=0)
    world.append(None, b"{}", partition=1)
    return world


def test_everything_is_folded_and_proven(world: World) -> None:
    running = world.run()
    verdict = world.verify()
    assert verdict.ok, verdict.mismatch
    assert verdict.behind == 0
    assert running.totals["records"] == len(LINES) + 2
    assert running.totals["batches"] > 3
    assert verdict.dead_letters == len(world.read("deadletter")) == 2


@pytest.mark.parametrize(("call", "when"), POINTS)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_failed_batch_is_settled_by_the_committed_offsets(
    world: World, call: str, when: str, nth: int
) -> None:
    error = CommitUnknown("no answer") if call == "commit" else Retriable("no answer")
    sink = TroubledSink(world.sink(), Trouble(call, when, error, nth))
    world.run(sink=sink)
    assert sink.calls.count("abandon") == 1
    assert sink.calls.count("open") == 2
    assert world.verify().mismatch is None
    assert world.verify().behind == 0


@pytest.mark.parametrize(("call", "when"), POINTS)
def test_a_crash_at_any_point_and_a_plain_restart_are_exact(
    world: World, call: str, when: str
) -> None:
    sink = TroubledSink(world.sink(), Trouble(call, when, Crash(), nth=2))
    with pytest.raises(Crash):
        world.run(sink=sink)
    assert world.verify_after_restart().mismatch is None


def test_a_restart_between_batches_continues_the_states(world: World) -> None:
    for nth in range(2, 6):
        sink = TroubledSink(world.sink(), Trouble("begin", "before", Crash(), nth=nth))
        with pytest.raises(Crash):
            world.run(sink=sink, batch=17)
    assert world.verify_after_restart().mismatch is None


def test_a_state_kept_in_memory_is_the_one_on_the_topic(world: World) -> None:
    """Folding on from restored states gives the very records that folding through gives."""
    whole = World()
    whole.feed(LINES)
    whole.run(batch=10_000)
    parts = World()
    for n in range(0, len(LINES), 29):
        parts.feed(LINES[n : n + 29])
        parts.run()
    assert parts.verify().ok
    for role in ("surface", "overview"):
        ours = {(r.key, r.headers[-1], r.value) for r in parts.read(role)}
        assert {(r.key, r.headers[-1], r.value) for r in whole.read(role)} <= ours


def test_a_fenced_producer_drops_all_it_holds_and_goes_on(world: World) -> None:
    sink = TroubledSink(world.sink(), Trouble("commit", "before", Fenced("a newer one"), nth=2))
    world.run(sink=sink)
    assert world.verify().ok


def test_a_second_worker_under_the_same_name_stops_one_of_them(world: World) -> None:
    class Twin(TroubledSink):
        def begin(self) -> Transaction:
            world.sink().open()
            return super().begin()

    with pytest.raises(Fatal, match="--instance"):
        world.run(sink=Twin(world.sink()))


def test_the_budget_ends_with_a_remedy(world: World) -> None:
    class Away(TroubledSink):
        def begin(self) -> Transaction:
            raise Retriable("no broker answers")

    with pytest.raises(Fatal, match=r"nothing could be committed for \d+ s: no broker answers"):
        world.run(sink=Away(world.sink()))
    assert world.clock.slept[:3] == [0.2, 0.4, 0.8]
    assert sum(world.clock.slept) < 70


def test_trouble_while_opening_is_tried_again(world: World) -> None:
    sink = TroubledSink(world.sink(), Trouble("open", "before", Retriable("not yet")))
    world.run(sink=sink)
    assert world.verify().ok


def test_the_producer_is_open_before_the_group_is_joined_or_asked(world: World) -> None:
    """Opening it ends the transaction that a predecessor of this name left open."""
    sink = TroubledSink(world.sink())

    class Watched(MemorySource):
        def poll(self, timeout: float) -> Polled:
            assert sink.calls
            return super().poll(timeout)

        def committed(self, partitions: Iterable[int], wait_s: float = 0) -> dict[int, int | None]:
            assert sink.calls
            return super().committed(partitions, wait_s)

    source = Watched(world.broker, world.names.application, world.names.of("events"))
    world.run(sink=sink, source=source)
    assert world.verify().behind == 0


def test_a_bug_in_the_fold_is_fatal_and_publishes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("pipeline.batch.encode_within", broken)
    with pytest.raises(Fatal, match="ZeroDivisionError"):
        world.run()
    assert all(world.read(role) == [] for role in LEFT)


def test_the_stop_event_ends_the_run_after_the_batch_in_hand(world: World) -> None:
    stop = threading.Event()
    running = world.worker(stop=stop, batch=10)
    running.committed.subscribe(lambda _: stop.set())
    running.run()
    assert running.totals["batches"] == 1
    assert world.verify().mismatch is None
    assert world.verify().behind > 0


def test_ends_are_closed_whatever_happens(world: World) -> None:
    source = world.source()
    with pytest.raises(Crash):
        world.run(
            source=source, sink=TroubledSink(world.sink(), Trouble("send", "before", Crash()))
        )
    other = world.source()
    assert other.poll(0).assigned == (0, 1, 2)


def test_two_workers_share_and_hand_over_partitions(world: World) -> None:
    first = world.worker(instance="1", batch=5)
    second = world.worker(instance="2", batch=5)
    started = threading.Event()
    first.committed.subscribe(lambda _: started.set())
    threads = [threading.Thread(target=running.run) for running in (first, second)]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    verdict = world.verify()
    assert verdict.ok, verdict.mismatch
    assert verdict.behind == 0


def test_a_worker_that_was_dealt_nothing_waits_for_the_others(world: World) -> None:
    """All is read is said of the topic: of three members none has folded what it was given."""
    idle = [world.source() for _ in range(3)]
    for source in idle:
        assert source.poll(0).assigned
    fourth = world.worker()
    thread = threading.Thread(target=fourth.run)
    thread.start()
    thread.join(1)
    assert thread.is_alive()
    for source in idle:
        source.close()
    thread.join(30)
    assert not thread.is_alive()
    assert fourth.totals["records"] == len(LINES) + 2
    assert world.verify().behind == 0


def test_what_others_have_committed_is_folded_whatever_follows_it(world: World) -> None:
    """Markers and aborted records stand above the last committed offset and bring nothing."""
    world.run()
    events = world.names.of("events")
    txn = world.broker.begin("ingest", world.broker.init_producer("ingest"))
    world.broker.append(events, 1, b"s", b"{}", txn=txn)
    world.broker.abort(txn)
    idle = [world.source() for _ in range(3)]
    for source in idle:
        source.poll(0)
    assert world.run().totals["records"] == 0


@pytest.mark.parametrize("when", ["taken over", "settled after a fence"])
def test_states_that_are_gone_are_not_folded_on_from(world: World, when: str) -> None:
    world.run()
    world.feed(LINES[:40], epoch=1)

    def lose() -> None:
        world.broker.lose(world.names.of("state"))

    class Lost(TroubledSink):
        def begin(self) -> Transaction:
            lose()
            return super().begin()

    fenced = Trouble("begin", "before", Fenced("a newer one"))
    if when == "taken over":
        lose()
    surface = world.read("surface")
    with pytest.raises(Fatal, match=r"folded up to offset \d+, yet the states .* are gone from"):
        world.run(sink=Lost(world.sink(), fenced))
    assert world.read("surface") == surface


def test_no_states_are_missed_where_nothing_was_ever_folded_well() -> None:
    world = World()
    world.append(b"s", b"{broken")
    world.run()
    world.append(b"s", b"{broken too")
    world.run()
    assert world.verify().ok
    assert world.verify().dead_letters == 2


def test_restoring_is_told_for_each_partition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    monkeypatch.setattr("pipeline.memory_ends.FETCH_RECORDS", 1)
    monkeypatch.setattr(limits, "RESTORE_SLICE_S", 0)

    class Told(Observer):
        def __init__(self) -> None:
            self.slices: list[tuple[int, int, int]] = []
            self.whole: dict[int, tuple[int, int]] = {}

        def restoring(self, partition: int, done: int, total: int) -> None:
            self.slices.append((partition, done, total))

        def restored(
            self, partition: int, sessions: int, records: int, size: int, seconds: float
        ) -> None:
            self.whole[partition] = (sessions, records)

    told = Told()
    running = world.worker(observer=told)
    running.run()
    assert {partition for partition, _, _ in told.slices} == {0, 1, 2}
    for partition, (sessions, records) in told.whole.items():
        mine = [(done, total) for at, done, total in told.slices if at == partition]
        assert mine == sorted(mine)
        assert records >= sessions > 0
        assert mine[-1][0] < mine[-1][1]


def test_the_cycle_collector_is_as_before_after_a_run(world: World) -> None:
    before, seen = gc.get_threshold(), []
    running = world.worker()
    running.committed.subscribe(lambda _: seen.append(gc.get_threshold()))
    running.run()
    assert set(seen) == {limits.COLLECT_EVERY}
    assert gc.get_threshold() == before != limits.COLLECT_EVERY
    world.append(b"s", b"{}")
    with pytest.raises(Crash):
        world.run(sink=TroubledSink(world.sink(), Trouble("begin", "before", Crash())))
    assert gc.get_threshold() == before


def test_a_summary_that_many_markers_repeat_is_not_published_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "BATCH_WEIGHT", 500_000)
    said: dict[str, Any] = {
        "compactionId": "c",
        "summary": [{"type": "text", "text": "s" * 100_000}],
    }
    said |= {"shadowedRange": {"start": 0, "end": 0}, "shadowedSeqs": [0], "shadowedTokenCount": 1}
    prompt: dict[str, Any] = {"id": "m", "role": "user", "content": []}
    prompt["source"] = {"kind": "user"}
    checkpoint = {**prompt, "source": {"kind": "compact-checkpoint", "compactionId": "c"}}
    lines: list[dict[str, Any]] = [
        {"type": "user/message", "data": prompt, "surfaceOp": "append"},
        {"type": "compaction/summary", "data": said},
    ]
    for seq in range(2, 42):
        node = 0 if seq == 2 else seq - 1
        op = {"op": "replace", "startSeq": node, "endSeq": node}
        marker = {"type": "user/message", "data": checkpoint, "surfaceOp": op}
        lines.append({**marker, "sourceEventSeqs": [1, node]})
    world = World()
    world.feed([("s", encode({**line, "seq": seq, "time": 0})) for seq, line in enumerate(lines)])
    running = world.run()
    verdict = world.verify()
    assert verdict.ok, verdict.mismatch
    assert running.totals["records"] == len(lines)
    assert 8 <= running.totals["batches"] <= 12  # five markers each, not forty


@pytest.mark.parametrize("leave", [True, False])
def test_the_place_in_the_group_is_kept_unless_it_is_left_for_good(
    world: World, leave: bool
) -> None:
    stop, left = threading.Event(), threading.Event()
    told: list[bool] = []

    class Told(MemorySource):
        def close(self, *, leave: bool = True) -> None:
            told.append(leave)
            super().close(leave=leave)

    source = Told(world.broker, world.names.application, world.names.of("events"))
    running = world.worker(source=source, stop=stop, leave=left, at_end=False)
    running.committed.subscribe(lambda _: stop.set())
    if leave:
        left.set()
    running.run()
    assert told == [leave]
