"""Rows as they stand in a page: large bodies by reference (projection.md §8), and made whole again.

A reference is the row's key, a slash and the path within its data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from operators.changes import TranscriptRow
from operators.history import BODY_LIMIT, bounded

from .jsonout import safe


class Paged(Struct, frozen=True, gc=False):
    """``body``: the row with references; ``large``: what they refer to, by path."""

    body: bytes
    large: Mapping[str, bytes]


def paged(row: TranscriptRow) -> Paged:
    body = bytes(bounded(row))
    large = {}
    if row.data is not None and b'"ref":' in body:
        large = {path: safe(text) for path, text in _large(row.data, "")}
    return Paged(safe(body), large)


def _large(data: Struct, prefix: str) -> Iterator[tuple[str, bytes]]:
    for name in data.__struct_fields__:
        value = getattr(data, name)
        if isinstance(value, Struct):
            yield from _large(value, f"{prefix}{name}/")
        elif len(text := msgspec.json.encode(value)) > BODY_LIMIT:
            yield prefix + name, text


def whole(body: bytes, large: Mapping[str, bytes]) -> bytes:
    """A paged row with its references resolved."""
    if not large:
        return body
    row: dict[str, Raw] = msgspec.json.decode(body, type=dict[str, Raw])
    row["data"] = _resolved(row["data"], large, "")
    return msgspec.json.encode(row)


def _resolved(data: Raw, large: Mapping[str, bytes], prefix: str) -> Raw:
    fields: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Raw])
    for path in large:
        name, slash, _ = path.removeprefix(prefix).partition("/")
        if not path.startswith(prefix) or name not in fields:
            continue
        fields[name] = (
            _resolved(fields[name], large, f"{prefix}{name}/") if slash else Raw(large[path])
        )
    return Raw(msgspec.json.encode(fields))
