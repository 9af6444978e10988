"""Many real clients of a gateway: over Server-Sent Events and WebSockets, some slow, some frozen
for a while, all on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Self, TypeVar

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from pipeline.gateway.client import SILENCE_S, Client, ClientError

T = TypeVar("T")
ALL_ROWS = 500
FROZEN_S = (8.0, 15.0)
THAWED_S = (3.0, 6.0)
SLOW_S = (0.1, 0.4)
RETRY_S = 0.25
SMALL_BUFFER = 8_192  #: of a slow client's socket: what it does not read fills up at once


class Viewer:
    """One client. ``sessions``: none means all. ``error``: why it ended, where it should not."""

    def __init__(
        self, url: str, name: str, sessions: Sequence[str], view: str, *, slow: bool = False
    ) -> None:
        self.name = name
        self.sessions = tuple(sessions)
        self.view = view
        self.slow = slow
        self.error = ""
        self.client = Client(url, self.sessions, view, http=_http(small=slow))
        self.thawed = asyncio.Event()
        self.thawed.set()
        self._random = Random(name)

    async def run(self) -> None:
        try:
            await self._watch()
            self.error = self.error or "told not to come again"
        except ClientError as error:
            self.error = str(error)

    async def _watch(self) -> None:
        async for _ in self.client:
            await self._pause()

    async def _pause(self) -> None:
        await self.thawed.wait()
        if self.slow:
            await asyncio.sleep(self._random.uniform(*SLOW_S))

    def at(self, session: str) -> int:
        """The seq up to which it knows how the session stands; -1: not at all."""
        held = self.client.store.sessions.get(session)
        return -1 if held is None or held.overview is None else int(held.overview["next_seq"])

    @property
    def settled(self) -> bool:
        """Whether no row is still to be fetched."""
        return not any(held.wanted for held in self.client.store.sessions.values())

    async def close(self) -> None:
        await self.client.close()


class SocketViewer(Viewer):
    """Over a WebSocket; every now and then it gives up its subscription and comes back to it."""

    def __init__(self, url: str, name: str, sessions: Sequence[str], view: str) -> None:
        super().__init__(url, name, sessions, view)
        self._url = url.replace("http", "ws", 1) + "/v1/ws"
        self._gen = 0

    async def _watch(self) -> None:
        while not self.error:
            with suppress(OSError, WebSocketException, TimeoutError, httpx.TransportError):
                async with connect(self._url, max_size=None) as connection:
                    await self._subscribed(connection)
            await asyncio.sleep(RETRY_S)

    async def _subscribed(self, connection: ClientConnection) -> None:
        await self._subscribe(connection)
        while not self.error:
            async with asyncio.timeout(SILENCE_S):
                message = json.loads(await connection.recv())
            await self._pause()
            if message.get("gen", self._gen) == self._gen:
                for frame in message["frames"]:
                    self._take(frame)
                await self.client.fetch()
            if self._random.random() < 0.01:
                await connection.send(json.dumps({"op": "unsubscribe", "id": "a"}))
                await self._subscribe(connection)

    async def _subscribe(self, connection: ClientConnection) -> None:
        self._gen += 1
        asked = {"op": "subscribe", "id": "a", "gen": self._gen, "view": self.view}
        cursor = self.client.store.cursor
        told = {} if cursor is None else {"cursor": cursor}
        await connection.send(json.dumps({**asked, "sessions": self.sessions, **told}))

    def _take(self, frame: dict[str, Any]) -> None:
        if frame["t"] == "problem" and frame["code"] != "away":
            self.error = frame["message"]
        elif frame["t"] == "bye" and frame["retry_ms"] is None:
            self.error = f"told not to come again: {frame['code']}"
        else:
            self.client.store.apply(frame)


class Viewers:
    """A context manager: the clients run as long as its block. ``frozen``: those that do not read
    for a while, again and again, until `thaw`."""

    def __init__(self, viewers: Sequence[Viewer], frozen: Sequence[Viewer] = ()) -> None:
        self.all = viewers
        self._frozen = frozen
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="viewers", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self.call(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T], seconds: float = 180) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    @property
    def errors(self) -> list[str]:
        return [f"{viewer.name}: {viewer.error}" for viewer in self.all if viewer.error]

    def behind(self, targets: Mapping[str, int]) -> list[Viewer]:
        """Those who do not know yet of all that was written up to there."""
        return [
            viewer
            for viewer in self.all
            if any(viewer.at(session) < targets[session] for session in viewer.sessions or targets)
        ]

    def thaw(self) -> None:
        """From now on nobody freezes."""
        self.call(self._thaw())

    def hurry(self) -> None:
        """From now on nobody is slow: one that is slower than what is written is behind by all that
        the sockets' buffers hold, for as long as it takes to read that."""
        for viewer in self.all:
            viewer.slow = False

    async def _thaw(self) -> None:
        for task in self._tasks[len(self.all) :]:
            task.cancel()
        for viewer in self._frozen:
            viewer.thawed.set()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _begin(self) -> None:
        running = [viewer.run() for viewer in self.all]
        freezing = [_freeze(viewer) for viewer in self._frozen]
        self._tasks = [asyncio.create_task(work) for work in (*running, *freezing)]

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        found = await asyncio.gather(*self._tasks, return_exceptions=True)
        for viewer, error in zip(self.all, found, strict=False):
            if isinstance(error, Exception):
                viewer.error = repr(error)
            await viewer.close()


async def _freeze(viewer: Viewer) -> None:
    random = Random(f"{viewer.name} freezes")
    while True:
        await asyncio.sleep(random.uniform(*THAWED_S))
        viewer.thawed.clear()
        await asyncio.sleep(random.uniform(*FROZEN_S))
        viewer.thawed.set()


def _http(*, small: bool) -> httpx.AsyncClient:
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)] if small else []
    transport = httpx.AsyncHTTPTransport(socket_options=options)
    return httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(10.0, read=SILENCE_S))


async def rows_of(client: Client, session: str) -> list[Any]:
    """All rows, those above the pages held loaded before."""
    while await client.older(session, ALL_ROWS):
        pass
    return list(client.store.session(session).rows)
