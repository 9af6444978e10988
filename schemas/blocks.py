"""What the fold needs to know of content blocks, sources of tokens and white space.

Blocks are opaque; from inside come only the type, a tool call's id and name, and whether a text is
blank as JavaScript's ``trim`` sees it (readers.md §1).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from msgspec import Raw

from operators.events import Usage

from .typed import Typed, Wire

#: Zs, TAB LF VT FF CR, U+2028, U+2029, U+FEFF; not U+0085, not U+001C to U+001F.
WHITE_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_MAX_TOKENS: Final = 2.0**53


def blank(text: str | None) -> bool:
    """Whether nothing is left of ``text`` after JavaScript's ``trim``."""
    return not text or not text.strip(WHITE_SPACE)


class BlockWire(Wire):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    text: str | None = None


class FactWire(Wire):
    type: str | None = None
    id: str | None = None
    text: str | None = None


class BlockFacts(NamedTuple):
    """Of an assistant message's content (see :class:`operators.events.AssistantMessage`)."""

    empty: bool
    calls: tuple[str, ...]
    has_text: bool
    visible: bool


_BLOCKS: Final = Typed[list[FactWire | None]](list[FactWire | None])
_NO_FACTS: Final = BlockFacts(False, (), False, False)
_EMPTY: Final = BlockFacts(True, (), False, False)


def block_facts(content: Raw) -> BlockFacts:
    """The facts of a content list; of anything else, none."""
    blocks = _BLOCKS.read(content)
    if not blocks:
        return _NO_FACTS if blocks is None else _EMPTY
    calls = []
    has_text = visible = False
    for block in blocks:
        kind = None if block is None else block.type
        if block is None:
            visible = True
        elif kind == "tool-call":
            if block.id is not None:
                calls.append(block.id)
        elif kind == "text":
            if not has_text and not blank(block.text):
                has_text = visible = True
        elif kind != "reasoning" or not (visible or blank(block.text)):
            visible = True
    return BlockFacts(False, tuple(calls), has_text, visible)


def joined_text(blocks: list[BlockWire | None] | None) -> str | None:
    """The text blocks joined without a separator; None if that is blank."""
    text = "".join(b.text or "" for b in blocks or () if b is not None and b.type == "text")
    return None if blank(text) else text


class UsageWire(Wire):
    inputTokens: float | None = None  # noqa: N815
    outputTokens: float | None = None  # noqa: N815
    cacheReadTokens: float | None = None  # noqa: N815
    cacheWriteTokens: float | None = None  # noqa: N815
    reasoningTokens: float | None = None  # noqa: N815


_USAGE: Final = Typed[UsageWire](UsageWire)


def usage_of(raw: Raw | None) -> Usage | None:
    """The buckets of a usage object (projection.md §6); None when it is no object."""
    wire = None if raw is None else _USAGE.read(raw)
    if wire is None:
        return None
    output = wire.outputTokens
    return Usage(
        _tokens(wire.inputTokens),
        _tokens(output),
        _tokens(wire.cacheReadTokens),
        _tokens(wire.cacheWriteTokens),
        _tokens(wire.reasoningTokens),
        output is not None and math.isfinite(output) and output >= 0,
    )


def _tokens(value: float | None) -> int:
    """A count as an integer; one that is beyond every count (or no number) is 0."""
    return int(value) if value is not None and -_MAX_TOKENS < value < _MAX_TOKENS else 0
