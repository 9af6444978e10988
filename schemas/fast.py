"""The fast reader: one typed pass over a line that is as it should be.

It answers only for lines it is sure of; anything else is None, and the exact reader's. Both make
events of the same row types, so what this one accepts means what it means there
(``tests/schemas/test_inbound.py`` holds them together).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Union

import msgspec
from msgspec import UNSET, DecodeError
from xxhash import xxh3_64_intdigest

from operators.events import APPEND, BadMarker, Event, Line, Marker, SourceList, Unknown

from .chunks import PackedRow, packed_event
from .jsontree import MAX_DEPTH
from .markers import marker_of, sources_of
from .rows import MALFORMED, NO_QUALITY, OpenRow, Row
from .shapes import EVENTS, PACKED, HeaderRow
from .shapes_results import ClosedResultRow

_EVENTS: Final = EVENTS | {"tool/result": ClosedResultRow}
_ROWS: Any = Union[(HeaderRow, *PACKED.values(), *_EVENTS.values())]
_decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder(_ROWS).decode
_decode_open: Final = msgspec.json.Decoder(OpenRow).decode
_DEEP: Final = 2 * MAX_DEPTH
_OTHERS: Final = frozenset((HeaderRow, *PACKED.values()))
_KNOWN: Final = frozenset(("session", *PACKED, *EVENTS))


def read(line: bytes, implicit: int | None) -> Line | None:
    """The line's event or header; None when the exact reader has to decide."""
    if not (line.isascii() or _is_utf8(line)):
        return None
    # A line of that many levels needs an opening and a closing bracket for each.
    if len(line) > _DEEP and line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        return None
    try:
        row = _decode(line)
        if row.__class__ in _OTHERS:
            return _other(row, line, implicit)
        seq = row.seq
        if not (row.surfaceOp is row.sourceEventSeqs is row.ignorable is UNSET) or seq is UNSET:
            return _event(row, line, implicit)
        type_, body, bits = row.read()
    except (DecodeError, RecursionError):
        return _unknown(line, implicit)
    return Event(seq, row.time, type_, body, None, None, xxh3_64_intdigest(line), 1, bits)


def _event(row: Row, line: bytes, implicit: int | None) -> Event | None:
    """An event whose envelope holds more than seq and time, or less."""
    seq, time = row.seq, row.time
    if seq is UNSET:
        if implicit is None:
            return None
        row.seq = seq = implicit
        time = time or 0
    op, seqs = row.surfaceOp, row.sourceEventSeqs
    marker: Marker = APPEND
    spelling = 0
    if op != "append":
        marker, spelling = marker_of(op)
        if type(marker) is BadMarker:
            row.surfaceOp = "append"  # as Row.read wants it
    type_, body, bits = row.read()
    bits |= spelling
    sources: SourceList = None
    if seqs is not UNSET:
        sources, ranges = sources_of(seqs)
        bits |= ranges
    quality = MALFORMED if row.ignorable is False else NO_QUALITY
    digest = xxh3_64_intdigest(line)
    return Event(seq, time, type_, body, marker, sources, digest, 1, bits, quality)


def _other(row: PackedRow | HeaderRow, line: bytes, implicit: int | None) -> Line | None:
    digest = xxh3_64_intdigest(line)
    if isinstance(row, PackedRow):
        return packed_event(row, implicit, digest)
    return row.header(line.strip(), digest, NO_QUALITY)


def _unknown(line: bytes, implicit: int | None) -> Event | None:
    """An unknown type is no reason to be slow."""
    try:
        row = _decode_open(line)
    except (DecodeError, RecursionError):
        return None
    seq, time = row.seq, row.time
    if row.type in _KNOWN or not row.type:
        return None
    if seq is UNSET:
        if implicit is None:
            return None
        seq, time = implicit, time or 0
    digest = xxh3_64_intdigest(line)
    if row.ignorable is True:
        return Event(seq, time, row.type, Unknown(True), None, None, digest)
    marker, _ = marker_of(row.surfaceOp)
    sources, _ = sources_of(row.sourceEventSeqs)
    quality = MALFORMED if row.ignorable is False else NO_QUALITY
    return Event(seq, time, row.type, Unknown(False), marker, sources, digest, 1, 0, quality)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
