"""A view of some sessions as one client is told it: how far each is, what waits, and the marks that
make its cursors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from .changes import Offsets
from .coalescing import Shared, coalesce
from .cursor import Position, to_text
from .frames import Resync
from .protocol import EVERYTHING, Subscribe, places

if TYPE_CHECKING:
    from .queues import Client


class Step:
    """A moment of the hub: everything below ``offsets`` was shared out. In a queue it is the mark
    that makes a cursor; its texts are made once for all who watch the same."""

    __slots__ = ("offsets", "texts")

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = offsets
        self.texts: dict[object, str] = {}


class Held:
    """How far a session is told: ``parked`` (nothing is sent), asked for (``waiting`` holds what
    comes meanwhile) or live. ``covered``: what the answer held already, until the hub is there."""

    __slots__ = ("covered", "epoch", "live", "partition", "waiting")

    def __init__(self) -> None:
        self.live = False
        self.waiting: list[Shared] | None = None
        self.epoch: int | None = None
        self.partition: int | None = None
        self.covered: Offsets | None = None

    @property
    def parked(self) -> bool:
        return not self.live and self.waiting is None


class Subscription:
    """A view of some sessions for one client; made by `Hub.subscribe`."""

    def __init__(
        self,
        client: Client,
        asked: Subscribe,
        cursor: Position | None,
        allows: Callable[[str], bool],
    ) -> None:
        self.client = client
        self.id, self.gen, self.view = asked.id, asked.gen, asked.view
        self.allows = allows
        self.sessions = asked.sessions or (EVERYTHING,)
        self.held = {session: Held() for session in self.sessions}
        self.queue: deque[Shared | Step] = deque()
        self.asking = list(self.held)  # sessions without an answer, the next one last
        self.asking.reverse()
        self.ticket = 0  # an answer that was asked for with another one is late
        self.cursor = cursor  # what the client holds, as far as it was taken
        self.log = "" if cursor is None else cursor.log

    def restart(self, reason: str, *, anew: bool = False) -> int:
        """Drop what waits and answer for every session again; the number of frames dropped.
        ``anew``: not even what was taken counts."""
        dropped = sum(isinstance(entry, Shared) for entry in self.queue)
        dropped += sum(len(held.waiting or ()) for held in self.held.values())
        self.queue.clear()
        self.ticket += 1
        # Those that were refused too: the refusal may be among what is dropped.
        self.held = {session: Held() for session in self.sessions}
        self.asking = list(reversed(self.held))
        self.cursor = None if anew else self.cursor
        text = None if self.cursor is None else to_text(self.cursor)
        self.queue.append(Shared(Resync(reason, text)))
        return dropped

    @property
    def told(self) -> bool:
        """Whether every session is live."""
        return all(held.live for held in self.held.values())

    def mark(self, step: Step) -> None:
        """All below the step's offsets stands in the queue or was taken."""
        if not self.told:
            return
        if self.queue and isinstance(self.queue[-1], Step):
            self.queue.pop()
        self.queue.append(step)

    def position(self, step: Step) -> Position:
        partitions = {held.partition for held in self.held.values()}
        offsets: dict[tuple[str, int], int] = {}
        for partition in partitions:
            offsets.update(places(self.view, partition, step.offsets))
        return Position(self.log, offsets, self._epochs())

    def _epochs(self) -> Mapping[str, int]:
        return {name: held.epoch or 0 for name, held in self.held.items() if name != EVERYTHING}

    def cursor_at(self, step: Step) -> str:
        self.cursor = self.position(step)
        who = (self.log, self.view, *self.cursor.epochs.items())
        text = step.texts.get(who)
        if text is None:
            text = step.texts[who] = to_text(self.cursor)
        return text

    def squeeze(self) -> int:
        """Coalesce what waits; by how many frames it is less."""
        marks = [entry for entry in self.queue if isinstance(entry, Step)]
        before: list[Shared] = []
        after: list[Shared] = []
        seen = 0
        for entry in self.queue:
            if isinstance(entry, Step):
                seen += 1
            else:
                (before if seen < len(marks) else after).append(entry)
        # What stands after the last mark is superseded by nothing before it, and joins nothing.
        left = coalesce(before), coalesce(after)
        self.queue.clear()
        self.queue.extend(left[0].frames)
        self.queue.extend(marks[-1:])
        self.queue.extend(left[1].frames)
        return sum(part.superseded + part.joined for part in left)

    def waiting(self) -> Iterable[Shared]:
        yield from (entry for entry in self.queue if isinstance(entry, Shared))
        for held in self.held.values():
            yield from held.waiting or ()
