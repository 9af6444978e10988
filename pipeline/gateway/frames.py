"""What travels to a client: a closed union, and its JSON (streams.md §4).

The same frames go over Server-Sent Events and WebSocket; ``t`` names the kind. A client ignores a
kind that it does not know. Everything about a session carries ``session`` and ``epoch``; a frame of
a higher epoch voids all that is held of the session, one of a lower epoch is void itself.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from .changes import Change, OverviewChanged, RowChanged, SurfaceChanged, TextAppended
from .jsonout import safe

VERSION = 1  #: of the protocol; it rises when an old client would go wrong


class Hello(Struct, frozen=True, gc=False, tag_field="t", tag="hello"):
    """The first frame of a connection: what bounds its queue, and how often it hears something."""

    server: str
    queue_frames: int
    queue_bytes: int
    ping_s: float
    v: int = VERSION


class Current(Struct, frozen=True, gc=False, tag_field="t", tag="current"):
    """Nothing was missed: what is held stands."""

    session: str
    epoch: int


class Replay(Struct, frozen=True, gc=False, tag_field="t", tag="replay"):
    """Exactly what was missed follows, in ``frames`` frames; what is held stands beneath it."""

    session: str
    epoch: int
    frames: int


class Snapshot(Struct, frozen=True, gc=False, tag_field="t", tag="snapshot"):
    """What is held of the session is void, this takes its place; ``reason`` is one of `protocol`.
    The cursor that is held is void too, until the next: this may be of an earlier moment.

    ``rows``: the tail page as transcript rows, in order, ``has_more`` above it (None in a view
    without rows); ``surface``: ``{generation, as_of_seq, nodes}``. Of the view of all sessions
    ``session`` is "" and ``overviews`` the newest of them."""

    session: str
    epoch: int
    view: str
    reason: str
    rows: tuple[Raw, ...] | None = None
    has_more: bool = False
    overview: Raw | None = None
    surface: Raw | None = None
    overviews: tuple[Raw, ...] | None = None


class Row(Struct, frozen=True, gc=False, tag_field="t", tag="row"):
    """An upsert: it counts iff (epoch, rev) is higher. A removed row is one with ``deleted``."""

    session: str
    epoch: int
    key: str
    rev: int
    row: Raw


class Append(Struct, frozen=True, gc=False, tag_field="t", tag="append"):
    """``text`` goes on at ``offset`` code points of the row's block; it counts iff (epoch, rev) is
    higher than the row's. One that does not fit makes the client fetch the row."""

    session: str
    epoch: int
    key: str
    rev: int
    block: int
    block_type: str
    offset: int
    text: str


class Surface(Struct, frozen=True, gc=False, tag_field="t", tag="surface"):
    """A step of what the model is sent: it counts iff (epoch, seq) is higher than the last."""

    session: str
    epoch: int
    seq: int
    change: Raw


class Overview(Struct, frozen=True, gc=False, tag_field="t", tag="overview"):
    """An upsert that counts iff (epoch, seq) is not lower than what is held."""

    session: str
    epoch: int
    seq: int
    overview: Raw


class Cursor(Struct, frozen=True, gc=False, tag_field="t", tag="cursor"):
    """Everything before it can be left out when the stream is resumed with it."""

    cursor: str


class Resync(Struct, frozen=True, gc=False, tag_field="t", tag="resync"):
    """Frames were left out, as more waited than may (or for another ``reason``): an answer for
    every session follows, as if resumed with ``cursor`` (None: as if begun anew)."""

    reason: str
    cursor: str | None


class Bye(Struct, frozen=True, gc=False, tag_field="t", tag="bye"):
    """The stream ends; come again after ``retry_ms`` (None: do not)."""

    code: str
    retry_ms: int | None


class Problem(Struct, frozen=True, gc=False, tag_field="t", tag="problem"):
    """Something asked for cannot be had: what, and the remedy. The rest goes on."""

    code: str
    message: str
    session: str | None = None


class Ping(Struct, frozen=True, gc=False, tag_field="t", tag="ping"):
    """Nothing new; a client that misses several is cut off and comes again."""


Keyed: TypeAlias = Row | Append | Surface | Overview
Frame: TypeAlias = (
    Hello | Current | Replay | Snapshot | Keyed | Cursor | Resync | Bye | Problem | Ping
)

_encode = msgspec.json.Encoder().encode


def to_json(frame: Frame) -> bytes:
    """One JSON object without a line break (log text keeps its own escapes, JSON has no others)."""
    text = safe(_encode(frame))
    # Opaque JSON is the log's own bytes, and may hold line breaks between its tokens.
    return text.translate(_ONE_LINE) if b"\n" in text or b"\r" in text else text


_ONE_LINE = bytes.maketrans(b"\n\r", b"  ")


def to_event(name: str, payload: bytes, cursor: str | None = None) -> bytes:
    """A Server-Sent Event; ``cursor`` is what a browser resumes with from now on ("": nothing)."""
    mark = b"" if cursor is None else b"id: %b\n" % cursor.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (mark, name.encode(), payload)


def name_of(frame: Frame) -> str:
    tag = frame.__struct_config__.tag
    assert isinstance(tag, str)
    return tag


def of_change(change: Change) -> Keyed:
    """The frame that tells a change of the read model."""
    session, epoch = change.session, change.epoch
    match change:
        case RowChanged():
            return Row(session, epoch, change.key, change.rev, change.body)
        case TextAppended():
            return Append(
                *(session, epoch, change.key, change.rev),
                *(change.block, change.block_type, change.at, change.text),
            )
        case SurfaceChanged():
            return Surface(session, epoch, change.seq, change.body)
        case OverviewChanged():
            return Overview(session, epoch, change.seq, change.body)
