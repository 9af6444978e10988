"""The token estimate (readers.md §4): about four characters to a token, the reference's numbers.

A heuristic and never a count. Lengths are UTF-16 code units, rounded up block by block. Content is
read from the log's own bytes, once for each message; what is no list of blocks costs nothing.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from .javascript import json_units, json_value, units, value_units

BLOCK: Final = 4  #: a block, besides its text
MESSAGE: Final = 4  #: a message, besides its blocks


class _Block(Struct, gc=False):
    type: str
    text: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: Raw = Raw()


_blocks: Final = msgspec.json.Decoder(list[_Block]).decode
_block: Final = msgspec.json.Decoder(_Block).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode


def quarter(length: int) -> int:
    """⌈length / 4⌉."""
    return (length + 3) >> 2


def text_price(length: int) -> int:
    """A text or reasoning block of that length; a header's system text, too."""
    return quarter(length) + BLOCK


def call_price(name: int, arguments: int) -> int:
    """A tool-call block, by the lengths of its name and its arguments."""
    return quarter(name) + quarter(arguments) + BLOCK


def content_price(content: Raw) -> int:
    """The blocks of a content list."""
    try:
        blocks = _blocks(content)
    except (DecodeError, RecursionError):
        return _exact_content(content)
    total = 0
    others = False
    for block in blocks:
        kind = block.type
        text = block.text
        if text is not None and kind in ("text", "reasoning"):
            length = len(text) if text.isascii() else units(text)
            total += ((length + 3) >> 2) + BLOCK
        elif kind == "tool-call":
            total += call_price(units(block.name or ""), units(block.arguments or ""))
        elif kind == "tool-result" and len(block.content):
            total += content_price(block.content) + BLOCK
        else:
            others = True
    if others:
        total += sum(map(_other, blocks, _raws(content)))
    return total


def _other(block: _Block, raw: Raw) -> int:
    """A block that :func:`content_price` does not know; 0 for one that it does."""
    kind = block.type
    if kind == "tool-call" or (kind in ("text", "reasoning") and block.text is not None):
        return 0
    if kind == "tool-result" and len(block.content):
        return 0
    if b'"offloaded"' in bytes(raw):
        return _value(json_value(raw))
    return text_price(json_units(raw))


def block_price(raw: Raw) -> int:
    """One block by itself."""
    return content_price(Raw(b"[%b]" % bytes(raw)))


def system_price(content: Raw) -> int:
    """A system message: all its characters, no block's overhead; 0 when it says nothing."""
    try:
        length = sum(units(block.text or "") for block in _blocks(content))
    except (DecodeError, RecursionError):
        value = json_value(content)
        texts = [_text_of(block) for block in value] if isinstance(value, list) else []
        length = sum(map(units, texts))
    return text_price(length) if length else 0


def tools_price(tools: Raw) -> int:
    """A header's list of tools, or the token string that stands for it; 0 when empty."""
    length = json_units(tools)
    return text_price(length) if length > 2 else 0


# --- what a strict decoder refuses: halves of characters, fields of other types -------------------


def _exact_content(content: Raw) -> int:
    return _values(json_value(content)) if len(content) else 0


def _values(blocks: Any) -> int:
    return sum(map(_value, blocks)) if isinstance(blocks, list) else 0


def _value(block: Any) -> int:
    """The price of a parsed block."""
    if not isinstance(block, dict):
        return text_price(value_units(block))
    kind, text = block.get("type"), block.get("text")
    if kind in ("text", "reasoning") and isinstance(text, str):
        return text_price(units(text))
    if kind == "tool-call":
        name, arguments = block.get("name"), block.get("arguments")
        return call_price(_length(name), _length(arguments))
    if kind == "tool-result" and "content" in block:
        return _values(block["content"]) + BLOCK
    if kind == "image" and "offloaded" in block:
        block = {key: value for key, value in block.items() if key != "offloaded"}
    return text_price(value_units(block))


def _length(text: Any) -> int:
    return units(text) if isinstance(text, str) else 0


def _text_of(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""
