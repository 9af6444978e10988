"""The exact reader: slow, tolerant, and the judge of what the fast one refuses.

A line that can be read at all gives an event whose unreadable fields are None; what cannot is a
Fault with its reason code (``outputs.md``). Bytes that are not UTF-8 are read as U+FFFD.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from operators.events import (
    BadMarker,
    BadSources,
    Event,
    Fault,
    Line,
    Marker,
    SourceList,
    Unknown,
)

from .chunks import packed_event
from .jsontree import TOO_DEEP, JsonError, Node, parse, whole
from .markers import marker_of, read_marker, read_sources, sources_of
from .rows import MALFORMED, NO_QUALITY, Row
from .shapes import EVENTS, PACKED, HeaderRow
from .typed import BAD, coerce, integer

_REPLACED: Final = ("replaced_utf8",)


def read(line: bytes, implicit: int | None) -> Line:
    """The line, whatever it is."""
    digest = xxh3_64_intdigest(line)
    quality = NO_QUALITY
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text, quality = line.decode("utf-8", "replace"), _REPLACED
    try:
        node = parse(text)
        if type(node.value) is not dict:
            return Fault("bad-envelope", "a row is a JSON object", None, digest, quality)
        return _Reader(node, implicit, digest, quality).line()
    except JsonError as error:
        problem = str(error)
    except RecursionError:  # a part is read on a deeper stack than the whole was
        problem = TOO_DEEP
    return Fault("not-utf8" if quality else "not-json", problem, None, digest, quality)


class _Reader:
    """One parsed line on its way to a :data:`operators.events.Line`."""

    def __init__(
        self, node: Node, implicit: int | None, digest: int, quality: tuple[str, ...]
    ) -> None:
        self.node = node
        self.row: dict[str, Any] = node.value
        self.implicit = implicit
        self.digest = digest
        self.quality = quality

    def line(self) -> Line:
        tag = self.row.get("type")
        type_ = whole(tag) if type(tag) is str else ""
        if type_ == "session":
            row = coerce(self.node, HeaderRow)
            line: Line = row.header(self.node.text.encode(), self.digest, self.quality)
            return line
        if type_ in PACKED:
            return self._packed(type_)
        seq = self._seq()
        if seq is None:
            return self._fault("seq-invalid", "seq is no integer from 0 to 2^53 - 1", None)
        if not type_:
            return self._fault("type-invalid", "type is no non-empty string", seq)
        return self._event(type_, seq)

    def _seq(self) -> int | None:
        if "seq" not in self.row:
            return self.implicit
        value = integer(self.row["seq"])
        return value if value is not None and value >= 0 else None

    def _time(self) -> int | None:
        time = integer(self.row.get("time"))
        implied = self.implicit is not None and "seq" not in self.row
        return (time or 0) if implied else time

    def _packed(self, type_: str) -> Line:
        row = coerce(self.node, PACKED[type_])
        event = None if row is BAD else packed_event(row, self.implicit, self.digest)
        if event is None:
            return self._fault("packed-row-invalid", f"malformed {type_} row", None)
        return replace(event, quality=self.quality) if self.quality else event

    def _event(self, type_: str, seq: int) -> Event:
        known = EVENTS.get(type_)
        ignorable = self.row.get("ignorable") is True
        malformed = "ignorable" in self.row and not ignorable
        quality = self.quality + MALFORMED if malformed else self.quality
        at = self._time()
        if known is None and ignorable:
            body = Unknown(True)
            return Event(seq, at, type_, body, None, None, self.digest, quality=quality)
        marker, spelling = self._marker()
        sources, ranges = self._sources()
        if known is None:
            body = Unknown(False)
            return Event(seq, at, type_, body, marker, sources, self.digest, quality=quality)
        row: Row = coerce(self.node, known)
        row.seq = seq
        if isinstance(marker, BadMarker):
            row.surfaceOp = "append"
        name, read, bits = row.read()
        bits |= spelling | ranges
        return Event(seq, at, name, read, marker, sources, self.digest, 1, bits, quality)

    def _marker(self) -> tuple[Marker, int]:
        op = read_marker(self.node.member("surfaceOp"))
        return (op, 0) if isinstance(op, BadMarker) else marker_of(op)

    def _sources(self) -> tuple[SourceList, int]:
        seqs = read_sources(self.node.member("sourceEventSeqs"))
        return (seqs, 0) if isinstance(seqs, BadSources) else sources_of(seqs)

    def _fault(self, reason: str, message: str, seq: int | None) -> Fault:
        return Fault(reason, message, seq, self.digest, self.quality)
