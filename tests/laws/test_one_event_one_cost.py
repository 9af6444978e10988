"""Law 10: work per event does not grow with the session's length; counted, not timed.

Two counts per event: lines of Python executed in the fold (a loop over something long shows), and
the most memory allocated on the way (a copy of something long shows). Batches are forked as a
worker does, and what a save writes is counted too.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from operators.events import Line
from operators.session import Out, Session
from pipeline.simulate import FEATURES, simulate
from tests.laws.folding import SESSION, Saved, read

#: Without the rare 70 000 code point text, whose cost is its own size.
STEADY = FEATURES - {"long", "hostile", "forks", "open-end", "odd-times"}
UNCOMPACTED = STEADY - {"auto-compaction", "manual-compaction"}
EVENTS = 5_000
BATCH = 20
SESSIONS = ("v0", "v4", "uncompacted", "one long answer")


def session_lines(kind: str) -> list[Line]:
    """A long session: with compactions, with a surface that only grows, or one open block."""
    if kind == "one long answer":
        return read(long_answer())
    shape, features = ("v3", UNCOMPACTED) if kind == "uncompacted" else (kind, STEADY)
    return read(simulate(11, events=EVENTS, shape=shape, features=features).lines)


def long_answer() -> Iterator[bytes]:
    place = b'"turn":1,"step":1,"chunk"'
    for seq in range(EVENTS):
        chunk = b'{"type":"text-delta","index":0,"text":"some more words of it "}'
        yield b'{"type":"assistant/chunk","seq":%d,"time":%d,"data":{%b:%b}}' % (
            seq,
            seq,
            place,
            chunk,
        )


@contextmanager
def counting() -> Iterator[list[int]]:
    """Counts the Python lines executed inside; ``[0]`` is the count."""
    count = [0]

    def local(_frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            count[0] += 1
        return local

    before = sys.gettrace()
    sys.settrace(lambda _frame, _event, _arg: local)
    try:
        yield count
    finally:
        sys.settrace(before)


def batches(lines: list[Line]) -> Iterator[list[Line]]:
    for at in range(0, len(lines), BATCH):
        yield lines[at : at + BATCH]


def median_of(costs: list[float]) -> float:
    return sorted(costs)[len(costs) // 2]


def early_and_late(costs: list[float]) -> tuple[list[float], list[float]]:
    """The first fifth (after a short start) and the last fifth."""
    fifth = len(costs) // 5
    return costs[fifth // 2 : fifth + fifth // 2], costs[-fifth:]


@pytest.mark.parametrize("kind", SESSIONS)
def test_one_event_one_cost(kind: str) -> None:
    """Lines executed per batch: fork, fold, publish, save."""
    state, saved = Session(SESSION), Saved()
    costs: list[float] = []
    for batch in batches(session_lines(kind)):
        with counting() as count:
            staged, out = state.fork(), Out()
            for line in batch:
                staged.take(line, out)
            out.changes(staged)
            saved.save(staged)
        state = staged
        costs.append(count[0] / len(batch))
    early, late = early_and_late(costs)
    assert median_of(late) <= 1.2 * median_of(early)
    assert sum(late) / len(late) <= 1.3 * sum(early) / len(early)


@pytest.mark.parametrize("kind", SESSIONS)
def test_no_event_copies_the_session(kind: str) -> None:
    """The most that is allocated while one batch is folded, published and saved."""
    state, saved = Session(SESSION), Saved()
    costs: list[float] = []
    lines = session_lines(kind)
    tracemalloc.start()
    try:
        for batch in batches(lines):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            staged, out = state.fork(), Out()
            for line in batch:
                staged.take(line, out)
            published = out.changes(staged)
            saved.save(staged)
            _, peak = tracemalloc.get_traced_memory()
            state = staged
            del published, out
            costs.append(peak - before)
    finally:
        tracemalloc.stop()
    early, late = early_and_late(costs)
    assert median_of(late) <= 1.3 * median_of(early)


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_batch_saves_what_it_changed(kind: str) -> None:
    """Bytes saved per batch do not grow with the session, once its head holds as many small
    segments as it may (schemas/snapshot.py)."""
    state, saved = Session(SESSION), Saved()
    sizes: list[float] = []
    for batch in batches(session_lines(kind)):
        staged, out = state.fork(), Out()
        for line in batch:
            staged.take(line, out)
        changed = saved.save(staged)
        state = staged
        sizes.append(sum(len(value) for value in changed.values() if value is not None))
    fifth = len(sizes) // 5
    middle, late = sizes[2 * fifth : 3 * fifth], sizes[-fifth:]
    assert median_of(late) <= 1.3 * median_of(middle)
