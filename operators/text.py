"""JavaScript's idea of white space, and JSON text for blocks gathered from chunks."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import Raw

#: What ``String.prototype.trim`` removes: Unicode Zs, TAB LF VT FF CR, U+2028, U+2029, U+FEFF;
#: not U+0085 and not U+001C to U+001F, which Python's own ``strip`` takes (projection.md §5.1).
JS_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder().encode


def is_blank(text: str) -> bool:
    """Whether nothing is left after JavaScript's ``trim``."""
    return not text.strip(JS_SPACE)


def well_formed(text: str) -> str:
    """``text`` with every unpaired surrogate half as U+FFFD (a string field of ``outputs.md``)."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def pair(text: str) -> str:
    """``text`` with surrogate halves that meet joined into their character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def paired(text: str) -> str:
    """``pair`` for text that hardly ever holds half characters."""
    return text if text.isascii() or not _SURROGATE.search(text) else pair(text)


def to_json(value: Any) -> Raw:
    """JSON of plain values and ``Raw``; unpaired surrogate halves are kept as escapes."""
    try:
        return Raw(_encode(value))
    except UnicodeEncodeError:
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
        return Raw(_SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", text).encode())


def _plain(value: Any) -> Any:
    """``value`` for the slow encoder: a ``Raw`` is embedded by value."""
    if isinstance(value, Raw):
        return json.loads(bytes(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
