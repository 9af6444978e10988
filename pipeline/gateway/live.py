"""The live core at work: fed from the feed's thread, shared out on the event loop, at a pace.

One task shares out what was committed, at most every `FLUSH_S`: a commit after a pause goes out at
once, a storm of chunks a few times a second. Another keeps the time: pings, overviews, the age of
connections, and those that are too slow.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from anyio import to_thread
from msgspec import Struct

from .changes import Committed, Offsets
from .cursor import Position, to_text
from .frames import Bye, Hello, Ping, Problem
from .hub import Hub, Limits
from .problems import Problem as HttpProblem
from .problems import away
from .protocol import Answered, answer
from .queues import Ask, Client
from .service import Asking
from .store_cut import StoreCut

log = logging.getLogger(__name__)

FLUSH_S = 0.05  #: between two flushes; text that came in between is one frame
TICK_S = 1.0  #: overviews of all sessions
PING_S = 15.0
MAX_AGE_S = 3_600.0  #: of a connection, give or take a tenth
RESUME_MS = 250  #: what a client whose connection is old waits before it comes again
AWAY_MS = 2_000  #: the same while nothing can be read
LOOK_WAIT_S = 15.0  #: for the next look at the topics' ends
GRACE_S = 30.0  #: for the last frames of a connection that is at its end
CONNECTIONS = 100  #: of one principal at once


class Pace(Struct, frozen=True):
    """Seconds, but ``connections``: of a principal; tests take others."""

    flush_s: float = FLUSH_S
    tick_s: float = TICK_S
    ping_s: float = PING_S
    max_age_s: float = MAX_AGE_S
    connections: int = CONNECTIONS
    limits: Limits = Limits()


class Link:
    """One connection being served: its client of the hub, and what wakes the task that serves."""

    def __init__(self, client: Client, asking: Asking, ends_at: float) -> None:
        self.client = client
        self.asking = asking
        self.ends_at = ends_at
        self.woken = asyncio.Event()
        self.cut = False  # by us: its task is to end without a word
        self._task = asyncio.current_task()

    def end(self) -> None:
        """Nobody is there any more, or takes anything."""
        self.cut = True
        if self._task is not None:
            self._task.cancel()


class Live:
    """Made before the service; `heard` is the feed's listener. All else runs on the event loop."""

    def __init__(self, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self.hub = Hub({}, self.pace.limits)
        self._fed: deque[Committed] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._starting = asyncio.Lock()
        self._links: dict[Client, Link] = {}
        self._principals: Counter[str] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    # --- from the feed's thread

    def heard(self, committed: Committed) -> None:
        """Before anybody has connected nothing is kept: whoever comes is answered by the store."""
        loop = self._loop
        if loop is None:
            return
        self._fed.append(committed)
        try:
            loop.call_soon_threadsafe(self._woken.set)
        except RuntimeError:  # the loop has ended, and with it all connections
            return

    # --- connections

    async def join(self, asking: Asking) -> Link:
        """`HttpProblem` 429 for one too many of a principal."""
        await self._begin(asking)
        name = asking.principal.name
        if self._principals[name] >= self.pace.connections:
            raise too_many(self.pace.connections)
        self._principals[name] += 1
        age = self.pace.max_age_s * random.uniform(0.9, 1.1)  # noqa: S311 - spreads, hides nothing
        client = self.hub.join()
        link = self._links[client] = Link(client, asking, self._now() + age)
        bounds = self.pace.limits
        version = asking.service.version
        client.say(Hello(f"foldstream/{version}", bounds.frames, bounds.bytes, self.pace.ping_s))
        return link

    def leave(self, link: Link) -> None:
        """Idempotent."""
        if self._links.pop(link.client, None) is not None:
            self._principals[link.asking.principal.name] -= 1
        self.hub.leave(link.client)

    async def look_up(self, link: Link, ask: Ask) -> None:
        """Answer what the hub asks for a client, out of the store."""
        found = await to_thread.run_sync(_read, link.asking, ask)
        if isinstance(found, Problem) and found.code == "future":
            found = await self._looked_again(link.asking, ask, found)
        if isinstance(found, HttpProblem):
            self.hub.answered(ask, Problem("away", found.detail, ask.session), self._now())
            link.client.end(Bye("away", AWAY_MS))
            return
        catching_up = link.asking.service.status.state != "live"
        if isinstance(found, Problem) and found.code == "unknown-session" and catching_up:
            link.client.end(Bye("away", AWAY_MS))  # it may be among what is still to be read
            return
        self.hub.answered(ask, found, self._now())

    async def _looked_again(
        self, asking: Asking, ask: Ask, found: Problem
    ) -> Answered | Problem | HttpProblem:
        """The topics may have grown since their ends were looked at, and the cursor be of a gateway
        that has read on: it is from the future only if it is so after the next look."""
        feed = asking.service.feed
        if not feed.board.followed:
            return found
        ends, until = feed.ends, self._now() + LOOK_WAIT_S
        while feed.ends is ends:
            if self._now() > until:
                return away("how far the topics reach is not known at present")
            await asyncio.sleep(self.pace.flush_s)
        return await to_thread.run_sync(_read, asking, ask)

    def end(self) -> None:
        """Say good-bye to everybody: the service goes, and may come again. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for link in self._links.values():
            link.client.end(Bye("shutdown", AWAY_MS))
            link.woken.set()

    # --- at work

    async def _begin(self, asking: Asking) -> None:
        async with self._starting:
            if self._loop is not None:
                return
            self._fed.clear()
            self._loop = asyncio.get_running_loop()  # from here on what is committed is kept
            try:
                offsets = await to_thread.run_sync(_offsets, asking)
            except HttpProblem:
                self._loop = None
                raise
            self.hub = Hub(offsets, self.pace.limits)
            self._tasks = [asyncio.create_task(work) for work in (self._share(), self._keep_time())]
            for task in self._tasks:
                task.add_done_callback(self._stopped)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """A fault of ours ends all connections, rather than leave them without a word."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("the streams ended by a fault of the service", exc_info=error)
        self._loop = None  # whoever comes next begins anew
        for other in self._tasks:
            other.cancel()
        for link in tuple(self._links.values()):
            link.end()

    async def _share(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._fed:
                self.hub.feed(self._fed.popleft())
            self._wake(self.hub.flush(self._now()))
            await asyncio.sleep(self.pace.flush_s)

    async def _keep_time(self) -> None:
        pinged = self._now()
        while True:
            await asyncio.sleep(self.pace.tick_s)
            now = self._now()
            self._wake(self.hub.tick(now))
            for client in self.hub.sweep(now):
                self._cut(client)
            for link in tuple(self._links.values()):
                if now >= link.ends_at:
                    link.client.end(Bye("max-age", RESUME_MS))
                    link.woken.set()
                if now >= link.ends_at + GRACE_S:
                    self._cut(link.client)
            if now - pinged >= self.pace.ping_s:
                pinged = now
                self._ping()

    def _ping(self) -> None:
        for link in self._links.values():
            if not link.client.waits:
                link.client.say(Ping())
                link.woken.set()

    def _wake(self, clients: Iterable[Client]) -> None:
        for client in clients:
            link = self._links.get(client)
            if link is not None:
                link.woken.set()

    def _cut(self, client: Client) -> None:
        link = self._links.get(client)
        if link is not None:
            link.end()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def cursor_of(name: str, offsets: Offsets, epochs: Mapping[str, int]) -> str:
    """The cursor of a page (`service.MakeCursor`)."""
    return to_text(Position(name, offsets, epochs))


def too_many(most: int) -> HttpProblem:
    return HttpProblem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{most} streams are open already: close some, or watch several sessions with one",
        {"Retry-After": "5"},
    )


def _offsets(asking: Asking) -> dict[tuple[str, int], int]:
    with asking.read() as connection:
        return dict(StoreCut(connection, "", {}, None).offsets)


def _read(asking: Asking, ask: Ask) -> Answered | Problem | HttpProblem:
    service = asking.service
    try:
        with asking.read() as connection:
            cut = StoreCut(connection, service.status.log, service.feed.ends, asking.visible)
            return answer(cut, ask.session, ask.subscription.view, ask.cursor)
    except HttpProblem as problem:
        return problem
