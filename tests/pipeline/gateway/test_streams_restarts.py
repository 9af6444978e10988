"""Many clients while the gateway goes, comes again, is cut off and loses its database: all of them
end equal to the server. Topics in memory; the gateway, its sockets and the clients are real."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from pipeline.gateway.cursor import Position, to_text
from pipeline.gateway.live import Live, Pace
from pipeline.gateway.protocol import ROLES
from pipeline.gateway.running import Gateway, Settings, serving, streaming
from pipeline.gateway.tail import Held, MemoryTail, Taken
from pipeline.health import Address
from pipeline.simulate import fleet
from tests.pipeline.gateway.stage import Stage
from tests.pipeline.gateway.test_streams import Serving as ReadModel
from tests.pipeline.gateway.test_streams import Watched, everything
from tests.pipeline.world import interleaved

CLIENTS = 20
PACE = Pace(flush_s=0.01, tick_s=0.1, ping_s=0.3)
WAIT_S = 120.0
LINES = interleaved(fleet(41, 5, events=80))
NAMES = sorted({session for session, _ in LINES})


class Gateways:
    """One after the other, at the same address."""

    def __init__(self, topics: Stage, folder: Path) -> None:
        self._topics = topics
        self._database = folder / "gateway.db"
        self._now = ExitStack()
        self._live = Live(PACE)
        self._port = 0
        self.running: Gateway | None = None

    def start(self) -> None:
        self._live = Live(PACE)
        settings = Settings(f"sqlite:///{self._database}", Address("127.0.0.1", self._port))
        streams = replace(streaming(self._live), end=lambda: None)
        self.running = self._now.enter_context(serving(settings, self._topics.tail, streams))
        self._port = int(self.running.url.rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def stop(self) -> None:
        self._live.end()
        self._now.close()

    def cut_off(self) -> None:
        """As if killed: no client is told."""
        loop = self._live._loop
        assert loop is not None
        loop.call_soon_threadsafe(self._hang_up)
        self._now.close()

    def _hang_up(self) -> None:
        for link in tuple(self._live._links.values()):
            link.end()

    def wipe(self) -> None:
        for file in self._database.parent.glob("gateway.db*"):
            file.unlink()


def pieces(count: int) -> Iterator[list[tuple[str, bytes]]]:
    size = len(LINES) // count + 1
    return (LINES[at : at + size] for at in range(0, len(LINES), size))


def test_every_client_ends_equal_to_the_server(tmp_path: Path) -> None:
    topics = ReadModel(tmp_path)
    gateways = Gateways(topics, tmp_path)
    gateways.start()
    topics.url_of_gateway = gateways.url
    troubles: dict[int, list[Callable[[], None]]] = {
        3: [gateways.stop, gateways.start],
        6: [gateways.cut_off, gateways.start],
        9: [gateways.stop, gateways.wipe, gateways.start],
    }

    async def work() -> None:
        every = Watched(gateways.url, view="overview")
        clients = [Watched(gateways.url, watched(number)) for number in range(CLIENTS)]
        reading: list[asyncio.Task[None]] = []
        try:
            for number, piece in enumerate(pieces(12)):
                await asyncio.to_thread(topics.play_lines, piece)
                if number == 0:
                    reading += [asyncio.create_task(follow(each)) for each in (every, *clients)]
                    await all_of([told(each, lambda c: bool(c.store.sessions)) for each in clients])
                for trouble in troubles.get(number, ()):
                    await asyncio.to_thread(trouble)
                if number in troubles:
                    await all_of([hears(each) for each in (every, *clients)])
            overviews = {name: topics.store_overview(name) for name in NAMES}
            await all_of([told(each, lambda c: is_at(c, overviews)) for each in (every, *clients)])
            for client in clients:
                for name in client.store.sessions:
                    wanted = await asyncio.to_thread(topics.page, name)
                    assert await everything(client, name) == wanted
        finally:
            for task in reading:
                task.cancel()
            ended = await asyncio.gather(*reading, return_exceptions=True)
            for each in (every, *clients):
                await each.close()
        assert not [error for error in ended if isinstance(error, Exception)]

    try:
        asyncio.run(work())
    finally:
        gateways.stop()
        topics.store.close()


def at_the_end(topics: Stage, more: int = 0) -> str:
    """The cursor of a client that knows of all there is; ``more``: and of what there is not."""
    ends = {place: end + more for place, (_, end) in topics.tail().bounds().items()}
    offsets = {place: end for place, end in ends.items() if place[0] in ROLES["transcript"]}
    return to_text(Position(topics.feeding.board.now.log, offsets, {NAMES[0]: 0}))


class Behind(MemoryTail):
    """Told of nothing that is new."""

    def take(self, timeout_s: float, held: Held = frozenset()) -> Taken:
        time.sleep(min(timeout_s, 0.01))
        return Taken({}, {})


def test_a_cursor_of_a_gateway_that_is_ahead_is_not_from_the_future(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one looks at the topics' ends before it says so."""
    monkeypatch.setattr("pipeline.gateway.feed.LOOK_EVERY_S", 2.0)
    topics = ReadModel(tmp_path)
    topics.play_lines(LINES[:100])
    live = Live(PACE)

    def tail() -> MemoryTail:
        return Behind(topics.broker, topics.names, topics.name)

    settings = Settings(topics.url, Address("127.0.0.1", 0))
    with serving(settings, tail, replace(streaming(live), end=lambda: None)) as behind:
        is_live(behind)
        url = f"{behind.url}/v1/stream?session={NAMES[0]}"
        topics.feed(LINES[100:150])
        topics.run()
        ahead = at_the_end(topics)
        with httpx.stream("GET", url, headers={"Last-Event-ID": ahead}, timeout=WAIT_S) as answer:
            assert answer.status_code == 200
        beyond = at_the_end(topics, more=1)
        answer = httpx.get(url, headers={"Last-Event-ID": beyond}, timeout=WAIT_S)
        assert answer.status_code == 400
        assert "future" in answer.text
        live.end()
    topics.store.close()


def test_metrics_tell_what_became_of_the_frames(tmp_path: Path) -> None:
    topics = ReadModel(tmp_path)
    gateways = Gateways(topics, tmp_path)
    topics.play_lines(LINES[:50])
    gateways.start()
    assert gateways.running is not None
    is_live(gateways.running)  # who comes before its first batch is told all of it anew

    async def work() -> None:
        async with Watched(gateways.url, [NAMES[0]]) as client:
            reading = asyncio.create_task(follow(client))
            await told(client, lambda c: c.store.cursor is not None)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    try:
        asyncio.run(work())
        text = httpx.get(f"{gateways.url}/metrics", timeout=WAIT_S).text
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] != "#")
        assert float(values["foldstream_gateway_stream_frames_total"]) >= 2
        assert float(values["foldstream_gateway_stream_bytes_total"]) > 100
        assert float(values["foldstream_gateway_stream_resyncs_total"]) == 0
    finally:
        gateways.stop()
        topics.store.close()


def is_live(gateway: Gateway) -> None:
    """Waits for it."""
    deadline = time.monotonic() + WAIT_S
    while gateway.service.status.state != "live":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def watched(number: int) -> list[str]:
    """Some clients watch one session, some two."""
    return sorted({NAMES[number % len(NAMES)], NAMES[number // 2 % len(NAMES)]})


async def follow(client: Watched) -> None:
    async for _ in client:
        client.told.set()


async def told(client: Watched, is_so: Callable[[Watched], bool]) -> None:
    """Pings come all the time, so it is looked again after whatever was fetched, too."""
    async with asyncio.timeout(WAIT_S):
        while not is_so(client):
            client.told.clear()
            await client.told.wait()


async def hears(client: Watched) -> None:
    client.told.clear()
    async with asyncio.timeout(WAIT_S):
        await client.told.wait()


async def all_of(waiting: list[Any]) -> None:
    await asyncio.gather(*waiting)


def is_at(client: Watched, overviews: dict[str, Any]) -> bool:
    held = client.store.sessions
    return all(one.overview == overviews[name] and not one.wanted for name, one in held.items())
