"""A place in the log, as clients carry it: opaque base64url (streams.md §4).

A cursor is exclusive: whoever holds it has everything below its offsets, of the sessions and in the
epochs that it names. The offsets are Kafka's, so any gateway over the same topics resumes it.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from .changes import Offsets

MAX_CHARACTERS = 16_384  #: of a cursor; as a header it shares 64 KiB with others

_Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Position(Struct, frozen=True):
    """``log``: which very topics the offsets are of; ``offsets``: per place the next to read;
    ``epochs``: of every session that is held up to there."""

    log: str
    offsets: Offsets
    epochs: Mapping[str, int]


class Malformed(Struct, frozen=True):
    """Not a cursor of ours; ``why`` in words."""

    why: str


class _Written(Struct, frozen=True, array_like=True):
    version: int
    log: str
    offsets: dict[str, dict[_Natural, _Natural]]
    epochs: dict[str, _Natural]


_VERSION = 1
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Written).decode


def to_text(position: Position) -> str:
    """Equal positions give equal text."""
    offsets: dict[str, dict[int, int]] = {}
    for (role, partition), offset in sorted(position.offsets.items()):
        offsets.setdefault(role, {})[partition] = offset
    written = _Written(_VERSION, position.log, offsets, dict(sorted(position.epochs.items())))
    return urlsafe_b64encode(_encode(written)).rstrip(b"=").decode()


def parse(text: str) -> Position | Malformed:
    """The position that `to_text` wrote. Never raises."""
    if len(text) > MAX_CHARACTERS:
        return Malformed(f"longer than {MAX_CHARACTERS} characters")
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        written = _decode(b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, msgspec.MsgspecError):
        return Malformed("it was not made by this service, or was cut")
    if written.version != _VERSION:
        return Malformed(f"of version {written.version}, known is {_VERSION}")
    offsets = {
        (role, partition): offset
        for role, partitions in written.offsets.items()
        for partition, offset in partitions.items()
    }
    return Position(written.log, offsets, written.epochs)
