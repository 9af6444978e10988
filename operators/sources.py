"""The source list of a surface event: what it must cite, and what it may not (projection.md §4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from msgspec import Struct

from .events import AssistantMessage, BadSources, Event, Sources


class Refusal(Struct, frozen=True, gc=False):
    reason: str
    message: str


EMPTY = Refusal("sources-empty", "sourceEventSeqs is empty")


def check_sources(event: Event) -> Refusal | None:
    """The source list by itself: shape, emptiness, order in the log."""
    sources = event.sources
    if isinstance(sources, BadSources):
        return Refusal(sources.reason, sources.message)
    if sources is None:
        return None
    # an assistant message may say that it has no chunks; a replacement then misses what it shadows
    if not sources.count and not isinstance(event.body, AssistantMessage):
        return EMPTY
    if sources.highest >= event.seq:
        return Refusal("sources-not-earlier", f"source {sources.highest} is not earlier")
    return None


def cited(sources: Sources | BadSources | None) -> Callable[[int], bool]:
    """Whether a seq is among the sources: O(log ranges) a question."""
    ranges = sorted(sources.ranges) if isinstance(sources, Sources) else []

    def cites(seq: int) -> bool:
        at = bisect_right(ranges, seq, key=lambda pair: pair[0]) - 1
        return at >= 0 and seq <= ranges[at][1]

    return cites


def uncited(seqs: list[int], sources: Sources | BadSources | None) -> list[int]:
    cites = cited(sources)
    return [seq for seq in seqs if not cites(seq)]


def missing(seqs: list[int]) -> Refusal:
    return Refusal("sources-missing-shadowed", f"shadowed node {seqs[0]} is not cited")
