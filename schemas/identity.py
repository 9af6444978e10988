"""The identity of a tool result: a digest of its data without the content, by JSON value.

A rewrite may change nothing but the content (projection.md §4), so two results with one identity
may replace one another: numbers as doubles (1 = 1.0), 1 ≠ true, null ≠ missing, key order
irrelevant. The digest is taken of canonical JSON: keys sorted, integral doubles as integers.
Canonical JSON is made in two ways that agree: from a typed value in sorted field order, or
from the exact reader's tree.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import DecodeError, Raw
from xxhash import xxh3_64_intdigest

from .jsontree import Node, parse, unquote

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
    return canonical_tree(parse(str(raw, "utf-8")))


def canonical_tree(node: Node) -> bytes:
    """The same, from a tree."""
    out: list[bytes] = []
    todo: list[Node | bytes] = [node]
    while todo:
        item = todo.pop()
        if isinstance(item, bytes):
            out.append(item)
        elif item.kind == "object":
            out.append(b"{")
            todo.append(b"}")
            for n, key in enumerate(sorted(item.members, reverse=True), start=1):
                comma = b"," if n < len(item.members) else b""
                todo += (item.members[key], comma + _text(key) + b":")
        elif item.kind == "array":
            out.append(b"[")
            todo.append(b"]")
            for n, child in enumerate(reversed(item.items), start=1):
                todo += (child, b"," if n < len(item.items) else b"")
        else:
            out.append(_scalar(item))
    return b"".join(out)


def _scalar(node: Node) -> bytes:
    if node.kind == "string":
        return _text(unquote(node.text))
    if node.kind == "word":
        return node.text.encode()
    value = float(node.text)
    if value.is_integer() and abs(value) < _EXACT:
        return b"%d" % int(value)
    if value in (float("inf"), float("-inf")):
        return b"1e999" if value > 0 else b"-1e999"
    return msgspec.json.encode(value)


def _text(value: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return b'"' + value.encode("utf-8", "surrogatepass") + b'"'


def _double(text: str) -> Any:
    value = float(text)
    if value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if value in (float("inf"), float("-inf")):
        raise ValueError("beyond the doubles")
    return value


_FLOATS: Final = msgspec.json.Decoder(float_hook=_double)
_SORTED: Final = msgspec.json.Encoder(order="sorted")
