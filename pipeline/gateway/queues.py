"""What waits for one client, in bounds; and what becomes of it when it takes too little.

The ladder (streams.md §4): when more waits than may, it is coalesced (`coalescing.py`); if that
does not help, all of it is dropped and a `Resync` stands in its place. From then on nothing waits,
until the client has taken that and is answered anew; a client that does not is closed. Never a
silent drop, never more than the bounds. Answers are not counted: of a client there is one at a
time, in bounds of its own, and only when nothing else waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from .changes import Offsets
from .coalescing import Shared
from .cursor import Position
from .frames import Bye, Frame, Resync
from .subscriptions import Step, Subscription

MAX_FRAMES = 512
MAX_BYTES = 1024 * 1024
ROOM = 0.75  #: of the bounds may be left by coalescing; with more it would soon be done again


class Tally(Struct):
    """What happened, counted since the start: the hub's metrics."""

    frames: int = 0  # taken by clients
    bytes: int = 0
    coalesced: int = 0  # joined or superseded before they were shared out
    squeezed: int = 0  # the same in a client's own queue
    dropped: int = 0  # frames that a resync stands for
    resyncs: int = 0
    closed: int = 0  # clients that did not take even that


class Ask(Struct, frozen=True):
    """A session to be looked up in the read model, and the cursor to answer for."""

    subscription: Subscription
    session: str
    cursor: Position | None
    ticket: int


class Taken(Struct, frozen=True):
    """Frames to send now, of one subscription (None: of the connection), and the cursor that
    stands after them."""

    subscription: Subscription | None
    frames: list[Shared]
    cursor: str | None = None


class Client:
    """One connection. Whoever serves it takes what waits, sends it, and when nothing waits looks
    up what is to be asked next."""

    def __init__(
        self, tally: Tally, *, max_frames: int = MAX_FRAMES, max_bytes: int = MAX_BYTES
    ) -> None:
        self.tally = tally
        self.subscriptions: dict[str, Subscription] = {}
        self.frames = 0  # that wait, answers aside
        self.bytes = 0
        self.stalled_at: float | None = None  # since when a resync has not been taken
        self.closed = False
        self._bounds = max_frames, max_bytes
        self._loose: deque[Shared] = deque()
        self._bye: Bye | None = None

    # --- what is put in

    def say(self, frame: Frame) -> None:
        """A frame of the connection itself; it goes before all others."""
        self._loose.append(Shared(frame))

    def end(self, bye: Bye) -> None:
        """Ask for no more; what waits or is being looked up is still taken, then the `Bye`."""
        self._bye = self._bye or bye

    @property
    def ending(self) -> bool:
        return self._bye is not None

    def push(
        self, subscription: Subscription, session: str, frames: Iterable[Shared], now: float
    ) -> bool:
        """Frames of a session for a subscription that is told it; False: it was too much."""
        held = subscription.held[session]
        if held.parked:
            return True
        into = subscription.queue if held.waiting is None else held.waiting
        for shared in frames:
            if held.covered is not None and _covered(shared, held.covered):
                continue
            into.append(shared)
            self.frames += 1
            self.bytes += shared.size
            if held.epoch is not None:
                held.epoch = max(held.epoch, getattr(shared.frame, "epoch", 0))
        return not self._is_over(1.0) or self._relieve(now)

    def _is_over(self, share: float) -> bool:
        """Above a share of the bounds; one frame alone is always in them."""
        frames, size = self._bounds
        return self.frames > 1 and (self.frames > frames * share or self.bytes > size * share)

    def _relieve(self, now: float) -> bool:
        for subscription in self.subscriptions.values():
            self.tally.squeezed += subscription.squeeze()
        self.recount()
        if not self._is_over(ROOM):
            return True
        self.resync("slow", now)
        return False

    def recount(self) -> None:
        """The bounds know what waits, whatever became of the queues."""
        waiting = [
            shared
            for subscription in self.subscriptions.values()
            for shared in subscription.waiting()
            if shared.place is not None
        ]
        self.frames = len(waiting)
        self.bytes = sum(shared.size for shared in waiting)

    def resync(self, reason: str, now: float, *, anew: bool = False) -> None:
        """Drop all that waits; a `Resync` says so, and answers follow once it was taken."""
        self.tally.resyncs += 1
        for subscription in self.subscriptions.values():
            self.tally.dropped += subscription.restart(reason, anew=anew)
        self.frames = self.bytes = 0
        self.stalled_at = now

    # --- what is taken out

    @property
    def waits(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._loose) or any(each.queue for each in self.subscriptions.values())

    def take(self, most: int = 65_536) -> Taken | None:
        """The next frames to send, about ``most`` bytes and at least one; None: nothing waits."""
        if self._loose:
            return self._took(None, [self._loose.popleft()])
        for subscription in self.subscriptions.values():
            if subscription.queue:
                return self._take(subscription, most)
        if self._bye is not None and not self.closed:
            self.closed = True
            return self._took(None, [Shared(self._bye)])
        return None

    def _take(self, subscription: Subscription, most: int) -> Taken:
        queue, frames, step, size = subscription.queue, [], None, 0
        while queue and (size < most or isinstance(queue[0], Step)):
            entry = queue.popleft()
            if isinstance(entry, Step):
                step = entry
                continue
            frames.append(entry)
            size += entry.size
            if entry.place is not None:
                self.frames -= 1
                self.bytes -= entry.size
            if isinstance(entry.frame, Resync):
                self.stalled_at = None
        cursor = None if step is None else subscription.cursor_at(step)
        # The next one first: a subscription that never rests must not hold up the others.
        self.subscriptions[subscription.id] = self.subscriptions.pop(subscription.id)
        return self._took(subscription, frames, cursor)

    def _took(
        self, subscription: Subscription | None, frames: list[Shared], cursor: str | None = None
    ) -> Taken:
        self.tally.frames += len(frames)
        self.tally.bytes += sum(shared.size for shared in frames)
        return Taken(subscription, frames, cursor)


def _covered(shared: Shared, offsets: Offsets) -> bool:
    return shared.place is not None and shared.offset < offsets.get(shared.place, 0)
