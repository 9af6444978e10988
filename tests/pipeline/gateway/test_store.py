"""The read model holds what the topics say, however they are read."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import event, func, select
from sqlalchemy.exc import OperationalError

from pipeline import published
from pipeline.errors import Retriable
from pipeline.gateway import store_tables as t
from pipeline.gateway.bodies import whole
from pipeline.gateway.jsonout import safe
from pipeline.gateway.open_rows import joined, large_of, parts_of
from pipeline.gateway.store import READERS, write_good
from pipeline.memory_ends import MemoryReader
from pipeline.simulate import SHAPES, fleet, simulate
from tests.pipeline.gateway.stage import Stage


def held_rows(stage: Stage, session: str) -> list[Any]:
    """Every row that stands, whole, in order."""
    r = t.rows.c
    with stage.store.read() as connection:
        wanted = select(r.key, r.body, r.running).where(r.session == session, ~r.deleted)
        found = connection.execute(wanted.order_by(r.anchor_seq, r.anchor_rank, r.key)).all()
        rows = []
        for key, body, running in found:
            text = whole(body, large_of(connection, session, key))
            parts = parts_of(connection, session, key) if running else []
            rows.append(json.loads(joined(text, parts) if parts else text))
    return rows


def published_rows(stage: Stage, session: str) -> list[Any]:
    found = published.session(MemoryReader(stage.broker), stage.names, session)
    assert found is not None
    rows = [json.loads(safe(msgspec.json.encode(row))) for row in found.rows]
    for row in rows:
        row["seq"] = row["rev"]
    return rows


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_those_of_the_topics(tmp_path: Path, shape: str) -> None:
    stage = Stage(tmp_path)
    session = simulate(3, events=300, shape=shape)
    lines = [(session.id, line) for line in session.lines]
    for at in range(0, len(lines), 37):  # stops in the middle of what streams
        stage.feed(lines[at : at + 37])
        stage.run(batch=11)
        stage.read_on()
        assert held_rows(stage, session.id) == published_rows(stage, session.id)


def test_many_sessions_are_held_apart(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    sessions = list(fleet(5, 12, events=60))
    stage.play(sessions)
    for session in sessions:
        assert held_rows(stage, session.id) == published_rows(stage, session.id)
    with stage.store.read() as connection:
        listed = connection.execute(select(func.count()).select_from(t.sessions)).scalar()
    assert listed == len(sessions)


def everything(stage: Stage) -> dict[str, list[Any]]:
    """All tables, but for where in the topics it stood and what the database numbers itself."""
    found = {}
    with stage.store.read() as connection:
        for table in t.metadata.sorted_tables:
            columns = [c for c in table.columns if c.name not in ("offset", "id")]
            if table is t.meta:
                continue
            if table is t.positions:
                columns = list(table.columns)
            rows = connection.execute(select(*columns)).all()
            found[table.name] = sorted(map(repr, rows))
    return found


def test_rows_and_offsets_stand_together_whatever_fails_between(tmp_path: Path) -> None:
    """Every statement of a transaction fails once: then all is as it was before."""
    stage = Stage(tmp_path)
    lines = [line for session in fleet(5, 3, events=60) for line in session.lines]
    names = [session.id for session in fleet(5, 3, events=60) for _ in session.lines]
    fed = list(zip(names, lines, strict=True))
    stage.feed(fed[: len(fed) // 2])
    stage.run()
    stage.read_on()
    before = everything(stage)
    stage.feed(fed[len(fed) // 2 :])
    stage.run()
    left = -1

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise OperationalError("a statement", {}, Exception("the database went away"))

    event.listen(stage.store._writer, "before_cursor_execute", count)
    failed, at = 0, 0
    while True:
        at += 1
        left = at
        try:
            stage.read_on()
        except Retriable:
            failed += 1
            assert everything(stage) == before
            assert stage.feeding.counts["rebuilds"] == 1
        else:
            break
    assert failed > 10
    for name in set(names):
        assert held_rows(stage, name) == published_rows(stage, name)


def test_of_an_old_epoch_nothing_is_left(tmp_path: Path) -> None:
    old, new = simulate(1, events=120), simulate(2, events=40)
    both, alone = Stage(tmp_path / "both"), Stage(tmp_path / "alone")
    both.feed(("s", line) for line in old.lines[1:])
    both.run()
    both.read_on()
    for stage in (both, alone):
        stage.feed((("s", line) for line in new.lines[1:]), epoch=1)
        stage.run()
        stage.read_on()
    found, wanted = everything(both), everything(alone)
    assert found.keys() == wanted.keys()
    assert found["rows"]
    assert found["events"]
    assert found["documents"]
    for table in found.keys() - {"positions"}:
        assert found[table] == wanted[table], table


def test_requests_that_read_for_long_keep_nobody_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.gateway.store.WAIT_S", 0.05)
    stage = Stage(tmp_path)
    stage.play(fleet(5, 1, events=40))
    with ExitStack() as held:
        for _ in range(READERS + 1):
            connection = held.enter_context(stage.store.read())
            connection.execute(select(t.meta)).all()
        with pytest.raises(Retriable, match="requests read it"):
            held.enter_context(stage.store.read())
        with stage.store.write() as connection:
            write_good(connection, 7)
    told = stage.store.held()
    assert told is not None
    assert told.good_ms == 7
