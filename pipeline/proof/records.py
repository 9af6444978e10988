"""Records as digests, and what a difference says of itself.

A *record's digest* is XXH3-128 over its key, value and headers, each with its length. A *chain* is
the digest of a sequence: the 16 bytes of what came before and of the record, hashed again. Offset,
timestamp and partition are part of neither.
"""

from __future__ import annotations

from functools import cache

import xxhash
from msgspec import Struct

from operators.changes import TranscriptRow
from pipeline.ports import Headers, InRecord, OutRecord
from schemas.codec import decode_change
from schemas.errors import ReadError
from schemas.outbound import KEY_SEPARATOR, encode

NOTHING = b""  #: the chain of no record
LASTS = ("transcript", "overview")  #: roles of which the last record of a key counts

_hash = xxhash.xxh3_128_digest


class Mismatch(Struct, frozen=True):
    """Where a topic and the fresh fold part. ``offset`` None: a record that should be there and is
    not; ``seq`` is the event the record in question comes from, as far as it says. ``field`` is the
    first part of the record that differs, as decoded (``data.content``, ``header seq``, ``value``),
    with what the topic has (``found``) and what the fold gives (``expected``)."""

    topic: str
    partition: int
    offset: int | None
    session: str
    key: str
    seq: int | None
    what: str
    field: str | None = None
    found: str | None = None
    expected: str | None = None

    def __str__(self) -> str:
        at = "" if self.offset is None else f" at offset {self.offset}"
        seq = "" if self.seq is None else f", seq {self.seq}"
        text = (
            f"{self.topic}[{self.partition}]{at}: session {self.session!r}, key {self.key!r}{seq}: "
            f"{self.what}"
        )
        if self.field is None:
            return text
        return f"{text}: {self.field} is {self.found}, the fold gives {self.expected}"


def digest(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """16 bytes over key, value and headers, lengths included; None and empty differ."""
    parts = [key, value]
    for name, text in headers:
        parts += (name.encode(), text)
    lengths = ",".join(["-" if part is None else str(len(part)) for part in parts])
    return _hash(b"".join([lengths.encode(), b":", *filter(None, parts)]))


def chained(chain: bytes, record: bytes) -> bytes:
    """The chain with one more record's digest."""
    return _hash(chain + record)


def summed(session: bytes, count: int, chain: bytes) -> int:
    """What a session's sequence adds to its topic's digest."""
    return int.from_bytes(_hash(b"%d:%d:" % (len(session), count) + session + chain))


def absent(value: bytes | None) -> bool:
    """Whether a row's value says that the row is gone (streams.md §5: it counts as absent)."""
    if value is None:
        return True
    if not value.endswith(_deleted_tail()):
        return False
    try:
        change = decode_change(value)
    except ReadError:
        return False
    return isinstance(change, TranscriptRow) and change.deleted


@cache
def _deleted_tail() -> bytes:
    """How a deleted row ends, whatever it was: deleted, nothing truncated, no data. So nearly every
    other row need not be decoded."""
    row = TranscriptRow("", 0, 0, "", "", 0, 0, 0, "", None, None, None, True, (), None)
    return encode(row)[-3:]


def session_of(key: bytes | None, role: str) -> bytes:
    """The session a key names; a row's key is the session, 0x1F and the row's own."""
    if role == "transcript":
        return (key or b"").rpartition(KEY_SEPARATOR)[0]
    return key or b""


def text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def seq_of(headers: Headers) -> int | None:
    for name, value in headers:
        if name == "seq" and value is not None and value.lstrip(b"-").isdigit():
            return int(value)
    return None


def mismatch(record: InRecord, session: bytes, what: str) -> Mismatch:
    """A difference at a record that stands on a topic."""
    return Mismatch(
        record.topic,
        record.partition,
        record.offset,
        text(session),
        text(record.key or b""),
        seq_of(record.headers),
        what,
    )


def of(record: InRecord | OutRecord) -> bytes:
    """The record's digest."""
    return digest(record.key, record.value, record.headers)
