"""All figures of one session, joined: which reader needs which kind of event.

    readers = Readers()
    fold_line(readers, line, session, out)

What no reader needs costs one look into a table. A copy (``fork``) costs the same however long the
session is. A fork's child counts only its own: the sums start anew where the session's own totals
do (projection.md §6); the context is inherited, so prices and pressure stay.

No reader raises, whatever a log holds: it keeps its last good value and notes ``reader:<name>``.
"""

from __future__ import annotations

from msgspec import Struct

from operators.events import AssistantChunk, Event, Line, UsageChunk
from operators.intake import Session
from operators.out import Out
from operators.rooms import Rooms

from . import losses, statistics, usage
from .context import Context, V4Total
from .handlers import HANDLERS
from .losses import Break, Losses
from .measure import Measure, ReadStream
from .prices import Prices
from .request import HeaderFacts
from .statistics import Statistics
from .usage import Billing, TokenUsage


class Saved(Struct, array_like=True, gc=False):
    """What the head of a snapshot holds of the readers; the prices are segments of their own."""

    generation: int
    statistics: statistics.Saved
    tokens: usage.Saved
    billing: usage.SavedBilling
    context: Context
    losses: losses.Saved
    header: HeaderFacts | None
    has_systems: bool


class Readers:
    """``whole``: count an inherited prefix, too, as the reference does."""

    __slots__ = (
        "billing",
        "breaks",
        "context",
        "generation",
        "has_systems",
        "header",
        "losses",
        "measure",
        "prices",
        "statistics",
        "tokens",
        "v4",
        "whole",
    )

    def __init__(self, *, whole: bool = False, read_stream: ReadStream | None = None) -> None:
        """With ``read_stream`` (a file's reader: ``schemas.streams.timed``) the figures that need
        bodies are kept as well: ``measure``, every single break, the v4 release's total."""
        self.whole = whole
        self.generation = 0
        self.prices = Prices()
        self.context = Context()
        self.header: HeaderFacts | None = None
        self.has_systems = False  # the log has system messages, as those of v3 and later do
        self.measure = None if read_stream is None else Measure(read_stream)
        self.v4 = None if read_stream is None else V4Total()
        self.restart()

    def restart(self) -> None:
        """The sums, from 0."""
        self.statistics = Statistics()
        self.tokens = TokenUsage()
        self.billing = Billing()
        self.losses = Losses()
        self.breaks: list[Break] | None = None if self.measure is None else []

    def fork(self) -> Readers:
        """A copy to fold into. Those of a file are never copied."""
        twin = Readers.__new__(Readers)
        twin.whole, twin.generation = self.whole, self.generation
        twin.header, twin.has_systems = self.header, self.has_systems
        twin.prices, twin.context = self.prices.fork(), self.context.fork()
        twin.statistics, twin.tokens = self.statistics.fork(), self.tokens.fork()
        twin.billing, twin.losses = self.billing.fork(), self.losses.fork()
        twin.measure, twin.v4, twin.breaks = self.measure, self.v4, self.breaks
        return twin

    def counted(self, rooms: Rooms) -> Readers:
        """These readers as far as they count: while a fork's inherited prefix is still being read,
        and right after, nothing is its own (projection.md §6)."""
        cut = rooms.seed_cut is not None or rooms.totals.generation != self.generation
        if self.whole or not cut:
            return self
        twin = self.fork()
        twin.restart()
        return twin

    def saved(self) -> Saved:
        return Saved(
            self.generation,
            self.statistics.saved(),
            self.tokens.saved(),
            self.billing.saved(),
            self.context,
            self.losses.saved(),
            self.header,
            self.has_systems,
        )

    @classmethod
    def restored(cls, saved: Saved, prices: list[tuple[int, int]], rooms: Rooms) -> Readers:
        """``prices``: the rows of all saved segments; ``rooms``: the session, restored before."""
        made = cls()
        made.generation, made.header = saved.generation, saved.header
        made.has_systems, made.context = saved.has_systems, saved.context
        made.statistics = Statistics.restored(saved.statistics)
        made.tokens = TokenUsage.restored(saved.tokens)
        made.billing = Billing.restored(saved.billing, rooms)
        made.losses = Losses.restored(saved.losses)
        made.prices = Prices.restored(prices, Rooms.surface.peek(rooms))
        return made

    # --- one event ----------------------------------------------------------------------------

    def needs(self, event: Event) -> bool:
        """Whether :meth:`take` would read anything of the event. Changes nothing, so that a session
        may keep sharing its readers with the one it was copied from."""
        body = event.body
        if isinstance(body, AssistantChunk):  # most events are, and few of them matter
            sample = isinstance(body.chunk, UsageChunk)
            return sample or self.statistics.clock.awaiting or self.measure is not None
        return body.__class__ in HANDLERS

    def take(self, event: Event, rooms: Rooms, out: Out) -> None:
        """Read one event that the session's own rooms have just taken. Never raises."""
        if rooms.totals.generation != self.generation:
            self.generation = rooms.totals.generation
            if not self.whole:
                self.restart()
        body = event.body
        handler = HANDLERS.get(body.__class__)
        if handler is not None:
            handler(self, event, body, rooms, out)


def fold_line(readers: Readers, line: Line, session: Session, out: Out) -> None:
    """One line into a session and its readers; what the session does not take, they never see."""
    before = session.as_of_seq
    session.take(line, out)
    if isinstance(line, Event) and session.as_of_seq != before and readers.needs(line):
        readers.take(line, session, out)
