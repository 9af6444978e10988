"""All that the readers of one session keep: the figures, and the small projections.

A room of the session like the others (``operators/rooms.py``): few events enter it, so a copy of
the session shares it until one does, and then it shares all but the parts that are entered. What
each event does here is ``handlers.py``.

No reader raises, whatever a log holds: it keeps its last good value and names a quality fact. A
fork's child counts only its own: ``cut`` makes the sums start anew where the session's own totals
do (projection.md §6); the context is inherited, so prices and pressure stay.
"""

from __future__ import annotations

from typing import cast

from .context import Context, V4Total
from .held import Parts
from .losses import Break, Losses
from .measure import Measure, ReadStream
from .prices import Systems
from .projections import Projections
from .request import NO_HEADER, HeaderFacts
from .statistics import Statistics
from .usage import Billing, TokenUsage

STATISTICS, TOKENS, BILLING, CONTEXT, LOSSES, HEADER, SYSTEMS, SMALL = range(8)
_SUMS = (STATISTICS, TOKENS, BILLING, LOSSES)


class Readers(Parts):
    """The readers of one session."""

    __slots__ = ("breaks", "measure", "read_header", "v4")
    MAKERS = (
        *(Statistics, TokenUsage, Billing, Context, Losses),
        *(lambda: NO_HEADER, Systems, Projections),
    )

    def __init__(self, read_stream: ReadStream | None = None) -> None:
        """With ``read_stream`` (a file's reader: ``schemas.streams.timed``) the figures that need
        bodies are kept as well: ``measure``, every single break, the v4 release's total. Such
        readers are never copied or saved."""
        super().__init__()
        self.read_header: int | None = None  # hash of the bytes that HEADER was read from
        self.measure = None if read_stream is None else Measure(read_stream)
        self.v4 = None if read_stream is None else V4Total()
        self.breaks: list[Break] | None = None if read_stream is None else []

    def fork(self) -> Readers:
        twin = super().fork()
        twin.read_header = self.read_header
        twin.measure, twin.v4, twin.breaks = self.measure, self.v4, self.breaks
        return twin

    def cut(self) -> None:
        """A fork's own part begins here."""
        for number in _SUMS:
            self.put(number, None)
        self.enter(SMALL).cut()

    # --- only to be read ----------------------------------------------------------------------

    @property
    def statistics(self) -> Statistics:
        return self.rooms[STATISTICS] or Statistics()

    @property
    def tokens(self) -> TokenUsage:
        return cast(TokenUsage, self.peek(TOKENS))

    @property
    def billing(self) -> Billing:
        return cast(Billing, self.peek(BILLING))

    @property
    def context(self) -> Context:
        return cast(Context, self.peek(CONTEXT))

    @property
    def losses(self) -> Losses:
        return cast(Losses, self.peek(LOSSES))

    @property
    def header(self) -> HeaderFacts | None:
        """The request header in force; None: the log has none yet."""
        header: HeaderFacts = self.peek(HEADER)
        return None if header is NO_HEADER else header

    @property
    def systems(self) -> Systems:
        return cast(Systems, self.peek(SYSTEMS))

    @property
    def small(self) -> Projections:
        return cast(Projections, self.peek(SMALL))

    # --- what a snapshot saves by segments ----------------------------------------------------

    def context_marks(self) -> tuple[set[int], ...]:
        """Which segments of living contexts changed since they were saved."""
        small: Projections | None = self.rooms[SMALL]
        return () if small is None else (small.contexts.dirty,)

    @property
    def own_small(self) -> Projections:
        return cast(Projections, self.enter(SMALL))
