"""Pages out of the database are those of the pure rules, and cost the same wherever they begin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import event

from operators.events import Event
from operators.history import LogIndex, events_page, events_pages, rows_page
from pipeline import published
from pipeline.gateway import pages
from pipeline.gateway.jsonout import safe
from pipeline.gateway.pages import Budget, RowsPage
from pipeline.memory_ends import MemoryReader
from pipeline.simulate import SHAPES, SimulatedSession, simulate
from schemas.inbound import read_line
from tests.pipeline.gateway.stage import Stage

WIDE = 1 << 40


@pytest.fixture(params=SHAPES)
def played(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Stage, SimulatedSession]:
    stage = Stage(tmp_path)
    session = simulate(11, events=250, shape=request.param)
    stage.play([session])
    return stage, session


def index_of(session: SimulatedSession) -> LogIndex:
    index = LogIndex()
    for raw in session.lines:
        line = read_line(raw)
        if isinstance(line, Event):
            index.add(line)
    return index


def rows_of(page: RowsPage) -> list[Any]:
    return [json.loads(bytes(row)) for row in page.rows]


def backwards(stage: Stage, session: str, budget: Budget) -> Iterator[RowsPage]:
    before = None
    with stage.store.read() as connection:
        while True:
            page = pages.rows_before(connection, session, 0, before, budget)
            yield page
            if not page.has_more:
                return
            before = page.first


def whole(stage: Stage, session: str) -> list[Any]:
    (page,) = backwards(stage, session, Budget(10**6, WIDE))
    return rows_of(page)


@pytest.mark.parametrize("messages", [1, 3, 7])
def test_events_pages_are_those_of_the_reference(
    played: tuple[Stage, SimulatedSession], messages: int
) -> None:
    stage, session = played
    lines: list[bytes] = []
    with stage.store.read() as connection:
        for wanted in events_pages(index_of(session), None, messages):
            budget = Budget(messages, WIDE)
            page = pages.events_before(connection, session.id, 0, wanted.before, budget)
            fields = {name: getattr(page, name) for name in wanted.__struct_fields__}
            assert fields == msgspec.structs.asdict(wanted)
            lines[:0] = page.events
    log = [raw for raw in session.lines if isinstance(read_line(raw), Event)]
    assert list(dict.fromkeys(lines)) == log  # a packed row that a page ends in stands in both


@pytest.mark.parametrize(("messages", "size"), [(1, WIDE), (4, 2_000), (50, 6_000)])
def test_rows_pages_are_those_of_the_rule(
    played: tuple[Stage, SimulatedSession], messages: int, size: int
) -> None:
    stage, session = played
    found = published.session(MemoryReader(stage.broker), stage.names, session.id)
    assert found is not None
    index, before, seen = index_of(session), None, 0
    for page in backwards(stage, session.id, Budget(messages, size)):
        wanted = rows_page(found.rows, events_page(index, before, messages), size)
        while not wanted.rows and wanted.has_more:  # the rule allows an empty page, we do not
            wanted = rows_page(found.rows, events_page(index, wanted.first, messages), size)
        assert [bytes(row) for row in page.rows] == [safe(bytes(body)) for body in wanted.bodies]
        assert page.first == wanted.first or not page.has_more
        before, seen = page.first, seen + len(page.rows)
    assert seen == len(found.rows)


@pytest.mark.parametrize("budget", [Budget(1, WIDE), Budget(5, 3_000), Budget(50, 1)])
def test_pages_tile_in_both_directions(
    played: tuple[Stage, SimulatedSession], budget: Budget
) -> None:
    stage, session = played
    every = whole(stage, session.id)
    older: list[Any] = []
    for page in backwards(stage, session.id, budget):
        older[:0] = rows_of(page)
    assert older == every
    newer: list[Any] = []
    after = -1
    with stage.store.read() as connection:
        while True:
            page = pages.rows_after(connection, session.id, 0, after, budget)
            newer += rows_of(page)
            if page.before is None:
                break
            after = page.before - 1
    assert newer == every


def test_a_page_around_a_seq_holds_its_row_and_goes_on_both_ways(
    played: tuple[Stage, SimulatedSession],
) -> None:
    stage, session = played
    every = whole(stage, session.id)
    for row in every[:: max(len(every) // 15, 1)]:
        with stage.store.read() as connection:
            page = pages.rows_around(
                connection, session.id, 0, row["anchor_seq"], Budget(4, 20_000)
            )
            assert row in rows_of(page)
            older = pages.rows_before(connection, session.id, 0, page.first, Budget(10**6, WIDE))
            last = 2**53 if page.before is None else page.before - 1
            newer = pages.rows_after(connection, session.id, 0, last, Budget(10**6, WIDE))
        assert rows_of(older) * page.has_more + rows_of(page) + rows_of(newer) == every


def plans(stage: Stage, ask: Any) -> list[str]:
    """How SQLite goes about each query."""
    told: list[str] = []

    def explain(connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT"):
            raw = connection.connection.cursor()
            raw.execute("EXPLAIN QUERY PLAN " + statement, parameters)
            told.extend(f"{row[3]} <- {statement}" for row in raw.fetchall())

    engine = stage.store._engine
    event.listen(engine, "before_cursor_execute", explain)
    try:
        ask()
    finally:
        event.remove(engine, "before_cursor_execute", explain)
    return told


@pytest.mark.sqlite
def test_no_page_looks_through_a_table(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    session = simulate(4, events=400)
    stage.play([session])

    def ask() -> None:
        with stage.store.read() as connection:
            for before in (None, 300, 40):
                pages.rows_before(connection, session.id, 0, before, Budget(5, 9_000))
                pages.events_before(connection, session.id, 0, before, Budget(5, 9_000))
            for seq in (-1, 100, 300):
                pages.rows_after(connection, session.id, 0, seq, Budget(5, 9_000))
                pages.rows_around(connection, session.id, 0, seq, Budget(5, 9_000))

    told = plans(stage, ask)
    assert len(told) > 20
    assert [plan for plan in told if "SCAN" in plan or "TEMP B-TREE" in plan] == []


def steps(stage: Stage, ask: Any) -> int:
    """Work of the database, in thousands of its machine's steps."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    with stage.store.read() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.set_progress_handler(tick, 100)
        try:
            ask(connection)
        finally:
            raw.set_progress_handler(None, 0)
    return count


@pytest.mark.sqlite
def test_a_page_costs_the_same_in_a_longer_session(tmp_path: Path) -> None:
    costs = []
    for events in (400, 6_400):
        stage = Stage(tmp_path / str(events))
        stage.path.parent.mkdir()
        session = simulate(4, events=events)
        stage.play([session], batch=2_000)
        costs.append(
            [
                steps(
                    stage,
                    lambda c, b=before, s=session.id: (
                        pages.rows_before(c, s, 0, b, Budget(10, 20_000)),
                        pages.events_before(c, s, 0, b, Budget(10, 200_000)),
                    ),
                )
                for before in (None, events // 2, 200)
            ]
        )
    short, long = map(max, costs)
    assert long <= 3 * short + 3
