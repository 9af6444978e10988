"""What the headers of an input record say beside its line: its log's generation, and whether it is
sent again out of the dead letters (streams.md §2, *Parking*).

``epoch``: a decimal number, 0 without one. ``replay``: where the record stood first, as
``TOPIC/PARTITION/OFFSET``; ``skip``: it is given up; ``through``: with the last record of a replay,
where the last of all that were sent again stood first. The last header of a name counts.
"""

from __future__ import annotations

import re

from msgspec import Struct

from operators.parking import Mark

from . import limits
from .ports import Headers, InRecord

EPOCH, REPLAY, SKIP, THROUGH = "epoch", "replay", "skip", "through"
OF_A_REPLAY = (REPLAY, SKIP, THROUGH)
_OURS = frozenset((EPOCH, *OF_A_REPLAY))
_PLACE = re.compile(r"([A-Za-z0-9._-]{1,249})/([0-9]{1,10})/([0-9]{1,19})")


class Place(Struct, frozen=True, order=True):
    """Coordinates of a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


def place_of(record: InRecord) -> Place:
    return Place(record.topic, record.partition, record.offset)


def parse_place(text: str) -> Place | None:
    """The place in ``TOPIC/PARTITION/OFFSET``, None if it is none."""
    found = _PLACE.fullmatch(text)
    return Place(found[1], int(found[2]), int(found[3])) if found else None


class EnvelopeError(ValueError):
    """A header that cannot be read; the message says which one and how it should be."""


def read_envelope(record: InRecord) -> tuple[int, Mark | None]:
    """The epoch, and the mark of a record that is sent again. Raises `EnvelopeError`."""
    found = {name: value for name, value in record.headers if name in _OURS}
    epoch = _epoch(found[EPOCH]) if EPOCH in found else 0
    return epoch, _mark(record, found) if REPLAY in found else None


def _epoch(value: bytes | None) -> int:
    if value is not None and value.isdigit() and len(value) <= 20:
        epoch = int(value)
        if epoch <= limits.MAX_EPOCH:
            return epoch
    raise EnvelopeError("the header `epoch` is no decimal number from 0 to 2^31 - 1")


def _mark(record: InRecord, found: dict[str, bytes | None]) -> Mark:
    first = _place(record, REPLAY, found[REPLAY])
    through = _place(record, THROUGH, found[THROUGH]) if THROUGH in found else -1
    return Mark(first, True, SKIP in found, through)


def _place(record: InRecord, name: str, value: bytes | None) -> int:
    """The offset of a place before the record, in its own partition; a copy of the topic may have
    another name."""
    place = parse_place((value or b"").decode("utf-8", "replace"))
    if place and place.partition == record.partition and place.offset < record.offset:
        return place.offset
    before = f"{record.topic}/{record.partition}/OFFSET"
    raise EnvelopeError(f"the header `{name}` is no place before the record: {before}")


def first_place(record: InRecord) -> Place:
    """Where a record that is perhaps sent again stood first."""
    try:
        _, mark = read_envelope(record)
    except EnvelopeError:
        mark = None
    return place_of(record) if mark is None else Place(record.topic, record.partition, mark.at)


def original(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers without those of a replay."""
    return [(name, value) for name, value in headers if name not in OF_A_REPLAY]
