"""The dashboard in a terminal, over a gateway that serves: what is on the screen, key by key."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from textual.pilot import Pilot

from operators.session import fold
from pipeline import render
from pipeline.gateway.client import Client
from pipeline.plain import visible
from pipeline.simulate import SimulatedSession, simulate
from pipeline.watch.app import Watch
from pipeline.watch.bar import Bar
from pipeline.watch.columns import Columns
from pipeline.watch.transcript import GUTTER, TranscriptView
from schemas.inbound import read_line
from tests.pipeline.gateway.test_streams import WAIT_S, Serving

NOW = 1_900_000_000_000
SIZE = (120, 40)
FEW = tuple(simulate(seed, events=120) for seed in range(5))
LONG = simulate(11, events=1500)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Serving]:
    stage = Serving(tmp_path)
    yield stage
    stage.store.close()


class Screen:
    """A running program and what a person does with it."""

    def __init__(self, app: Watch, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < end, self.text
            await self.pilot.pause(0.02)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    @property
    def bars(self) -> str:
        return " | ".join(bar.text for bar in self.app.screen.query(Bar))

    @property
    def table(self) -> list[list[str]]:
        table = self.app.screen.query_one(Columns)
        return [[cell.plain for cell in table.get_row_at(at)] for at in range(table.row_count)]

    @property
    def titles(self) -> list[str]:
        return [row[1] for row in self.table]

    @property
    def view(self) -> TranscriptView:
        return self.app.screen.query_one(TranscriptView)

    @property
    def lines(self) -> list[str]:
        """The whole transcript, line by line, as far as it is held."""
        view = self.view
        return [line.text.rstrip() for block in view._blocks for line in block.lines]

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def open(self, session: str) -> None:
        await self.until(lambda: self.app.screen.query_one(Columns).row_count > 0)
        self.app.watch_session(session)
        await self.until(lambda: bool(self.app.screen.query(TranscriptView) and self.view.row))


@asynccontextmanager
async def watching(gateway: Serving, session: str | None = None) -> AsyncIterator[Screen]:
    def connect(sessions: Sequence[str], view: str) -> Client:
        return Client(gateway.url_of_gateway, sessions, view)

    app = Watch(connect, session, now_ms=lambda: NOW)
    async with app.run_test(size=SIZE) as pilot:
        yield Screen(app, pilot)


def run(work: Callable[[], Any]) -> None:
    asyncio.run(work())


def shown(
    lines: Sequence[bytes], session: str, width: int, *, auxiliary: bool = False
) -> list[str]:
    """What `foldstream show` prints in that width."""
    rows = fold((read_line(line) for line in lines), session).rows
    console = Console(width=width, color_system=None, highlight=False, emoji=False, markup=False)
    with console.capture() as got:
        for row in render.transcript(rows, auxiliary=auxiliary):
            console.print(row)
    return [line.rstrip() for line in got.get().split("\n")[:-1]]


# --- all sessions ---------------------------------------------------------------------------------


def test_all_sessions_with_their_figures(gateway: Serving) -> None:
    gateway.begin(*FEW)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await screen.until(lambda: len(screen.titles) == len(FEW))
                await screen.until(lambda: "live" in screen.bars)
                assert f"{len(FEW)} sessions" in screen.bars
                for session in FEW:
                    overview = gateway.store_overview(session.id)
                    name = visible(overview["title"] or overview["derived_title"] or session.id)
                    (row,) = [row for row in screen.table if row[1] == name.replace("\n", "\u240a")]
                    assert row[-1] == str(overview["counts"].get("compactions_landed", 0))
                    assert row[2] == overview["model"]

        run(work)


def test_sorted_filtered_and_searched(gateway: Serving) -> None:
    gateway.begin(*FEW)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await screen.until(lambda: len(screen.titles) == len(FEW))
                await screen.press("s")  # created, newest first
                await screen.until(lambda: "created ↓" in screen.bars)
                newest = sorted(
                    (s.id for s in FEW), key=lambda s: -gateway.store_overview(s)["created_at"]
                )
                table = screen.app.screen.query_one(Columns)
                await screen.until(lambda: list(table._shown) == newest)
                await screen.press("o")
                await screen.until(lambda: list(table._shown) == newest[::-1])
                await screen.press("slash", *FEW[3].id)
                await screen.until(lambda: list(table._shown) == [FEW[3].id])
                await screen.press("enter", "escape")
                await screen.until(lambda: len(screen.titles) == len(FEW))
                await screen.press("t", "t", "t")  # running, compacting; running; compacting
                await screen.until(lambda: "compacting" in screen.bars.split("·")[-1])
                await screen.press("t")
                await screen.until(lambda: {row[0] for row in screen.table} <= {"idle"})

        run(work)


def test_a_session_that_comes_is_listed_and_its_figures_move(
    gateway: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.watch.dashboard.AGAIN_S", 0.05)
    monkeypatch.setattr("pipeline.watch.dashboard.PAINT_S", 0.05)
    gateway.begin(FEW[0], share=0.5)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await screen.until(lambda: len(screen.titles) == 1)
                before = screen.table[0][5]
                await asyncio.to_thread(gateway.go_on)
                await screen.until(lambda: screen.table[0][5] != before)
                await asyncio.to_thread(gateway.begin, FEW[1])
                await screen.until(lambda: len(screen.titles) == 2)

        run(work)


@pytest.mark.parametrize("width", [40, 70, 100, 200])
def test_a_narrow_terminal_shows_what_matters_most(gateway: Serving, width: int) -> None:
    gateway.begin(*FEW)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await screen.until(lambda: len(screen.titles) == len(FEW))
                await screen.pilot.resize_terminal(width, 30)
                await screen.until(lambda: screen.app.size.width == width)
                await screen.pilot.pause()
                table = screen.app.screen.query_one(Columns)
                names = [str(column.label) for column in table.ordered_columns]
                assert {"State", "Session", "Age", "Errors", "Compacted"} <= set(names)
                assert ("Model" in names) == (width >= 100)
                assert len(screen.titles) == len(FEW)

        run(work)


# --- one session ----------------------------------------------------------------------------------


def test_a_transcript_is_what_show_prints_then_and_at_the_end(gateway: Serving) -> None:
    session = FEW[2]
    gateway.begin(session, share=0.4)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await screen.open(session.id)
                width = screen.view.size.width - GUTTER
                while gateway.lines:
                    await asyncio.to_thread(gateway.go_on, 7)
                want = shown(session.lines, session.id, width)
                await screen.until(lambda: screen.lines == want)
                await screen.until(lambda: "following" in screen.bars)
                assert want[-2].strip() in screen.text
                await screen.press("a")
                every = shown(session.lines, session.id, width, auxiliary=True)
                await screen.until(lambda: screen.lines == every)

        run(work)


def test_nothing_of_a_log_steers_the_terminal(gateway: Serving) -> None:
    sessions = [simulate(seed, events=120) for seed in range(20, 30)]
    gateway.begin(*sessions)
    unsafe = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await screen.until(lambda: len(screen.titles) == len(sessions))
                assert not [row for row in screen.table if unsafe.search("".join(row))]
                for session in sessions:
                    await screen.open(session.id)
                    assert not [line for line in screen.lines if unsafe.search(line)]
                    assert not unsafe.search(screen.bars)
                    await screen.press("escape")

        run(work)


async def at_the_end(screen: Screen, session: SimulatedSession) -> None:
    await screen.open(session.id)
    await screen.until(lambda: screen.view.below == 0 and screen.view.following)


def test_a_reader_stays_where_they_are_while_rows_come(gateway: Serving) -> None:
    gateway.begin(LONG, share=0.5)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await at_the_end(screen, LONG)
                await screen.press("k", "k", "k")
                chosen = screen.view.chosen
                assert not screen.view.following
                top = screen.view._at_the_top()
                await asyncio.to_thread(gateway.go_on, 300)
                await screen.until(lambda: "below: G follows" in screen.bars)
                assert screen.view.chosen == chosen
                assert screen.view._at_the_top() == top
                await screen.pilot.resize_terminal(80, 30)
                await screen.until(lambda: screen.view._fits.width == 80)
                assert (screen.view.chosen, screen.view.following) == (chosen, False)
                await screen.press("G")
                await screen.until(lambda: screen.view.following and screen.view.below == 0)

        run(work)


def test_older_rows_come_as_they_are_scrolled_to(gateway: Serving) -> None:
    gateway.begin(LONG)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await at_the_end(screen, LONG)
                want = shown(LONG.lines, LONG.id, screen.view.size.width - GUTTER)
                assert screen.lines != want
                while screen.lines != want:
                    held = len(screen.lines)
                    await screen.press("g")
                    await screen.until(lambda held=held: len(screen.lines) > held)  # type: ignore[misc]
                assert want[-len(screen.lines) :] == screen.lines

        run(work)


def test_a_jump_and_the_way_back(gateway: Serving) -> None:
    gateway.begin(LONG, share=0.9)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await at_the_end(screen, LONG)
                first = screen.view._blocks[0].row["anchor_seq"]
                assert first > 100
                await screen.press("colon", *"60", "enter")
                await screen.until(lambda: "history" in screen.bars)
                row = screen.view.row
                assert row is not None
                assert row["anchor_seq"] <= 60
                assert screen.view._at_the_top()[0] == row["key"]
                for _ in range(200):  # on and on: newer pages come
                    if screen.view._blocks[-1].row["anchor_seq"] >= first:
                        break
                    screen.view.go_to(screen.view._blocks[-1].row["key"])
                    await screen.press("j")
                    await screen.pilot.pause(0.02)
                seqs = [block.row["anchor_seq"] for block in screen.view._blocks]
                assert seqs == sorted(seqs)
                assert len({block.row["key"] for block in screen.view._blocks}) == len(seqs)
                await screen.press("G")
                await screen.until(lambda: "following" in screen.bars)
                await asyncio.to_thread(gateway.go_on)
                last = shown(LONG.lines, LONG.id, screen.view.size.width - GUTTER)[-2]
                await screen.until(lambda: screen.lines[-2] == last)

        run(work)


def test_words_are_found_and_gone_through(gateway: Serving) -> None:
    gateway.begin(LONG)
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway) as screen:
                await at_the_end(screen, LONG)
                await screen.press("slash", *"parser", "enter")
                await screen.until(lambda: "/parser:" in screen.bars)
                seen = []
                for _ in range(5):
                    key = screen.view.chosen
                    await screen.press("N")
                    await screen.until(lambda key=key: screen.view.chosen != key)  # type: ignore[misc]
                    row = screen.view.row
                    assert row is not None
                    assert "parser" in str(row["data"]).lower()
                    seen.append(row["anchor_seq"])
                assert seen == sorted(seen, reverse=True)
                await screen.press("slash", *"nowhere-at-all", "enter")
                await screen.until(lambda: "nowhere-at-all: nowhere" in screen.bars)

        run(work)


def test_what_is_refused_is_said(gateway: Serving) -> None:
    gateway.begin(FEW[0])
    with gateway.serving():

        async def work() -> None:
            async with watching(gateway, "nobody") as screen:
                await screen.until(lambda: "404" in screen.bars)
                await screen.press("escape", "q")

        run(work)


def test_a_gateway_that_is_away_is_stale_and_its_successor_live(gateway: Serving) -> None:
    session = FEW[1]
    gateway.begin(session, share=0.5)
    clients: list[Client] = []

    def connect(sessions: Sequence[str], view: str) -> Client:
        clients.append(Client(gateway.url_of_gateway, sessions, view))
        return clients[-1]

    async def work() -> None:
        serving = gateway.serving()
        serving.__enter__()
        app = Watch(connect, session.id, now_ms=lambda: NOW)
        async with app.run_test(size=SIZE) as pilot:
            screen = Screen(app, pilot)
            await screen.until(lambda: "following" in screen.bars and "live" in screen.bars)
            await asyncio.to_thread(serving.__exit__, None, None, None)
            await screen.until(lambda: "stale since" in screen.bars)
            gateway.go_on()
            with gateway.serving():
                for client in clients:
                    client._url = gateway.url_of_gateway
                await screen.until(lambda: "stale" not in screen.bars)
                want = shown(session.lines, session.id, screen.view.size.width - GUTTER)
                await screen.until(lambda: screen.lines == want)

    run(work)


def test_a_gateway_over_other_topics_begins_anew(tmp_path: Path) -> None:
    """Its cursors are others: the one that is held is refused, and given up."""
    folders = [tmp_path / "1", tmp_path / "2"]
    for folder in folders:
        folder.mkdir()
    before, after = map(Serving, folders)
    before.begin(*FEW)
    after.begin(FEW[1], share=0.2)
    clients: list[Client] = []

    def connect(sessions: Sequence[str], view: str) -> Client:
        clients.append(Client(before.url_of_gateway, sessions, view))
        return clients[-1]

    async def work() -> None:
        serving = before.serving()
        serving.__enter__()
        app = Watch(connect, now_ms=lambda: NOW)
        async with app.run_test(size=SIZE) as pilot:
            screen = Screen(app, pilot)
            await screen.until(lambda: len(screen.titles) == len(FEW) and "live" in screen.bars)
            await screen.until(lambda: any(client.store.cursor for client in clients))
            await asyncio.to_thread(serving.__exit__, None, None, None)
            with after.serving():
                for client in clients:
                    client._url = after.url_of_gateway
                await screen.until(lambda: len(screen.titles) == 1 and "live" in screen.bars)
                assert "400" not in screen.bars

    run(work)
    before.store.close()
    after.store.close()
