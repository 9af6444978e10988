"""Over PostgreSQL the gateway answers what it answers over SQLite, byte for byte."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import Retriable
from pipeline.gateway.store import Store
from pipeline.simulate import fleet, simulate
from tests.pipeline.gateway.asking import Client
from tests.pipeline.gateway.stage import Stage
from tests.pipeline.gateway.test_feed import live, running, until
from tests.pipeline.gateway.test_search import TEXTS, said
from tests.pipeline.gateway.test_store import held_rows, published_rows
from tests.postgres import NoPostgres, Postgres, no_postgres, postgres, server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    try:
        with postgres() as at:
            yield at
    except NoPostgres as reason:
        no_postgres(reason)


@pytest.fixture
def twins(url: str, tmp_path: Path) -> Iterator[tuple[Stage, Stage]]:
    """The same topics, read into either database; PostgreSQL's is begun anew."""
    one, other = Stage(tmp_path), Stage(tmp_path, url)
    other.broker = one.broker
    other.name = one.name = str(tmp_path)
    yield one, other
    one.store.close()
    other.store.close()


def read_on(one: Stage, other: Stage) -> None:
    one.run()
    one.read_on()
    other.read_on()


def same(one: Client, other: Client, path: str) -> None:
    mine, theirs = one.get(path), other.get(path)
    assert mine.status_code == 200, mine.text
    assert theirs.content == mine.content, path


def test_every_answer_is_the_same(twins: tuple[Stage, Stage]) -> None:
    one, other = twins
    sessions = list(fleet(17, 7, events=90))
    one.feed((session.id, line) for session in sessions for line in session.lines)
    read_on(one, other)
    here, there = Client(one), Client(other)
    for sort in ("activity", "created", "title", "tokens", "errors", "compactions"):
        for order in ("asc", "desc"):
            same(here, there, f"/v1/sessions?sort={sort}&order={order}&limit=3")
    same(here, there, "/v1/sessions?q=SIM&state=idle&state=running")
    for session in sessions:
        base = f"/v1/sessions/{session.id}"
        for path in (
            "",
            "/transcript?max_messages=3",
            "/transcript?around=40&max_bytes=3000",
            "/transcript?after=10&max_messages=2",
            "/events?max_messages=2",
            "/surface",
            "/surface?at=50",
            "/surface/diff?from=10&to=70",
            "/classification",
            "/export?format=jsonl",
        ):
            same(here, there, base + path)
        assert held_rows(other, session.id) == published_rows(one, session.id)


@pytest.mark.parametrize(
    "words", ["parser", "parser failed", "解析", "第", "go", "100%", "of_it", "ÉCLAIR", "e", "nul"]
)
def test_search_finds_the_same(twins: tuple[Stage, Stage], words: str) -> None:
    one, other = twins
    one.feed(("s", line) for line in said(TEXTS))
    read_on(one, other)
    same(Client(one), Client(other), f"/v1/search?q={words}")
    assert Client(one).json(f"/v1/search?q={words}")["hits"]


def test_ids_and_texts_with_a_nul_are_held(twins: tuple[Stage, Stage]) -> None:
    one, other = twins
    one.feed(("nul\0 \u65e5", line) for line in list(said(TEXTS))[1:])
    read_on(one, other)
    same(Client(one), Client(other), "/v1/sessions")
    same(Client(one), Client(other), "/v1/sessions/nul%00%20%E6%97%A5/transcript")


def test_a_session_begun_anew_and_a_restart(twins: tuple[Stage, Stage]) -> None:
    one, other = twins
    old, new = simulate(1, events=80), simulate(2, events=40)
    one.feed(("s", line) for line in old.lines[1:])
    read_on(one, other)
    one.feed((("s", line) for line in new.lines[1:]), epoch=1)
    one.store.close()
    other.store.close()
    one.open()
    other.open()
    read_on(one, other)
    assert other.feeding.counts["rebuilds"] == 0
    for path in ("transcript", "events", "surface"):
        same(Client(one), Client(other), f"/v1/sessions/s/{path}")


def test_no_page_looks_through_a_table(twins: tuple[Stage, Stage]) -> None:
    """PostgreSQL scans small tables whatever the indexes: it is told not to where it can help."""
    one, other = twins
    one.feed((s.id, line) for s in fleet(17, 3, events=200) for line in s.lines)
    read_on(one, other)
    with other.store.read() as connection:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = connection.exec_driver_sql(
            "EXPLAIN SELECT body FROM rows WHERE session = 'x' AND anchor_seq < 50 "
            "ORDER BY anchor_seq DESC, anchor_rank DESC, key DESC LIMIT 64"
        ).scalars()
        text = "\n".join(plan)
    assert "Index Scan Backward using rows_in_order" in text
    assert not re.search(r"Seq Scan|Sort", text)


@pytest.fixture
def troubled(tmp_path: Path) -> Iterator[tuple[Postgres, Stage]]:
    """A server of this test's own, and what is fed into it."""
    try:
        with server() as made:
            stage = Stage(tmp_path, made.url)
            yield made, stage
            stage.store.close()
    except NoPostgres as reason:
        no_postgres(reason)


def test_a_server_that_is_killed_is_waited_for_and_nothing_is_lost(
    troubled: tuple[Postgres, Stage],
) -> None:
    there, stage = troubled
    sessions = list(fleet(6, 4, events=60))
    stage.feed((s.id, line) for s in sessions[:2] for line in s.lines)
    stage.run()
    feed = stage.feeding
    with running(feed):
        until(lambda: live(feed))
        there.kill()
        stage.feed((s.id, line) for s in sessions[2:] for line in s.lines)
        stage.run()
        until(lambda: "database" in (feed.board.now.why or ""))
        ready = Client(stage).get("/readyz")
        assert ready.status_code == 503
        assert "stale since" in ready.text
        assert Client(stage).get("/v1/sessions").status_code == 503
        there.start()
        until(lambda: live(feed))
    assert feed.counts["rebuilds"] == 1
    for session in sessions:
        assert held_rows(stage, session.id) == published_rows(stage, session.id)


def test_a_server_that_says_nothing_more_is_noticed(
    troubled: tuple[Postgres, Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stay, so that no error comes."""
    there, stage = troubled
    sessions = list(fleet(6, 2, events=60))
    stage.play(sessions[:1])
    feed = stage.feeding
    monkeypatch.setattr("pipeline.gateway.status.SILENT_S", 3.0)
    with running(feed):
        until(lambda: live(feed))
        there.send(signal.SIGSTOP)
        try:
            stage.feed((sessions[1].id, line) for line in sessions[1].lines)
            stage.run()
            until(lambda: feed.board.now.state == "stale")
            assert "stale since" in Client(stage).get("/readyz").text
        finally:
            there.send(signal.SIGCONT)
        until(lambda: live(feed))
    for session in sessions:
        assert held_rows(stage, session.id) == published_rows(stage, session.id)


def test_a_server_that_is_away_is_said_without_its_password() -> None:
    store = Store("postgresql://me:secret@127.0.0.1:1/none")
    with pytest.raises(Retriable) as told:
        store.open("x")
    assert "secret" not in str(told.value)
    assert "127.0.0.1" in str(told.value)
    store.close()
