"""Live frames to everybody who watches: pure, no IO, no clock (streams.md §4).

Fed with what the read model committed, it makes each frame once, and puts it into the queue of
every client that watches its session (`queues.py`). Whoever serves the clients calls `flush` at
its own pace: what came in between is coalesced, so that a storm of chunks is a few frames. A
client that does not keep up is out of everybody's way until it is answered anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from immutables import Map
from msgspec import Struct

from .changes import Change, Committed, Offsets, OverviewChanged, Place
from .coalescing import Shared, coalesce, shared_of
from .cursor import Position, parse
from .frames import Bye, Problem, Snapshot
from .protocol import EVERYTHING, ROLES, Answered, Subscribe, order
from .queues import MAX_BYTES, MAX_FRAMES, Ask, Client, Tally
from .subscriptions import Step, Subscription

MAX_SUBSCRIPTIONS = 16  #: of one client
STALLED_S = 30.0  #: a resync that is not taken in this time ends the connection
RETRY_MS = 5_000  #: what a client that was too slow is told to wait


class Limits(Struct, frozen=True):
    frames: int = MAX_FRAMES
    bytes: int = MAX_BYTES
    stalled_s: float = STALLED_S


class Hub:
    """``offsets``: what the read model holds when it begins. ``now`` is in seconds of any clock
    that does not go back; methods return the clients that have something to take."""

    def __init__(self, offsets: Offsets, limits: Limits | None = None) -> None:
        self.tally = Tally()
        self.clients: dict[Client, None] = {}
        self._limits = limits or Limits()
        self._offsets: Map[Place, int] = Map(offsets)
        self._gathered: list[Committed] = []
        #: Who is told of a session at present: asked for, or live.
        self._watchers: dict[str, dict[Subscription, None]] = {}
        self._dirty: dict[str, Shared] = {}  # overviews since the last `tick`
        self._ticked: Offsets = self._offsets

    # --- clients

    def join(self) -> Client:
        client = Client(self.tally, max_frames=self._limits.frames, max_bytes=self._limits.bytes)
        self.clients[client] = None
        return client

    def leave(self, client: Client) -> None:
        """Idempotent."""
        for subscription in client.subscriptions.values():
            self._unwatch(subscription)
        client.subscriptions.clear()
        self.clients.pop(client, None)

    def subscribe(
        self, client: Client, asked: Subscribe, allows: Callable[[str], bool]
    ) -> Subscription | Problem:
        """``asked`` is checked. ``allows``: whose frames the client may see; who asks for others
        is told that they do not exist."""
        before = client.subscriptions.get(asked.id)
        if before is not None and before.gen >= asked.gen:
            return Problem("gen", f"subscription {asked.id!r} is at gen {before.gen} already")
        if before is None and len(client.subscriptions) >= MAX_SUBSCRIPTIONS:
            return Problem("subscriptions", f"a client has at most {MAX_SUBSCRIPTIONS}")
        self.unsubscribe(client, asked.id)
        position = None if asked.cursor is None else parse(asked.cursor)
        cursor = position if isinstance(position, Position) else None
        made = client.subscriptions[asked.id] = Subscription(client, asked, cursor, allows)
        return made

    def unsubscribe(self, client: Client, name: str) -> None:
        """Idempotent."""
        gone = client.subscriptions.pop(name, None)
        if gone is not None:
            self._unwatch(gone)
            client.recount()

    def ask(self, client: Client) -> Ask | None:
        """What to look up next, now that nothing waits for the client: pass what came of it to
        `answered`, once. From now on the session's frames are kept for it."""
        for subscription in () if client.ending else client.subscriptions.values():
            if subscription.asking and not subscription.queue:
                session = subscription.asking[-1]
                held = subscription.held[session]
                if held.waiting is not None:
                    continue  # on its way
                held.waiting = []
                self._watchers.setdefault(session, {})[subscription] = None
                return Ask(subscription, session, subscription.cursor, subscription.ticket)
        return None

    def answered(self, ask: Ask, found: Answered | Problem, now: float) -> None:
        """The answer and what came since go into the client's queue; one that is late (it was
        asked for before a resync, or for what is no longer subscribed) does not."""
        subscription, session = ask.subscription, ask.session
        if ask.ticket != subscription.ticket or not _stands(subscription):
            return
        held = subscription.held[session]
        subscription.asking.remove(session)
        if isinstance(found, Problem):
            subscription.queue.append(Shared(found))
            del subscription.held[session]
            self._forget(subscription, session)
            subscription.client.recount()
        else:
            subscription.log = found.log
            subscription.queue.extend(Shared(frame) for frame in found.frames)
            waiting, held.waiting = held.waiting or [], None
            held.live, held.covered = True, _covered(ask, found)
            held.epoch, held.partition = found.epoch, found.partition
            subscription.client.recount()
            self._push(subscription, session, waiting, now)
        if subscription.held:
            offsets = self._ticked if session == EVERYTHING else self._offsets
            subscription.mark(Step(offsets))

    # --- what comes

    def feed(self, committed: Committed) -> None:
        """What a transaction of the read model changed, in order; kept until `flush`."""
        self._gathered.append(committed)

    def flush(self, now: float) -> set[Client]:
        """Share out all that was fed."""
        gathered, self._gathered = self._gathered, []
        sessions: dict[str, list[Change]] = {}
        for committed in gathered:
            if committed.rebuilt or committed.missed:
                return self._answer_anew(gathered, now)
            self._offsets = self._offsets.update(committed.offsets)
            for change in committed.changes:
                if change.session in self._watchers:
                    sessions.setdefault(change.session, []).append(change)
                if EVERYTHING in self._watchers and isinstance(change, OverviewChanged):
                    self._dirty[change.session] = shared_of(change)
        touched: dict[Subscription, None] = {}
        for session, changes in sessions.items():
            for subscription in self._share(session, changes, now):
                touched[subscription] = None
        step = Step(self._offsets)
        for subscription in touched:
            subscription.mark(step)
        return {subscription.client for subscription in touched}

    def tick(self, now: float) -> set[Client]:
        """Share out the overviews to those who watch all sessions: called once a second."""
        dirty, self._dirty = self._dirty, {}
        self._ticked = self._offsets
        step, touched = Step(self._ticked), set()
        for subscription in tuple(self._watchers.get(EVERYTHING, ())) if dirty else ():
            frames = [one for name, one in dirty.items() if subscription.allows(name)]
            if frames and self._push(subscription, EVERYTHING, frames, now):
                subscription.mark(step)
                touched.add(subscription.client)
        return touched

    def sweep(self, now: float) -> list[Client]:
        """Clients that did not take a resync in time; each is to be cut off."""
        late = [
            client
            for client in self.clients
            if client.stalled_at is not None and now - client.stalled_at >= self._limits.stalled_s
        ]
        for client in late:
            self.tally.closed += 1
            self.leave(client)
            client.end(Bye("slow", RETRY_MS))
        return late

    def _share(self, session: str, changes: list[Change], now: float) -> Iterable[Subscription]:
        frames = [shared_of(change) for change in sorted(changes, key=order)]
        if len(frames) > 1:
            found = coalesce(frames)
            frames = found.frames
            self.tally.coalesced += found.superseded + found.joined
        views: dict[str, list[Shared]] = {}
        # A client that is resynced meanwhile watches no more.
        for subscription in tuple(self._watchers.get(session, ())):
            view = subscription.view
            if view not in views:
                views[view] = [one for one in frames if one.place and one.place[0] in ROLES[view]]
            if views[view]:
                self._push(subscription, session, views[view], now)
                yield subscription

    def _push(
        self, subscription: Subscription, session: str, frames: list[Shared], now: float
    ) -> bool:
        client = subscription.client
        if client.push(subscription, session, frames, now):
            return True
        for each in client.subscriptions.values():  # resynced: all is parked
            self._unwatch(each)
        return False

    def _answer_anew(self, gathered: Iterable[Committed], now: float) -> set[Client]:
        """What was fed is not all there is to tell: everybody is answered anew, and if the read
        model was begun anew, not by the cursors of before."""
        rebuilt = False
        for committed in gathered:
            if committed.rebuilt:
                rebuilt, self._offsets = True, Map()
            self._offsets = self._offsets.update(committed.offsets)
        self._dirty, self._ticked = {}, self._offsets
        for client in self.clients:
            client.resync("rebuilt" if rebuilt else "missed", now, anew=rebuilt)
            for subscription in client.subscriptions.values():
                self._unwatch(subscription)
        return set(self.clients)

    def _unwatch(self, subscription: Subscription) -> None:
        for session in subscription.held:
            self._forget(subscription, session)

    def _forget(self, subscription: Subscription, session: str) -> None:
        watchers = self._watchers.get(session)
        if watchers is not None:
            watchers.pop(subscription, None)
            if not watchers:
                del self._watchers[session]


def _stands(subscription: Subscription) -> bool:
    return subscription.client.subscriptions.get(subscription.id) is subscription


def _covered(ask: Ask, found: Answered) -> Offsets:
    """What need not be told after the answer. Of a client that is ahead of this gateway it is what
    its cursor says: an old row would stand for one whose removal it has passed."""
    if ask.cursor is None or any(isinstance(frame, Snapshot) for frame in found.frames):
        return found.offsets
    ahead = ask.cursor.offsets
    return {place: max(at, ahead.get(place, 0)) for place, at in found.offsets.items()}
