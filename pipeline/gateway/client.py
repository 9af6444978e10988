"""A client of the gateway for Python: history, then live, resumed by itself.

async with Client("http://127.0.0.1:8080", ["my-session"]) as client:
    async for session in client:  # each time something changed, the first page included
        for row in client.store.session(session).rows:
            print(row["kind"], row["data"])

The keyed store (`keyed.py`) is always as the server last told: rows that did not change stay the
same objects. A lost connection is made again from the cursor; a row whose text did not fit is
fetched. Needs the packages of ``foldstream[client]``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
from httpx_sse import ServerSentEvent, SSEError, aconnect_sse
from msgspec import Struct

from .keyed import Json, KeyedStore

RETRY_FIRST_S, RETRY_LAST_S = 0.25, 5.0
REQUEST_S = 10.0  #: for a row or a page; meanwhile the stream is not read
SILENCE_S = 50.0  #: three pings that did not come: the connection is dead, whoever says otherwise


class ClientError(Exception):
    """The gateway refuses what is asked; ``status`` and its own words. Asking again will not do."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


class Lost(Struct, frozen=True):
    """``since``: epoch seconds; ``why``: for a person, and what a server says may be part of it."""

    since: float
    why: str


class Client:
    """``sessions``: none with the view "overview" means all. ``cursor``: of `store.cursor` or of a
    page, to begin after it; if it is refused, that is an error, while one that came from the stream
    is given up. ``http``: another client of httpx, with its own settings. ``lost`` is None while
    the stream is open; else what is held may be old."""

    def __init__(
        self,
        url: str,
        sessions: Sequence[str] = (),
        view: str = "transcript",
        *,
        token: str | None = None,
        cursor: str | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.store = KeyedStore()
        self.store.cursor = self._given = cursor
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._url = url.rstrip("/")
        self._sessions = tuple(sessions)
        self._view = view
        timeout = httpx.Timeout(REQUEST_S, read=SILENCE_S)
        self._http = http or httpx.AsyncClient(headers=headers, timeout=timeout)
        self._retry_s = RETRY_FIRST_S
        self._done = False
        self.lost: Lost | None = Lost(time.time(), "not connected yet")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def __aiter__(self) -> AsyncIterator[str]:
        """The session that changed, "" for all of them; ends when the gateway says so for good.
        `ClientError` for what it refuses."""
        while not self._done:
            try:
                async for changed in self._connected():
                    self._retry_s = RETRY_FIRST_S
                    yield changed
                self._lose("the gateway ended the stream")
            except (httpx.TransportError, SSEError) as error:  # the cursor says where to go on
                self._lose(str(error) or type(error).__name__)
            if not self._done:
                await asyncio.sleep(self._retry_s)
                self._retry_s = min(2 * self._retry_s, RETRY_LAST_S)

    def _lose(self, why: str) -> None:
        if self.lost is None or self.lost.why != why:
            self.lost = Lost(time.time() if self.lost is None else self.lost.since, why)

    async def _connected(self) -> AsyncIterator[str]:
        every = self._view == "overview" and not self._sessions
        path = "/v1/overview/stream" if every else "/v1/stream"
        asked: dict[str, str | tuple[str, ...]] = {"view": self._view, "session": self._sessions}
        headers = {} if self.store.cursor is None else {"Last-Event-ID": self.store.cursor}
        url = f"{self._url}{path}"
        async with aconnect_sse(
            self._http, "GET", url, params={} if every else asked, headers=headers
        ) as source:
            if await self._refused(source.response):
                return
            self.lost = None
            async for event in source.aiter_sse():
                changed = self._take(event)
                told = [] if changed is None else [changed]
                for session in dict.fromkeys(told + await self.fetch()):
                    yield session

    async def _refused(self, response: httpx.Response) -> bool:
        if response.status_code == HTTPStatus.OK:
            return False
        await response.aread()
        ours = self.store.cursor is not None and self.store.cursor != self._given
        if response.status_code == HTTPStatus.BAD_REQUEST and ours:
            self.store.cursor = None  # of other topics, say: what is held will be replaced
        elif not _passes(response.status_code):
            raise ClientError(response.status_code, _detail(response))
        self._lose(_detail(response))
        return True

    def _take(self, event: ServerSentEvent) -> str | None:
        frame: Json = json.loads(event.data)
        if frame["t"] == "bye":
            retry_ms = frame["retry_ms"]
            self._done = retry_ms is None
            self._retry_s = RETRY_FIRST_S if retry_ms is None else retry_ms / 1000
        return self.store.apply(frame)

    # --- aside from the stream

    async def fetch(self) -> list[str]:
        """Ask once for each row whose text did not fit; the sessions that changed. A row that is
        not there yet is asked for again after the next frame, a ping at the latest."""
        changed = []
        for name, held in tuple(self.store.sessions.items()):
            generation = held.generation
            for key in tuple(held.wanted):
                row = await self.get(row_path(name, key))
                if held.fetched(row, generation):
                    changed.append(name)
        return changed

    async def older(self, session: str, max_messages: int = 50) -> bool:
        """Load the page above the rows held; False: there is none."""
        held = self.store.session(session)
        at, generation = held.before, held.generation
        if at is None:
            return False
        page = await self.get(page_path(session), before=at[0], max_messages=max_messages)
        if page is None:
            return False
        return held.older(page["rows"], generation, has_more=page["has_more"])

    async def get(self, path: str, **query: Any) -> Any:
        """What the gateway answers, decoded; None for what is not there (yet). `ClientError` for
        what it refuses, httpx's TransportError while it is away."""
        answer = await self._http.get(self._url + path, params=query, timeout=REQUEST_S)
        if answer.status_code == HTTPStatus.NOT_FOUND or _passes(answer.status_code):
            return None
        if answer.status_code != HTTPStatus.OK:
            raise ClientError(answer.status_code, _detail(answer))
        return answer.json()


def _passes(status: int) -> bool:
    """Whether asking again will do: the gateway is away or too busy, or what stands before it
    says so."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def row_path(session: str, key: str) -> str:
    """Where a whole row is."""
    return f"/v1/sessions/{_segment(session)}/rows/{_segment(key)}"


def page_path(session: str) -> str:
    """Where the pages of its transcript are."""
    return f"/v1/sessions/{_segment(session)}/transcript"


def _segment(text: str) -> str:
    return quote(text, safe="")


def _detail(response: httpx.Response) -> str:
    try:
        document = response.json()
    except ValueError:
        return response.text[:200]
    return str(document.get("detail", document)) if isinstance(document, dict) else str(document)
