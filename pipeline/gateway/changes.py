"""What one poll of the feed changed in the read model: the seam between history and live.

The feed hands a `Committed` to its listener *after* the database transaction that holds it. Whoever
takes a snapshot out of the store gets the same offsets with it, in one cut: a change that stands
below the snapshot's offsets is in it already.

``body`` is JSON that may leave as it is: large bodies by reference, integers beyond 2^53 - 1 as
strings, no lone surrogates (`jsonout.safe`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Raw, Struct

Place: TypeAlias = tuple[str, int]
"""Role of a topic (`topics.ROLES`) and partition."""

Offsets: TypeAlias = Mapping[Place, int]
"""Per place the offset of the next record to read: everything below it is in the store."""


class RowChanged(Struct, frozen=True, gc=False):
    """A keyed upsert of the transcript; it counts iff (epoch, rev) is higher than what is held.
    ``body``: a `TranscriptRow` as published, its open text as of ``rev``."""

    session: str
    epoch: int
    key: str
    rev: int
    kind: str
    anchor_seq: int
    anchor_rank: int
    visibility: str
    deleted: bool
    body: Raw
    partition: int
    offset: int


class TextAppended(Struct, frozen=True, gc=False):
    """A `PartialText`: ``text`` continues ``block`` of the row ``key`` at ``at`` code points. It
    counts iff (epoch, rev) is higher than the row's; one that does not fit makes a client fetch the
    row. ``rev`` is its ``last_seq``."""

    session: str
    epoch: int
    key: str
    rev: int
    block: int
    block_type: str
    at: int
    text: str
    first_seq: int
    time: int | None
    partition: int
    offset: int


class SurfaceChanged(Struct, frozen=True, gc=False):
    """A step of the surface, in order. ``op`` append, replace, amend or reset; ``body``: the
    `SurfaceChange` as published."""

    session: str
    epoch: int
    seq: int
    op: str
    body: Raw
    partition: int
    offset: int


class OverviewChanged(Struct, frozen=True, gc=False):
    """A keyed upsert of a session's overview; it counts iff (epoch, seq) is not lower than what is
    held. A higher epoch voids all that is held of the session."""

    session: str
    epoch: int
    seq: int
    state: str
    body: Raw
    partition: int
    offset: int


Change: TypeAlias = RowChanged | TextAppended | SurfaceChanged | OverviewChanged


class Committed(Struct, frozen=True):
    """``changes``: in the order of their offsets per topic and partition; of stale epochs and
    revisions none. ``offsets``: of every place that moved, the next record to read (it may move
    without a change: transaction markers take offsets). ``raised``: sessions whose epoch rose, and
    to what: what clients hold of them is void. ``rebuilt``: the database was begun anew, so no
    cursor of before can be resumed. ``missed``: more may stand in the database than any listener
    was told (a commit whose outcome was unknown): clients go on from their cursors."""

    changes: tuple[Change, ...]
    offsets: Offsets
    raised: Mapping[str, int] = {}
    rebuilt: bool = False
    missed: bool = False


Listener: TypeAlias = Callable[[Committed], None]
"""Called on the feed's thread; it must return at once and never raise."""
