"""One session as its topics tell it: the rows that stand, the surface's changes, the overview.

Readers compare epochs: what is below the overview's is of an earlier generation of the log
(projection.md §3). A running row is its last record joined with the partials after it (§5.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from operators.changes import (
    AssistantData,
    PartialText,
    SessionOverview,
    SurfaceChange,
    TranscriptRow,
)
from schemas.codec import decode_change
from schemas.errors import ReadError
from schemas.outbound import KEY_SEPARATOR

from .ports import InRecord, Reader
from .topics import Names

ROLES = ("overview", "transcript", "surface", "partials")  #: of the topics read here
C = TypeVar("C")


class Published(Struct, frozen=True):
    """``rows`` sorted as a transcript; ``surface`` in the order published."""

    partition: int
    overview: SessionOverview
    rows: list[TranscriptRow]
    surface: list[SurfaceChange]


def session(reader: Reader, names: Names, session_id: str) -> Published | None:
    """The session's present, None if it has no overview. Reads its partition from the start."""
    found = overview(reader, names, session_id)
    if found is None:
        return None
    partition, present = found
    rows = _rows(_own(reader, names, found, "transcript", TranscriptRow))
    if any(running(row) for row in rows):
        partials = list(_own(reader, names, found, "partials", PartialText))
        rows = [_joined(row, partials) if running(row) else row for row in rows]
    return Published(partition, present, rows, list(surface(reader, names, found)))


def overview(reader: Reader, names: Names, session_id: str) -> tuple[int, SessionOverview] | None:
    """The partition of a session and its present overview, None if it has none."""
    key, topic = session_id.encode("utf-8", "replace"), names.of("overview")
    for partition in range(reader.partitions(topic)):
        mine = [r for r in reader.read(topic, partition) if r.key == key]
        for change in _changes(mine[-1:]):
            if isinstance(change, SessionOverview):
                return partition, change
    return None


def surface(
    reader: Reader, names: Names, found: tuple[int, SessionOverview]
) -> Iterator[SurfaceChange]:
    """The surface's changes of a session that was ``found``, in the order published."""
    return _own(reader, names, found, "surface", SurfaceChange)


def _own(
    reader: Reader, names: Names, found: tuple[int, SessionOverview], role: str, kind: type[C]
) -> Iterator[C]:
    """What that topic holds of the session's present epoch."""
    partition, present = found
    key = (present.session or "").encode("utf-8", "replace")
    prefix = KEY_SEPARATOR if role == "transcript" else b""
    records = reader.read(names.of(role), partition)
    mine = (r for r in records if r.key is not None and _is_of(r.key, key, prefix))
    named = present.session, present.epoch  # another id may begin as a key of ours
    for change in _changes(mine):
        if isinstance(change, kind) and _of(change) == named:
            yield change


def _is_of(record: bytes, session_key: bytes, separator: bytes) -> bool:
    if not separator:
        return record == session_key
    return record.startswith(session_key + separator)


def _of(change: object) -> tuple[object, object]:
    return getattr(change, "session", None), getattr(change, "epoch", -1)


def _changes(records: Iterable[InRecord]) -> Iterator[object]:
    """The changes; tombstones and what is not ours are none."""
    for record in records:
        if record.value is not None:
            try:
                yield decode_change(record.value)
            except ReadError:
                continue


def overviews(reader: Reader, names: Names) -> Iterator[SessionOverview]:
    """The present overview of every session."""
    topic = names.of("overview")
    for partition in range(reader.partitions(topic)):
        last = {record.key: record for record in reader.read(topic, partition)}
        for change in _changes(last.values()):
            if isinstance(change, SessionOverview):
                yield change


def _rows(upserts: Iterable[TranscriptRow]) -> list[TranscriptRow]:
    last = {row.key: row for row in upserts}
    rows = [row for row in last.values() if not row.deleted]
    return sorted(rows, key=lambda row: (row.anchor_seq, row.anchor_rank, row.key))


def running(row: TranscriptRow) -> bool:
    """Whether text of the row may still be on its way."""
    return isinstance(row.data, AssistantData) and row.data.status == "running"


def _joined(row: TranscriptRow, partials: Iterable[PartialText]) -> TranscriptRow:
    """The row with the text that came after it."""
    assert isinstance(row.data, AssistantData)
    try:
        blocks = msgspec.json.decode(row.data.blocks, type=list[Raw])
        rev = row.rev
        for part in partials:
            if part.key == row.key and part.last_seq > row.rev:
                blocks[part.block] = _lengthened(blocks[part.block], part)
                rev = max(rev, part.last_seq)
    except (
        IndexError,
        KeyError,
        ValueError,
    ):  # not the block it continues: the row stands as published
        return row
    data = msgspec.structs.replace(row.data, blocks=Raw(msgspec.json.encode(blocks)))
    return msgspec.structs.replace(row, data=data, rev=rev)


def _lengthened(block: Raw, part: PartialText) -> Raw:
    """ValueError when the block does not end where the frame begins."""
    fields = msgspec.json.decode(block, type=dict[str, Any])
    name = "arguments" if part.block_type == "tool-call" else "text"
    if fields.get("type") != part.block_type or len(fields[name]) != part.offset:
        raise ValueError("the frame does not continue this block")
    return Raw(msgspec.json.encode({**fields, name: fields[name] + part.text}))
