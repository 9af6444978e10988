"""What the fold needs to know of content blocks, sources of tokens and white space.

Blocks are opaque; from inside come only the type, a tool call's id and name, and whether a text is
blank as JavaScript's ``trim`` sees it (readers.md §1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType

from operators.events import Usage

from .jsontree import Number, parse
from .typed import Safe, Wire, typed

#: Zs, TAB LF VT FF CR, U+2028, U+2029, U+FEFF; not U+0085, not U+001C to U+001F.
WHITE_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_MAX_TOKENS: Final = 2.0**53


def blank(text: str | None) -> bool:
    """Whether nothing is left of ``text`` after JavaScript's ``trim``."""
    return not text or not ("!" <= text[0] <= "~" or text.strip(WHITE_SPACE))


class BlockWire(Wire):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    text: str | None = None


class FactWire(Wire):
    type: str | None = None
    id: str | None = None
    text: str | None = None


#: (empty, calls, has_text, visible) of an assistant message's content, as
#: :class:`operators.events.AssistantMessage` has them.
BlockFacts: TypeAlias = tuple[bool, tuple[str, ...], bool, bool]

_BLOCKS: Final[Callable[[Raw], list[FactWire | None] | None]] = typed(list[FactWire | None])
_NO_FACTS: Final = (False, (), False, False)
_EMPTY: Final = (True, (), False, False)


def block_facts(content: Raw) -> BlockFacts:
    """The facts of a content list; of anything else, none."""
    blocks = _BLOCKS(content)
    if not blocks:
        return _NO_FACTS if blocks is None else _EMPTY
    calls = []
    has_text = visible = False
    for block in blocks:
        if block is None:
            visible = True
            continue
        kind = block.type
        if kind == "tool-call":
            if block.id is not None:
                calls.append(block.id)
        elif kind == "text":
            if not has_text and not blank(block.text):
                has_text = visible = True
        elif kind != "reasoning" or not (visible or blank(block.text)):
            visible = True
    return False, tuple(calls), has_text, visible


def joined_text(blocks: list[BlockWire | None] | None) -> str | None:
    """The text blocks joined without a separator; None if that is blank."""
    text = "".join(b.text or "" for b in blocks or () if b is not None and b.type == "text")
    return None if blank(text) else text


class UsageWire(Wire):
    inputTokens: Safe = 0  # noqa: N815
    outputTokens: Safe | UnsetType = UNSET  # noqa: N815
    cacheReadTokens: Safe = 0  # noqa: N815
    cacheWriteTokens: Safe = 0  # noqa: N815
    reasoningTokens: Safe = 0  # noqa: N815


_decode_usage: Final = msgspec.json.Decoder(UsageWire).decode
_BUCKETS: Final = (
    "inputTokens",
    "outputTokens",
    "cacheReadTokens",
    "cacheWriteTokens",
    "reasoningTokens",
)


def usage_of(raw: Raw | None) -> Usage | None:
    """The buckets of a usage object (projection.md §6); None when it is no object."""
    if raw is None:
        return None
    try:
        wire = _decode_usage(raw)
    except (DecodeError, RecursionError):
        return _usage_by_value(parse(str(raw, "utf-8")).value)
    output = wire.outputTokens
    reported = output is not UNSET and output >= 0
    return Usage(
        wire.inputTokens,
        0 if output is UNSET else output,
        wire.cacheReadTokens,
        wire.cacheWriteTokens,
        wire.reasoningTokens,
        reported,
    )


def _usage_by_value(value: Any) -> Usage | None:
    """The same of any object: a bucket that is no number, or beyond every count, is 0."""
    if type(value) is not dict:
        return None
    numbers = [float(value[b]) if type(value.get(b)) is Number else None for b in _BUCKETS]
    uncached, output, read, write, reasoning = (
        int(n) if n is not None and abs(n) < _MAX_TOKENS else 0 for n in numbers
    )
    said = numbers[1]
    reported = said is not None and math.isfinite(said) and said >= 0
    return Usage(uncached, output, read, write, reasoning, reported)
