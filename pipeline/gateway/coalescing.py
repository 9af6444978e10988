"""Fewer frames that say the same (streams.md §4): the first two steps of the ladder.

*Superseded*: an upsert, or text appended to its row, that a later upsert of the row makes
needless; so an overview by a later one, and all of an epoch that is over. *Joined*: text appended
to one block, side by side, with nothing structural of its session in between.

A frame never moves behind a later one that it was before; one that is joined moves forward, which
harms nobody: (epoch, rev) decides what counts. Steps of the surface are all needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from .changes import Change, OverviewChanged, Place, RowChanged, SurfaceChanged, TextAppended
from .frames import (
    Append,
    Frame,
    Keyed,
    Overview,
    Row,
    Snapshot,
    Surface,
    name_of,
    of_change,
    to_event,
    to_json,
)


class Shared:
    """A frame on its way to many: serialised once, when first asked for.

    ``place`` and ``offset``: of the record that caused it (None: of no record)."""

    __slots__ = ("_event", "_payload", "frame", "offset", "place")

    def __init__(self, frame: Frame, place: Place | None = None, offset: int = -1) -> None:
        self.frame = frame
        self.place = place
        self.offset = offset
        self._payload: bytes | None = None
        self._event: bytes | None = None

    @property
    def payload(self) -> bytes:
        """Its JSON."""
        if self._payload is None:
            self._payload = to_json(self.frame)
        return self._payload

    @property
    def event(self) -> bytes:
        """The same as a Server-Sent Event."""
        if self._event is None:
            cursor = "" if isinstance(self.frame, Snapshot) else None
            self._event = to_event(name_of(self.frame), self.payload, cursor)
        return self._event

    @property
    def size(self) -> int:
        return len(self.payload)


def shared_of(change: Change) -> Shared:
    """The frame of a change of the read model."""
    return Shared(of_change(change), (_role(change), change.partition), change.offset)


def _role(change: Change) -> str:
    match change:
        case RowChanged():
            return "transcript"
        case TextAppended():
            return "partials"
        case SurfaceChanged():
            return "surface"
        case OverviewChanged():
            return "overview"


class Coalesced(Struct, frozen=True):
    """What is left, and how many frames were left out as superseded and as joined."""

    frames: list[Shared]
    superseded: int
    joined: int


def coalesce(frames: Sequence[Shared]) -> Coalesced:
    """``frames`` of any number of sessions, in order, as few as possible."""
    standing = _standing(frames)
    joined = list(_join(standing))
    return Coalesced(joined, len(frames) - len(standing), len(standing) - len(joined))


def _standing(frames: Sequence[Shared]) -> list[Shared]:
    """Without what is superseded by one that comes later."""
    epochs: dict[str, int] = {}
    newest: dict[tuple[str, str | None], tuple[int, int]] = {}
    kept = []
    for shared in reversed(frames):
        frame = shared.frame
        if isinstance(frame, Keyed):
            epoch = epochs[frame.session] = max(epochs.get(frame.session, 0), frame.epoch)
            if frame.epoch < epoch or not _counts(frame, newest):
                continue
        kept.append(shared)
    kept.reverse()
    return kept


def _counts(frame: Keyed, newest: dict[tuple[str, str | None], tuple[int, int]]) -> bool:
    """Whether no later upsert holds it; an upsert is noted."""
    if isinstance(frame, Surface):
        return True
    key = (frame.session, None if isinstance(frame, Overview) else frame.key)
    version = (frame.epoch, frame.seq if isinstance(frame, Overview) else frame.rev)
    later = newest.get(key)
    if later is not None and version <= later:
        return False
    if not isinstance(frame, Append):
        newest[key] = version
    return True


def _join(frames: Iterable[Shared]) -> Iterable[Shared]:
    kept: list[Shared] = []
    #: Per session and row: where its last piece of text stands in ``kept``.
    open_: dict[str, dict[str, int]] = {}
    for shared in frames:
        frame = shared.frame
        if isinstance(frame, Append):
            rows = open_.setdefault(frame.session, {})
            at = rows.get(frame.key)
            if at is not None and _continues(before := kept[at].frame, frame):
                assert isinstance(before, Append)
                kept[at] = _joined(before, frame, shared)
                continue
            rows[frame.key] = len(kept)
        elif isinstance(frame, Row | Surface):  # structural: a barrier
            open_.pop(frame.session, None)
        elif not isinstance(frame, Overview):  # an answer, a resync: for everything
            open_.clear()
        kept.append(shared)
    return kept


def _continues(before: Frame, frame: Append) -> bool:
    return (
        isinstance(before, Append)
        and (before.epoch, before.block, before.block_type)
        == (frame.epoch, frame.block, frame.block_type)
        and before.offset + len(before.text) == frame.offset
    )


def _joined(before: Append, frame: Append, shared: Shared) -> Shared:
    text = before.text + frame.text
    return Shared(
        msgspec.structs.replace(before, text=text, rev=frame.rev), shared.place, shared.offset
    )
