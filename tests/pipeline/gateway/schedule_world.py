"""Gateways, clients and what is between them, moved step by step by a fault schedule.

Every fault is a step like any other; what no step moves stands still, so a client that is not read
is frozen, and what waits in its pipe is late.
"""

from __future__ import annotations

import copy
import json
from collections import deque

from msgspec import Struct

from pipeline.gateway.changes import Committed
from pipeline.gateway.cursor import Position, parse
from pipeline.gateway.frames import Problem
from pipeline.gateway.hub import Hub, Limits
from pipeline.gateway.keyed import Json, KeyedStore
from pipeline.gateway.protocol import Answered, Subscribe, View, answer, check, reaches
from pipeline.gateway.queues import Ask, Client
from tests.pipeline.gateway.schedule_log import ROLES, SESSIONS, Log
from tests.pipeline.gateway.schedule_model import Model

BOUNDS = Limits(frames=6, bytes=4_000, stalled_s=30.0)
PIPE = 3  #: messages between a server and a client before the server must wait
GATEWAYS = 2


class Violation(AssertionError):  # noqa: N818 - what it is
    """What does not hold."""


class Gateway:
    def __init__(self, log: Log) -> None:
        self.model = Model(log)
        self.hub = Hub(self.model.offsets, BOUNDS)
        self.links: list[Link] = []
        #: Committed, and the hub does not know it yet.
        self.untold: deque[Committed] = deque()

    def restart(self) -> None:
        """The process dies; the read model stays."""
        for link in self.links:
            link.cut = True
        self.links = []
        self.untold.clear()
        self.model.begin()
        self.hub = Hub(self.model.offsets, BOUNDS)

    def begin_anew(self, log: Log) -> None:
        """The database is gone, or the topics are others."""
        self.model = Model(log)
        self.untold.append(self.model.poll({}, rebuilt=True))

    def tell(self, count: int) -> None:
        for _ in range(min(count, len(self.untold))):
            self.hub.feed(self.untold.popleft())


class Link:
    """A connection. ``pipe``: what was sent and has not arrived."""

    def __init__(self, gateway: Gateway, asked: Subscribe) -> None:
        self.gateway = gateway
        self.client: Client = gateway.hub.join()
        problem = check(asked) or gateway.hub.subscribe(self.client, asked, lambda _: True)
        assert not isinstance(problem, Problem)
        self.pipe: deque[str] = deque()
        self.ask: Ask | None = None
        self.found: Answered | Problem | None = None
        self.cut = False
        gateway.links.append(self)

    def serve(self, now: float) -> None:
        """One move of the server: send what waits, or one stage of looking something up."""
        if self.cut or len(self.pipe) >= PIPE:
            return
        hub = self.gateway.hub
        if self.ask is not None and self.found is not None:
            ask, self.ask, found, self.found = self.ask, None, self.found, None
            hub.answered(ask, found, now)
        elif self.ask is not None:
            ask = self.ask
            self.found = answer(self.gateway.model, ask.session, ask.subscription.view, ask.cursor)
        elif (taken := self.client.take(most=300)) is not None:
            frames = [json.loads(shared.payload) for shared in taken.frames]
            frames += [{"t": "cursor", "cursor": taken.cursor}] if taken.cursor else []
            self.pipe.append(json.dumps(frames))
        else:
            self.ask = hub.ask(self.client)

    def close(self) -> None:
        if not self.cut:
            self.cut = True
            self.gateway.hub.leave(self.client)
            self.gateway.links.remove(self)


class Wish(Struct):
    """Something fetched aside from the stream: a row, or the page above."""

    session: str
    key: str | None
    before: tuple[int, int, str] | None
    generation: int
    gateway: Gateway
    cursor: str | None
    reply: tuple[object, ...] | None = None


class Viewer:
    """A client, as ours are: the keyed store, one connection, rows and pages fetched aside."""

    def __init__(self, view: View, sessions: tuple[str, ...]) -> None:
        self.view, self.watched = view, sessions
        self.store = KeyedStore()
        self.link: Link | None = None
        self.late: Link | None = None  # the connection before, whose last messages still arrive
        self.wish: Wish | None = None
        self.kept: KeyedStore | None = None

    def connect(self, gateway: Gateway) -> None:
        if self.link is not None:
            self.link.close()
            self.late = self.link
        asked = Subscribe(view=self.view, sessions=self.watched, cursor=self.store.cursor)
        self.link = Link(gateway, asked)

    def read(self, *, twice: bool = False) -> None:
        """One message arrives."""
        link = self.link
        if link is None or not link.pipe:
            return
        message = link.pipe[0] if twice else link.pipe.popleft()
        for frame in json.loads(message):
            self.take(frame)

    def read_late(self) -> None:
        """A message of the connection before: it is heard no more."""
        if self.late is not None and self.late.pipe:
            self.hear_late(self.late.pipe.popleft())

    def hear_late(self, message: str) -> None:
        """Not at all."""

    def take(self, frame: Json) -> None:
        if frame["t"] == "problem":
            if frame["code"] == "future":
                self.store.cursor = None
            self._hang_up()  # and try again, as people do
        else:
            self.store.apply(frame)

    # --- aside from the stream

    def fetch(self, choice: int) -> None:
        """One stage of fetching what is wanted: ask, be served, get the reply."""
        if self.wish is None:
            self.wish = self._next_wish(choice)
        elif self.wish.reply is None:
            self._served(self.wish)
        else:
            wish, self.wish = self.wish, None
            self._replied(wish)

    def _next_wish(self, choice: int) -> Wish | None:
        if self.link is None or self.view != "transcript":
            return None
        gateway = self.link.gateway
        wishes: list[Wish] = []
        for name, held in self.store.sessions.items():
            wishes += [
                Wish(name, key, None, held.generation, gateway, self.store.cursor)
                for key in held.wanted
            ]
            if held.before is not None:
                at = held.before
                wishes.append(Wish(name, None, at, held.generation, gateway, self.store.cursor))
        return wishes[choice % len(wishes)] if wishes else None

    def _served(self, wish: Wish) -> None:
        model = wish.gateway.model
        cursor = parse(wish.cursor) if wish.cursor else None
        if (
            isinstance(cursor, Position) and not served(model, cursor)
        ) or wish.session not in model.sessions:
            self.wish = None
        elif wish.key is not None:
            wish.reply = (model.row(wish.session, wish.key),)
        else:
            page = model.page(wish.session, wish.before)
            wish.reply = (page.rows, page.has_more)

    def _replied(self, wish: Wish) -> None:
        held = self.store.session(wish.session)
        assert wish.reply is not None
        if wish.key is not None:
            held.fetched(wish.reply[0], wish.generation)  # type: ignore[arg-type]
        else:
            rows, more = wish.reply
            held.older(rows, wish.generation, has_more=bool(more))  # type: ignore[arg-type]

    # --- faults of its own

    def reload(self) -> None:
        self.store, self.wish = KeyedStore(), None
        self._hang_up()

    def keep(self) -> None:
        self.kept = copy.deepcopy(self.store)

    def restore(self) -> None:
        """A tab is thawed as it was some time ago."""
        if self.kept is not None:
            self.store, self.wish = copy.deepcopy(self.kept), None
            self._hang_up()

    def _hang_up(self) -> None:
        if self.link is not None:
            self.link.close()
            self.late, self.link = self.link, None


def served(model: Model, cursor: Position) -> bool:
    """Whether a gateway gives pages to a client with this cursor now."""
    return cursor.log == model.log and reaches(model.offsets, cursor)


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.log = Log()
        self.gateways = [Gateway(self.log) for _ in range(GATEWAYS)]
        self.viewers = [
            Viewer("transcript", ("a", "b")),
            Viewer("transcript", ("a",)),
            Viewer("surface", ("a", "c")),
            Viewer("overview", ()),
        ]

    def feed(self, gateway: Gateway, amount: int) -> None:
        """A poll; the lower bits of ``amount`` say which topics it brings how much of."""
        amounts = {role: (amount >> 2 * n) % 4 * 2 for n, role in enumerate(ROLES)}
        gateway.untold.append(gateway.model.poll(amounts))

    def flush(self, gateway: Gateway, told: int) -> None:
        gateway.tell(told)
        gateway.hub.flush(self.now)
        for client in gateway.hub.clients:
            bound(client)

    def move(self, viewer: Viewer, gateway: Gateway) -> None:
        """One message on, connecting if need be."""
        if viewer.link is None or viewer.link.cut:
            viewer.connect(gateway)
        assert viewer.link is not None
        viewer.link.serve(self.now)
        viewer.read()

    def sweep(self, seconds: int) -> None:
        self.now += seconds
        for gateway in self.gateways:
            late = gateway.hub.sweep(self.now)
            for link in [link for link in gateway.links if link.client in late]:
                link.cut = True
                gateway.links.remove(link)

    def begin_anew(self) -> None:
        """The topics are made again, and all is written anew; gateways notice one by one."""
        number = int(self.log.name.rpartition("-")[2]) + 1
        self.log = Log(f"log-{number}")

    # --- in the end

    def heal(self) -> None:
        """No more faults: all that is under way comes to its end."""
        for gateway in self.gateways:
            if gateway.model.log != self.log.name:
                gateway.begin_anew(self.log)
        for _ in range(400):
            before = self._progress()
            for gateway in self.gateways:
                gateway.untold.append(gateway.model.poll(dict.fromkeys(ROLES, 1_000)))
                self.flush(gateway, 1_000)
                gateway.hub.tick(self.now)
            for number, viewer in enumerate(self.viewers):
                self.move(viewer, self.gateways[number % GATEWAYS])
                viewer.fetch(0)
            if self._progress() == before and self._still():
                return
        raise Violation("it does not come to rest")

    def _progress(self) -> object:
        return [(v.store.cursor, v.wish is None) for v in self.viewers]

    def _still(self) -> bool:
        return all(
            v.link is not None
            and not v.link.pipe
            and v.link.ask is None
            and v.wish is None
            and all(not s.queue and not s.asking for s in v.link.client.subscriptions.values())
            and not any(held.wanted or held.before for held in v.store.sessions.values())
            for v in self.viewers
        )

    def judge(self) -> None:
        for number, viewer in enumerate(self.viewers):
            for name in viewer.watched or SESSIONS:
                self._judge(f"client {number}, session {name}", viewer, name)

    def _judge(self, who: str, viewer: Viewer, name: str) -> None:
        truth, held = self.log.truth[name], viewer.store.session(name)
        same(f"{who}: overview", held.overview, truth.overview)
        if viewer.view == "transcript":
            same(f"{who}: rows", list(held.rows), truth.shown())
        if viewer.view == "surface":
            same(f"{who}: surface", (held.surface or {"nodes": []})["nodes"], truth.nodes)


def same(what: str, held: object, truth: object) -> None:
    if held != truth:
        raise Violation(f"{what}\n  held  {held}\n  truth {truth}")


def bound(client: Client) -> None:
    """What waits for a client stays in the bounds, and is what is counted."""
    waiting = [
        shared
        for subscription in client.subscriptions.values()
        for entries in (subscription.queue, *(h.waiting or () for h in subscription.held.values()))
        for shared in entries
        if getattr(shared, "place", None) is not None
    ]
    if len(waiting) > BOUNDS.frames or client.frames != len(waiting):
        raise Violation(f"{len(waiting)} frames wait, {client.frames} counted")
