"""Records of the topics as the read model takes them: decoded, with where they stood."""

from __future__ import annotations

from typing import TypeAlias, cast

import msgspec
from msgspec import Raw, Struct

from operators.changes import (
    Change,
    PartialText,
    RowData,
    SessionOverview,
    SurfaceChange,
    TranscriptRow,
    Truncated,
)
from operators.events import Event, Fault
from operators.history import budgeted
from pipeline.envelope import EnvelopeError, read_envelope
from pipeline.ports import InRecord
from schemas import codec
from schemas.errors import ReadError, Refusal
from schemas.inbound import read_value


class EventLine(Struct, frozen=True, gc=False):
    """A line of the raw log that takes ``count`` seqs; ``cut``: of a message that spends a page's
    budget, how far down a page that ends with it reaches."""

    session: str
    epoch: int
    seq: int
    count: int
    cut: int | None
    line: bytes


class OtherData(Struct, frozen=True, gc=False):
    """What a row of a kind added later holds."""

    body: Raw


Item: TypeAlias = TranscriptRow | PartialText | SurfaceChange | SessionOverview | EventLine


class Incoming(Struct, frozen=True, gc=False):
    """One decoded record and its place."""

    partition: int
    offset: int
    item: Item


def decoded(record: InRecord, role: str) -> Incoming | None:
    """None for what holds nothing to keep: a tombstone, a log's header, a line without a seq, a
    session without an id. `ReadError` for what is none of ours."""
    item = _event(record) if role == "events" else _change(record.value)
    if item is None or item.session is None:
        return None
    return Incoming(record.partition, record.offset, item)


def _change(value: bytes | None) -> Item | None:
    if not value:
        return None
    try:
        change: Change = codec.decode_change(value)
    except ReadError:
        return _later_row(value)
    return None if not isinstance(change, Item) else change


def _later_row(value: bytes) -> TranscriptRow:
    """A row whose data is `Other`."""
    fields = codec.decode_subject(value, "transcript")
    body = fields.pop("data").get("body") if isinstance(fields.get("data"), dict) else None
    if body is None:
        raise ReadError(Refusal("unknown-schema", "a row of a newer version"))
    fields["truncated"] = msgspec.convert(fields["truncated"], tuple[Truncated, ...])
    data = cast("RowData", OtherData(Raw(body.encode())))  # JSON like any other
    return TranscriptRow(**fields, data=data)


def _event(record: InRecord) -> EventLine | None:
    line = read_value(record.value)
    if isinstance(line, Event):
        message = budgeted(line)
        seq, count, cut = line.seq, line.count, message.cut if message else None
    elif isinstance(line, Fault) and line.seq is not None:
        seq, count, cut = line.seq, 1, None
    else:
        return None
    try:
        epoch, _ = read_envelope(record)
    except EnvelopeError:
        return None
    if record.key is None or record.value is None:
        return None
    session, raw = record.key.decode("utf-8", "replace"), record.value
    if not raw.startswith(b"{"):
        inner = codec.decode_session_line(raw)
        raw = inner if isinstance(inner, bytes) else raw
    return EventLine(session, epoch, seq, count, cut, raw)
