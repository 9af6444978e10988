"""The Rx operators lift the folds and add nothing: marble tests on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops
from reactivex.testing import ReactiveTest, TestScheduler

from operators.changes import Change, PartialText, SurfaceChange, TranscriptRow
from operators.events import Line
from operators.rx import (
    Batch,
    correlate_compactions,
    fold_session,
    fold_surface,
    fold_transcript,
    map_parts,
    pair_tool_calls,
    per_session,
)
from operators.session import Session, step
from pipeline.simulate import fleet, simulate
from schemas.inbound import read_line

on_next, on_completed, on_error = (
    ReactiveTest.on_next,
    ReactiveTest.on_completed,
    ReactiveTest.on_error,
)
SIMULATED = simulate(17, events=150)
LINES = [read_line(line) for line in SIMULATED.lines]


def by_step(lines: Sequence[Line], session: str | None = SIMULATED.id) -> list[list[Change]]:
    """The specification: the changes of each line."""
    state, found = Session(session), []
    for line in lines:
        state, changes = step(state, line)
        found.append(list(changes))
    return found


def marbles(operator: Callable[[Observable[Any]], Observable[Any]], items: Sequence[Any]) -> Any:
    """One item every tick from 210 on; what came out, and when."""
    scheduler = TestScheduler()
    messages = [on_next(210 + n, item) for n, item in enumerate(items)]
    source = scheduler.create_hot_observable([*messages, on_completed(210 + len(items))])
    return scheduler.start(lambda: source.pipe(operator), disposed=10_000).messages


def test_a_lines_changes_come_in_its_own_tick() -> None:
    expected = [
        on_next(210 + n, change) for n, changes in enumerate(by_step(LINES)) for change in changes
    ]
    assert marbles(fold_session(SIMULATED.id), LINES) == [
        *expected,
        on_completed(210 + len(LINES)),
    ]


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        (fold_surface, lambda change: isinstance(change, SurfaceChange)),
        (fold_transcript, lambda change: isinstance(change, TranscriptRow | PartialText)),
        (
            lambda session: fold_transcript(session, partials=False),
            lambda change: isinstance(change, TranscriptRow),
        ),
        (
            pair_tool_calls,
            lambda change: isinstance(change, TranscriptRow) and change.kind == "tool",
        ),
        (
            correlate_compactions,
            lambda change: (
                isinstance(change, TranscriptRow) and change.kind in ("command", "compaction")
            ),
        ),
    ],
)
def test_selecting_operators_are_the_fold_and_a_filter(
    operator: Callable[[str], Any], wanted: Callable[[Change], bool]
) -> None:
    chosen = [
        on_next(210 + n, change)
        for n, changes in enumerate(by_step(LINES))
        for change in changes
        if wanted(change)
    ]
    assert chosen, "the simulated session shows nothing of the kind"
    assert marbles(operator(SIMULATED.id), LINES) == [*chosen, on_completed(210 + len(LINES))]


def test_each_subscription_folds_from_the_start() -> None:
    changes = reactivex.from_iterable(LINES).pipe(fold_session(SIMULATED.id))
    one, two = list[Change](), list[Change]()
    changes.subscribe(one.append)
    changes.subscribe(two.append)
    assert one == two == [change for changes in by_step(LINES) for change in changes]


def test_strict_is_handed_on() -> None:
    lines = LINES[:4] + LINES[6:9]
    lenient, strict = list[Change](), list[Change]()
    reactivex.from_iterable(lines).pipe(fold_session("s")).subscribe(lenient.append)
    reactivex.from_iterable(lines).pipe(fold_session("s", strict=True)).subscribe(strict.append)
    assert any(isinstance(it, TranscriptRow) and it.kind == "gap" for it in lenient)
    assert not any(isinstance(it, TranscriptRow) and it.kind == "gap" for it in strict)


def test_sessions_are_folded_apart_and_come_out_as_they_arise() -> None:
    sessions = [
        (session.id, [read_line(line) for line in session.lines])
        for session in fleet(3, 3, events=30)
    ]
    longest = max(len(lines) for _, lines in sessions)
    mixed = [(name, lines[n]) for n in range(longest) for name, lines in sessions if n < len(lines)]

    def line_of(item: tuple[str, Line]) -> Line:
        return item[1]

    def one(name: str) -> Callable[[Observable[tuple[str, Line]]], Observable[Change]]:
        return lambda items: items.pipe(ops.map(line_of), fold_session(name))

    alone = {name: iter(by_step(lines, name)) for name, lines in sessions}
    expected = [
        on_next(210 + n, change)
        for n, (name, _) in enumerate(mixed)
        for change in next(alone[name])
    ]
    operator = per_session(lambda item: item[0], one)
    assert marbles(operator, mixed) == [*expected, on_completed(210 + len(mixed))]


def test_map_parts_maps_each_part_and_carries_the_cause() -> None:
    batches = [Batch("a", {3: "x", 1: "yy"}), Batch("b", {})]
    out = marbles(map_parts(lambda number, part: (number, len(part))), batches)
    assert out == [
        on_next(210, Batch("a", {3: (3, 1), 1: (1, 2)})),
        on_next(211, Batch("b", {})),
        on_completed(212),
    ]


def test_an_exception_in_a_part_ends_the_stream() -> None:
    """Why data errors are values: what follows is lost without a word."""
    error = LookupError("a bug")

    def broken(number: int, part: str) -> str:
        if part == "bad":
            raise error
        return part

    batches = [Batch("a", {0: "ok"}), Batch("b", {0: "bad"}), Batch("c", {0: "ok"})]
    assert marbles(map_parts(broken), batches) == [on_next(210, batches[0]), on_error(211, error)]
