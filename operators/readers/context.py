"""How full the context is: metered total, pressure, breakdown (readers.md §5.1).

The reference keeps one running total and believes what a metering event claims of the replacement
right after it; ours is the exact sum over the surface (``prices.py``). Both are kept: where they
part, the log's metering is wrong.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from operators.changes import SurfaceChange
from operators.events import Claim, CompactionSummary, Event, Prune, RequestContext, Usage
from operators.totals import bounded


class AstrayClaim(Exception):  # noqa: N818 - a fact about the log, caught next door
    """A metering event was followed by a replacement of another range."""


class Context(Struct, array_like=True, gc=False):
    """The reference's total, and the three independent facts of the pressure."""

    total: int = 0
    claim: Claim | None = None
    claimed_at: int = -1  #: seq of the event that says so; good for the next one alone
    window: int | None = None
    pressure: int | None = None
    total_then: int = 0  #: the metered total when the pressure was sampled

    def fork(self) -> Context:
        return replace(self)

    # --- one method per kind of event ---------------------------------------------------------

    def request_context(self, body: RequestContext) -> None:
        self.window = body.context_window

    def meter(self, event: Event, body: CompactionSummary | Prune) -> None:
        self.claim, self.claimed_at = body.claim, event.seq

    def sample(self, usage: Usage) -> None:
        """Before the event that brings it joins the surface."""
        prompt = usage.uncached_input + usage.cache_read + usage.cache_write
        self.pressure, self.total_then = bounded(prompt), self.total

    def append(self, tokens: int) -> None:
        self.total += tokens

    def claimed(self, change: SurfaceChange) -> int | None:
        """What the claim in force says of that replacement; None without one, or when it is for
        another range, where the reference gives up."""
        claim, self.claim = self.claim, None
        if claim is None or self.claimed_at + 1 != change.seq:
            return None
        if (claim.start, claim.end) == (change.start, change.end):
            return claim.tokens
        raise AstrayClaim

    def replace(self, tokens: int, claimed: int | None) -> None:
        if claimed is not None:
            self.total += tokens - claimed

    @property
    def projected(self) -> int | None:
        """The prompt to come: pressure and what the surface grew by since, at least 0."""
        if self.pressure is None:
            return None
        return max(0, self.pressure + self.total - self.total_then)


class V4Total:
    """The metered total of the reference's v4 release, which knows what system nodes cost. Only
    beside a golden log: a figure for comparison, kept in no worker."""

    __slots__ = ("systems", "total")

    def __init__(self) -> None:
        self.total = 0
        self.systems: dict[int, int] = {}  # by seq, in log order

    def append(self, seq: int, tokens: int, is_system: bool) -> None:
        self.total += tokens
        if is_system:
            self.systems[seq] = tokens

    def replace(
        self, change: SurfaceChange, tokens: int, claimed: int | None, is_system: bool
    ) -> None:
        if claimed is not None:
            self.total = max(0, self.total + tokens - claimed)
        elif len(change.shadowed) == 1 and change.shadowed[0] in self.systems:
            self.total = max(0, self.total + tokens - self.systems[change.shadowed[0]])
        else:
            return
        for seq in change.shadowed:
            self.systems.pop(seq, None)
        if is_system:
            self.systems[change.seq] = tokens

    @property
    def system(self) -> int:
        """The price of the newest system node that says something."""
        return next((tokens for tokens in reversed(self.systems.values()) if tokens), 0)
