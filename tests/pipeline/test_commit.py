"""The commit procedure: its order, and what a crash between any two of its lines leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.batch import fold_batch
from pipeline.commit import Folded, deliver
from pipeline.memory_ends import MemoryReader
from pipeline.ports import Polled
from pipeline.restore import place_of
from pipeline.simulate import simulate
from pipeline.state import States
from pipeline.store import MemoryStore
from tests.pipeline.world import TroubledSink, World

SESSION = "sim-00000021"


class CrashError(Exception):
    pass


class Batch:
    """One polled and folded batch, ready to deliver."""

    def __init__(self) -> None:
        self.world = World(partitions=1)
        self.world.feed((SESSION, line) for line in simulate(21, events=30).lines)
        self.source = self.world.source(10_000)
        self.source.poll(0)
        self.source.start(0, None)
        polled: Polled = self.source.poll(0)
        self.sink = TroubledSink(self.world.sink())
        self.sink.open()
        self.states = States(MemoryStore())
        records = polled.records[0]
        result = fold_batch(records, self.states.of(0))
        self.folded = Folded({0: result}, {0: records[-1].offset + 1}, polled.member)

    def deliver(self, step: Callable[[int], None] = lambda _: None) -> None:
        deliver(self.folded, self.sink, self.states, current=self.source.current, step=step)

    def published(self) -> int:
        return len(self.world.read("overview"))

    def committed(self) -> int | None:
        return self.source.committed([0])[0]

    def merged(self) -> bool:
        return self.states.get(0, SESSION) is not None


def test_the_order_of_the_calls() -> None:
    batch = Batch()
    sends = len(batch.folded.results[0].outputs)
    batch.deliver()
    assert batch.sink.calls == [
        "open",
        "begin",
        "send_offsets",
        *["send"] * sends,
        "flush",
        "commit",
    ]
    assert (batch.published(), batch.committed(), batch.merged()) == (
        1,
        batch.folded.nexts[0],
        True,
    )


@pytest.mark.parametrize("line", range(1, 8))
def test_a_crash_before_a_line(line: int) -> None:
    """Up to line 5 nothing is published; before line 6 all of it is; merged only after it."""
    batch = Batch()

    def step(n: int) -> None:
        if n == line:
            raise CrashError

    with pytest.raises(CrashError):
        batch.deliver(step)
    batch.sink.abandon()
    batch.sink.open()
    landed = line >= 6
    assert batch.published() == (1 if landed else 0)
    assert batch.committed() == (batch.folded.nexts[0] if landed else None)
    assert batch.merged() == (line == 7)


def test_every_line_is_stepped_once() -> None:
    batch = Batch()
    steps: list[int] = []
    batch.deliver(steps.append)
    assert steps == [1, 2, 3, 4, 5, 6, 7]


def test_a_passed_generation_publishes_nothing() -> None:
    batch = Batch()
    batch.world.source().poll(0)  # a second member joins: the generation of our poll has passed
    with pytest.raises(Exception, match="generation"):
        batch.deliver()
    batch.sink.abandon()
    batch.sink.open()
    assert batch.published() == 0
    assert not batch.merged()


def test_a_batch_without_states_says_where_to_go_on_all_the_same() -> None:
    """In case the group forgets its offsets: what came of it would else come twice."""
    batch = Batch()
    batch.deliver()
    batch.world.append(b"", b"of no session", partition=0)
    polled = batch.source.poll(0)
    result = fold_batch(polled.records[0], batch.states.of(0))
    assert [record.role for record in result.outputs] == ["deadletter"]
    nexts = {0: polled.records[0][-1].offset + 1}
    batch.folded = Folded({0: result}, nexts, polled.member)
    batch.deliver()
    reader, state = MemoryReader(batch.world.broker), batch.world.names.of("state")
    assert place_of(reader, state, 0) == nexts[0]
    states = States(MemoryStore())
    states.apply(0, list(reader.read(state, 0)), 1)
    assert states.sessions(0) == 1
