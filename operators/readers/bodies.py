"""Events as readers need them: what the session's own rooms do without, beside what they take.

Each is the body that the rooms know, with more of the log's data; who reads a log makes these, and
whoever asks for the plain body gets one.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from operators.events import (
    EMPTY_LIST,
    NULL,
    CompactionSummary,
    LogOnly,
    OtherChunk,
    RequestHeader,
    Stream,
)


class Claim(Struct, frozen=True, array_like=True, gc=False):
    """What a metering event says that the nodes from ``start`` to ``end`` cost together."""

    start: int
    end: int
    tokens: int


class Header(RequestHeader, frozen=True, gc=False):
    """``raw``: the header as logged."""

    raw: Raw = NULL


class Summary(CompactionSummary, frozen=True, kw_only=True, gc=False):
    """``claim`` needs both ends of ``shadowedRange`` and ``shadowedTokenCount``, seqs and a count
    from 0; ``asked_provider`` and ``asked_model``: whom the summary was asked of."""

    claim: Claim | None = None
    asked_provider: str | None = None
    asked_model: str | None = None


class Prune(LogOnly, frozen=True, gc=False):
    """``compaction/prune``: metering of the replacement right after it."""

    claim: Claim | None = None


class WholeStream(Stream, frozen=True, gc=False):
    """``raw``: the embedded stream, not read."""

    raw: Raw = EMPTY_LIST


class Finish(OtherChunk, frozen=True, gc=False):
    """``cut_short``: the answer reached its most tokens."""

    cut_short: bool = False
