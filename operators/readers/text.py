"""Text as the readers see it: JavaScript's trim, sizes in UTF-8, what makes a line of a title
clean, JSON as JavaScript writes it (readers.md §1, §6, §8)."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

from operators.text import JS_SPACE

_RUN = re.compile(f"[{JS_SPACE}]+")
_HALF = re.compile("[\ud800-\udfff]")

#: Sequences that steer a terminal, and characters that show nothing or turn the writing around;
#: TAB, LF and CR stay, they are white space. Removed one after the other.
_UNSEEN = (
    re.compile("(?:\x1b\\]|\x9d).*?(?:\x07|\x1b\\\\|\x9c|\\Z)", re.DOTALL),  # OSC, with its text
    re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"),  # CSI
    re.compile("\x1b[@-_]"),
    re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"),
    re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"),
)


def trimmed(text: str) -> str:
    return text.strip(JS_SPACE)


def spaced(text: str) -> str:
    """``text`` with every run of white space as one blank."""
    return _RUN.sub(" ", text)


def clean(text: str) -> str:
    """``text`` as one line without anything that steers or hides (§6, *cleaning*)."""
    for pattern in _UNSEEN:
        text = pattern.sub("", text)
    return trimmed(spaced(text))


def encoded(text: str) -> bytes:
    """UTF-8; an unpaired surrogate half is U+FFFD, three bytes."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _HALF.sub("\ufffd", text).encode()


def head(data: bytes, size: int) -> bytes:
    """The first ``size`` bytes of UTF-8, cut back to a whole character."""
    if size >= len(data):
        return data
    while size > 0 and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]


def tail(data: bytes, size: int) -> bytes:
    """The last ``size`` bytes, cut back to a whole character."""
    at = max(0, len(data) - size)
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return data[at:]


def js_json(value: Any) -> str:
    """Compact JSON with nothing but surrogate halves escaped beyond need, as JavaScript writes
    strings, whole numbers and null."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _HALF.sub(lambda half: f"\\u{ord(half.group()):04x}", text)


def plain(raw: Raw) -> Any:
    """Opaque JSON as plain values; None for what nothing can read (too deep, digits without end).
    Never raises."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError):
        return None


def blocks(content: Raw) -> list[dict[str, Any]]:
    """The blocks of a content list, those alone that are objects."""
    found = plain(content)
    if not isinstance(found, list):
        return []
    return [block for block in found if isinstance(block, dict)]


def texts(content: Raw) -> list[str]:
    """The texts of its text blocks."""
    return [
        text
        for block in blocks(content)
        if block.get("type") == "text" and isinstance(text := block.get("text"), str)
    ]


# --- case ---------------------------------------------------------------------------------


def folded(text: str) -> str:
    """``text`` by Unicode's *simple* case folding: no character becomes two (``ß`` stays)."""
    if text.isascii():
        return text.lower()
    parts = _growing().split(text)
    parts[::2] = [part.casefold() for part in parts[::2]]
    parts[1::2] = [_simple(part) for part in parts[1::2]]
    return "".join(parts)


def _simple(char: str) -> str:
    lower = char.lower()
    return lower if len(lower) == 1 else char


@cache
def _growing() -> re.Pattern[str]:
    """The characters that *full* folding makes longer; there are about a hundred, all of them
    below U+FB20."""
    return re.compile(
        f"([{''.join(c for c in map(chr, range(0x80, 0xFB20)) if len(c.casefold()) > 1)}])"
    )
