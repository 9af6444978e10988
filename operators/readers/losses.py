"""Where context was lost: what a prompt cache can keep over a change, and what it cannot.

A provider's cache holds a prompt's prefix. What stands before the first changed message can be
kept; everything behind it has to be read again, by whatever cause it changed. Tokens are estimates
(readers.md §4), those of the prompt as it was before the change.
"""

from __future__ import annotations

from immutables import Map
from msgspec import Struct

from operators.changes import SurfaceChange
from operators.events import (
    AssistantMessage,
    CompactionSummary,
    DeveloperMessage,
    Event,
    Prune,
    SystemMessage,
    ToolResult,
    UserMessage,
)
from operators.totals import bounded

COMPACTION = "compaction"
PRUNE = "prune"
REGENERATE = "regenerate"
HEADER = "header"
IMAGES = "images"  #: offloaded images
OTHER = "other"  #: a user message that neither compacts nor is metered as a prune
CAUSES = (COMPACTION, PRUNE, REGENERATE, HEADER, IMAGES, OTHER)


class Break(Struct, frozen=True, array_like=True, gc=False):
    """One change behind which nothing cached is of use: ``prefix`` messages of ``prefix_tokens``
    stand unchanged before it, ``invalidated`` tokens stood behind."""

    seq: int
    cause: str
    prefix: int
    prefix_tokens: int
    invalidated: int


class Lost(Struct, frozen=True, array_like=True, gc=False):
    breaks: int = 0
    tokens: int = 0


class Saved(Struct, array_like=True, gc=False):
    sums: list[tuple[str, Lost]]
    last: Break | None
    pruned: int | None


class Losses:
    """Sums by cause, and the newest break."""

    __slots__ = ("last", "pruned", "sums")

    def __init__(self) -> None:
        self.sums: Map[str, Lost] = Map()
        self.last: Break | None = None
        self.pruned: int | None = None  # seq of the newest metered prune

    def fork(self) -> Losses:
        twin = Losses.__new__(Losses)
        twin.sums, twin.last, twin.pruned = self.sums, self.last, self.pruned
        return twin

    def saved(self) -> Saved:
        return Saved(sorted(self.sums.items()), self.last, self.pruned)

    @classmethod
    def restored(cls, saved: Saved) -> Losses:
        made = cls()
        made.sums, made.last, made.pruned = Map(saved.sums), saved.last, saved.pruned
        return made

    def meter(self, event: Event, body: CompactionSummary | Prune) -> None:
        self.pruned = event.seq if isinstance(body, Prune) else None

    def take(self, found: Break) -> None:
        held = self.sums.get(found.cause, Lost())
        lost = Lost(held.breaks + 1, bounded(held.tokens + found.invalidated))
        self.sums, self.last = self.sums.set(found.cause, lost), found

    def cause(self, event: Event, change: SurfaceChange) -> str:
        """Why a replacement happened, by what came in the place of what."""
        body = event.body
        if isinstance(body, UserMessage) and body.source.checkpoint is not None:
            return COMPACTION
        if isinstance(body, SystemMessage | DeveloperMessage):
            return HEADER
        if isinstance(body, ToolResult) or self.pruned == change.seq - 1:
            return PRUNE
        return REGENERATE if isinstance(body, AssistantMessage) else OTHER
