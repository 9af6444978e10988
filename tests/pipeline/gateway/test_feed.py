"""The feed waits out whatever fails, says since when what is served is stale, and loses nothing."""

from __future__ import annotations

import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import Retriable
from pipeline.gateway.changes import Committed, Offsets, Place, RowChanged
from pipeline.gateway.feed import Feed
from pipeline.gateway.store import Store, offsets
from pipeline.gateway.tail import Bounds, Held, MemoryTail, Taken
from pipeline.simulate import fleet, simulate
from tests.pipeline.gateway.asking import Client
from tests.pipeline.gateway.stage import Stage
from tests.pipeline.gateway.test_store import held_rows, published_rows

SESSIONS = list(fleet(6, 4, events=60))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@contextmanager
def running(feed: Feed) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=feed.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def live(feed: Feed) -> bool:
    return feed.board.now.state == "live" and feed.board.now.lag == 0


def listed(stage: Stage) -> list[str]:
    page = Client(stage).json("/v1/sessions?limit=500")
    return sorted(each["session"] for each in page["sessions"])


NAMES = sorted(session.id for session in SESSIONS)


class Switch:
    """Brokers that can be taken away."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.off = False

    def __call__(self) -> SwitchedTail:
        return SwitchedTail(self._stage.tail(), self)

    def check(self) -> None:
        if self.off:
            raise Retriable("no broker answers", "start one")


class SwitchedTail:
    def __init__(self, inner: MemoryTail, switch: Switch) -> None:
        self._inner = inner
        self._switch = switch

    def identity(self) -> str:
        self._switch.check()
        return self._inner.identity()

    def bounds(self) -> Bounds:
        self._switch.check()
        return self._inner.bounds()

    def start(self, offsets: Offsets) -> None:
        self._inner.start(offsets)

    def take(self, timeout_s: float, held: Held = frozenset()) -> Taken:
        self._switch.check()
        return self._inner.take(timeout_s, held)

    def written(self, places: Iterable[Place]) -> Offsets:
        self._switch.check()
        return self._inner.written(places)

    def close(self) -> None:
        self._inner.close()


def test_brokers_go_and_come_back(stage: Stage) -> None:
    switch = Switch(stage)
    feed = stage.feeding = Feed(switch, stage.store, stage.heard.append)
    stage.feed((s.id, line) for s in SESSIONS[:2] for line in s.lines)
    stage.run()
    with running(feed):
        until(lambda: live(feed))
        before = listed(stage)
        switch.off = True
        until(lambda: feed.board.now.state == "stale")
        assert feed.board.now.stale_since is not None
        assert "no broker answers" in (feed.board.now.why or "")
        assert listed(stage) == before  # what was there is served on
        ready = Client(stage).get("/readyz")
        assert ready.status_code == 503
        assert "stale since" in ready.text
        stage.feed((s.id, line) for s in SESSIONS[2:] for line in s.lines)
        stage.run()
        switch.off = False
        until(lambda: live(feed))
    assert listed(stage) == NAMES
    assert feed.board.now.stale_since is None


def test_what_an_earlier_gateway_left_is_served_while_the_brokers_are_away(stage: Stage) -> None:
    stage.play(SESSIONS)
    stage.open()
    switch = Switch(stage)
    switch.off = True
    feed = stage.feeding = Feed(switch, stage.store)
    with running(feed):
        until(lambda: feed.board.now.state == "stale")
        assert listed(stage) == NAMES


@pytest.mark.sqlite
def test_a_locked_database_is_waited_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.gateway.store.BUSY_MS", 50)
    stage.open()
    stage.feed((s.id, line) for s in SESSIONS[:2] for line in s.lines)
    stage.run()
    stage.read_on()
    feed = stage.feeding
    with closing(sqlite3.connect(stage.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        stage.feed((s.id, line) for s in SESSIONS[2:] for line in s.lines)
        stage.run()
        with running(feed):
            until(lambda: feed.board.now.state == "stale")
            assert "locked" in (feed.board.now.why or "")
            other.execute("ROLLBACK")
            until(lambda: live(feed))
    assert listed(stage) == NAMES


@pytest.mark.sqlite
def test_a_full_disk_is_waited_for(stage: Stage) -> None:
    stage.feed((s.id, line) for s in SESSIONS[:1] for line in s.lines)
    stage.run()
    stage.read_on()
    feed = stage.feeding
    full = threading.Event()
    full.set()

    def bounded(connection: sqlite3.Connection, _: object) -> None:
        pages = "page_count" if full.is_set() else "max_page_count"
        size = connection.execute(f"PRAGMA {pages}").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {size if full.is_set() else 2**30}")

    from sqlalchemy import event

    event.listen(stage.store._writer, "connect", bounded)
    stage.store._writer.dispose()
    stage.feed((s.id, line) for s in SESSIONS[1:] for line in s.lines)
    stage.run()
    with running(feed):
        until(lambda: "full" in (feed.board.now.why or ""))
        full.clear()
        stage.store._writer.dispose()
        until(lambda: live(feed))
    assert listed(stage) == NAMES


@pytest.mark.sqlite
def test_a_database_that_is_deleted_is_made_again(stage: Stage) -> None:
    stage.play(SESSIONS)
    feed = stage.feeding
    with running(feed):
        until(lambda: live(feed))
        for path in sorted(stage.path.parent.glob("read.db*"), reverse=True):
            path.unlink()
        until(lambda: feed.counts["rebuilds"] >= 2 and live(feed))
        assert listed(stage) == NAMES
    assert stage.heard[-1].rebuilt or any(heard.rebuilt for heard in stage.heard[1:])


@pytest.mark.sqlite
def test_a_database_that_is_deleted_before_it_is_opened_again_is_made_again(stage: Stage) -> None:
    """Connections that were kept still see the file that is gone."""
    stage.play(SESSIONS)
    for path in sorted(stage.path.parent.glob("read.db*"), reverse=True):
        path.unlink()
    stage.feeding.catch_up()
    assert stage.path.exists()
    assert listed(stage) == NAMES


@pytest.mark.sqlite
def test_a_folder_that_is_wiped_is_made_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "state" / "gateway")
    stage.play(SESSIONS)
    feed = stage.feeding
    with running(feed):
        until(lambda: live(feed))
        shutil.rmtree(tmp_path / "state")
        until(lambda: feed.counts["rebuilds"] >= 2 and live(feed))
        assert listed(stage) == NAMES


def test_a_rebuild_says_how_far_it_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limit=20)
    stage.feed((s.id, line) for s in SESSIONS for line in s.lines)
    stage.run()
    said: list[str] = []

    def heard(_: Committed) -> None:
        said.append(Client(stage).get("/readyz").text)

    feed = stage.feeding = Feed(stage.tail, stage.store, heard)
    with running(feed):
        until(lambda: live(feed))
    found = [re.search(r"(\d+) of (\d+) offsets are read", text) for text in said]
    done = [int(each[1]) for each in found if each is not None]
    assert len(done) == len(said) > 5
    assert done == sorted(set(done))
    assert {each[2] for each in found if each is not None} == {str(feed.board.now.total)}
    assert Client(stage).get("/readyz").status_code == 200


def broken(*_: object, **__: object) -> Any:
    raise KeyError("nothing")


def test_a_fault_of_ours_is_said_and_tried_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage.feed((s.id, line) for s in SESSIONS for line in s.lines)
    stage.run()
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.gateway.feed.apply", broken)
        feed = stage.feeding
        with running(feed):
            until(lambda: "KeyError" in (feed.board.now.why or ""))
            assert "stale" in Client(stage).get("/readyz").text
            assert "KeyError" in caplog.text
            patch.undo()
            until(lambda: live(feed))
    assert listed(stage) == NAMES


def test_other_topics_of_the_same_names_begin_it_anew(stage: Stage, tmp_path: Path) -> None:
    stage.play(SESSIONS)
    other = Stage(tmp_path)
    other.name = "two"
    other.play(SESSIONS[:1])
    assert listed(other) == [SESSIONS[0].id]
    assert other.heard[0].rebuilt


def test_topics_that_are_shorter_than_what_was_read_begin_it_anew(stage: Stage) -> None:
    stage.play(SESSIONS)
    for role in ("events", "transcript", "surface", "partials", "overview"):
        stage.broker.lose(stage.names.of(role))
    feed = stage.feeding
    with running(feed):
        until(lambda: feed.counts["rebuilds"] >= 2 and live(feed))
    assert listed(stage) == []


@pytest.mark.sqlite
def test_a_file_that_is_no_database_says_so_and_is_waited_out(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.path.write_bytes(b"not a database at all" * 100)
    with running(stage.feeding):
        until(lambda: stage.feeding.board.now.why is not None)
        assert "delete it" in (stage.feeding.board.now.why or "")
        stage.path.unlink()
        until(lambda: live(stage.feeding))


def test_two_gateways_on_one_database_apply_nothing_twice(stage: Stage) -> None:
    stage.feed((s.id, line) for s in SESSIONS[:2] for line in s.lines)
    stage.run()
    heard: list[Committed] = []
    second = Feed(stage.tail, Store(stage.url), heard.append)
    with running(stage.feeding), running(second):
        until(lambda: live(stage.feeding) and live(second))
        stage.feed((s.id, line) for s in SESSIONS[2:] for line in s.lines)
        stage.run()
        ends = {place: end for place, (_, end) in stage.tail().bounds().items()}

        def done() -> bool:
            with stage.store.read() as connection:
                return offsets(connection) == {p: e for p, e in ends.items() if e}

        until(done)
        until(lambda: live(stage.feeding) and live(second))
    assert listed(stage) == NAMES
    for session in NAMES:
        assert held_rows(stage, session) == published_rows(stage, session)


def test_listeners_hear_what_was_committed_and_the_offsets_after(stage: Stage) -> None:
    session = simulate(9, events=150)
    stage.feed((session.id, line) for line in session.lines)
    stage.run(batch=7)
    stage.read_on()
    rows = [c for heard in stage.heard for c in heard.changes if isinstance(c, RowChanged)]
    with stage.store.read() as connection:
        held = offsets(connection)
    told: dict[tuple[str, int], int] = {}
    for heard in stage.heard:
        told |= heard.offsets
    assert told == held
    for row in rows:
        assert row.offset < held["transcript", row.partition]
    revs: dict[str, int] = {}
    for row in rows:
        assert row.rev >= revs.get(row.key, -1)
        revs[row.key] = row.rev


def test_what_is_none_of_ours_is_counted_and_passed_over(stage: Stage) -> None:
    stage.play(SESSIONS)
    stage.broker.append(stage.names.of("transcript"), 0, b"k", b"nonsense")
    stage.broker.append(stage.names.of("overview"), 1, b"k", None)
    stage.read_on()
    assert stage.feeding.counts["unreadable"] == 1
    assert listed(stage) == NAMES
