"""The fast reader: one typed pass over a line that is as it should be.

It answers only for lines it is sure of; anything else is None, and the exact reader's. Both make
events of the same row types, so what this one accepts means what it means there
(``tests/schemas/test_inbound.py`` holds them together).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Union, cast

import msgspec
from msgspec import UNSET, DecodeError
from xxhash import xxh3_64_intdigest

from operators.events import Event, Line, Unknown

from .chunks import PackedRow, packed_event
from .jsontree import MAX_DEPTH
from .markers import marker_of, marker_shape, sources_of
from .rows import MALFORMED, NO_QUALITY, OpenRow, Row
from .shapes import EVENTS, PACKED, AnyRow, HeaderRow
from .shapes_results import ClosedResultRow

_EVENTS: Final = EVENTS | {"tool/result": ClosedResultRow}
_ROWS: Any = Union[(HeaderRow, *PACKED.values(), *_EVENTS.values())]
_decode: Final[Callable[[bytes], AnyRow]] = msgspec.json.Decoder(_ROWS).decode
_decode_open: Final = msgspec.json.Decoder(OpenRow).decode
_OTHERS: Final = frozenset((HeaderRow, *PACKED.values()))
_KNOWN: Final = frozenset(("session", *PACKED, *EVENTS))


def read(line: bytes, implicit: int | None) -> Line | None:
    """The line's event or header; None when the exact reader has to decide."""
    if not (line.isascii() or _is_utf8(line)):
        return None
    # A line of that many levels needs an opening and a closing bracket for each.
    if len(line) > 2 * MAX_DEPTH and line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        return None
    try:
        row = _decode(line)
        digest = xxh3_64_intdigest(line)
        if type(row) not in _OTHERS:
            return _event(cast(Row, row), implicit, digest)
    except (DecodeError, RecursionError):
        return _read_unknown(line, implicit)
    if isinstance(row, PackedRow):
        return packed_event(row, implicit, digest)
    return cast(HeaderRow, row).header(line.strip(), digest, NO_QUALITY)


def _event(row: Row, implicit: int | None, digest: int) -> Event | None:
    seq, time = row.seq, row.time
    if seq is UNSET:
        if implicit is None:
            return None
        row.seq = seq = implicit
        time = 0 if time is UNSET else time
    at = None if time is UNSET else time
    if row.surfaceOp is UNSET and row.sourceEventSeqs is UNSET and row.ignorable is UNSET:
        type_, body, bits = row.read()
        return Event(seq, at, type_, body, None, None, digest, 1, bits)
    marker = marker_of(row.surfaceOp)
    sources, ranges = sources_of(row.sourceEventSeqs)
    type_, body, bits = row.read()
    bits |= ranges | marker_shape(row.surfaceOp)
    quality = MALFORMED if row.ignorable is False else NO_QUALITY
    return Event(seq, at, type_, body, marker, sources, digest, 1, bits, quality)


def _read_unknown(line: bytes, implicit: int | None) -> Event | None:
    """An unknown type is no reason to be slow."""
    try:
        row = _decode_open(line)
    except (DecodeError, RecursionError):
        return None
    if row.type in _KNOWN or not row.type:
        return None
    seq, time = row.seq, row.time
    if seq is UNSET:
        if implicit is None:
            return None
        seq, time = implicit, 0 if time is UNSET else time
    at = None if time is UNSET else time
    digest = xxh3_64_intdigest(line)
    if row.ignorable is True:
        return Event(seq, at, row.type, Unknown(True), None, None, digest)
    marker = marker_of(row.surfaceOp)
    sources, _ = sources_of(row.sourceEventSeqs)
    quality = MALFORMED if row.ignorable is False else NO_QUALITY
    return Event(seq, at, row.type, Unknown(False), marker, sources, digest, 1, 0, quality)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
