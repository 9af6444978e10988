"""The identity of a tool result: a digest of its data without the content, by JSON value.

A rewrite may change nothing but the content (projection.md §4), so two results with one identity
may replace one another: numbers as doubles (1 = 1.0), 1 ≠ true, null ≠ missing, key order
irrelevant. The digest is taken of canonical JSON: keys sorted, integral doubles as integers.
Canonical JSON is made in two ways that agree: from a typed value in sorted field order, or
from the exact reader's values.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw
from xxhash import xxh3_64_intdigest

from .jsontree import Number, parse

_LONG_NUMBER: Final = re.compile(rb"[0-9]{16}")
_EXACT: Final = 2.0**53


def digest(canonical: bytes) -> int:
    return xxh3_64_intdigest(canonical)


def canonical_raw(raw: Raw) -> bytes:
    """Opaque JSON in canonical form."""
    if _LONG_NUMBER.search(raw) is None:
        try:
            return _SORTED.encode(_FLOATS.decode(raw))
        except (DecodeError, ValueError, RecursionError):
            pass  # a lone surrogate, a number beyond the doubles, great depth
    return canonical_value(parse(str(raw, "utf-8")).value)


def canonical_value(value: Any) -> bytes:
    """The same, of the exact reader's values."""
    out: list[bytes] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if type(item) is bytes:
            out.append(item)
        elif type(item) is dict:
            out.append(b"{")
            todo.append(b"}")
            for n, key in enumerate(sorted(item, reverse=True), start=1):
                comma = b"," if n < len(item) else b""
                todo += (item[key], comma + _text(key) + b":")
        elif type(item) is list:
            out.append(b"[")
            todo.append(b"]")
            for n, child in enumerate(reversed(item), start=1):
                todo += (child, b"," if n < len(item) else b"")
        else:
            out.append(_scalar(item))
    return b"".join(out)


def _scalar(value: Any) -> bytes:
    if type(value) is not Number:
        return _text(value) if type(value) is str else msgspec.json.encode(value)
    double = float(value)
    if double.is_integer() and abs(double) < _EXACT:
        return b"%d" % int(double)
    if math.isinf(double):
        return b"1e999" if double > 0 else b"-1e999"
    return msgspec.json.encode(double)


def _text(value: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return b'"' + value.encode("utf-8", "surrogatepass") + b'"'


def _double(text: str) -> Any:
    value = float(text)
    if value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if math.isinf(value):
        raise ValueError("beyond the doubles")
    return value


_FLOATS: Final = msgspec.json.Decoder(float_hook=_double)
_SORTED: Final = msgspec.json.Encoder(order="sorted")
