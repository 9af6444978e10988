"""How far a snapshot has come in its log, read without loading it.

The head of a snapshot (``snapshot_head.py``) says which seq is next and holds the digests of the
last lines; that is all that a sender of lines needs in order to go on.
"""

from __future__ import annotations

from operator import attrgetter

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import Decoder, Encoder
from xxhash import xxh3_64_intdigest

from operators.events import Header
from operators.rooms import Parked

from .snapshot_head import VERSION, SavedHeader


class Place(Struct, frozen=True):
    """``next_seq`` of the log of that ``epoch``. ``header``: the `header_digest` of its header, and
    ``last`` the digest of the last line that took a seq, None if there is none. ``parked``: the
    place in the input from which on nothing was folded (streams.md §2)."""

    epoch: int
    next_seq: int
    header: int | None
    last: int | None
    parked: int | None


class _Head(Struct, frozen=True):
    version: int
    next_seq: int
    epoch: int = 0
    digests: bytes = b""
    header: SavedHeader | None = None
    parked: Parked | None = None


_decode = Decoder(_Head).decode
_encode = Encoder().encode
_facts = attrgetter(*SavedHeader.__struct_fields__)


def place_of(head: bytes) -> Place | None:
    """The place that a head tells; None for one that cannot be read by itself: it is newer than
    this program, or only the first part of a long one."""
    try:
        found = _decode(head)
    except (DecodeError, ValidationError):
        return None
    if found.version > VERSION:
        return None
    return Place(
        found.epoch,
        found.next_seq,
        None if found.header is None else _digest(found.header),
        int.from_bytes(found.digests[-8:], "little") if found.digests else None,
        None if found.parked is None else found.parked.since,
    )


def header_digest(header: Header) -> int:
    """One number for all that a snapshot keeps of a header: another log has another one."""
    return _digest(header)


def _digest(header: Header | SavedHeader) -> int:
    return xxh3_64_intdigest(_encode(_facts(header)))
