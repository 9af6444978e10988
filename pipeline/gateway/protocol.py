"""How a stream begins and goes on: what a client may ask, and which answer it gets. Sans-IO.

A subscription is a view of some sessions. For each of them the server says which of three things
happened since the client's cursor: nothing (`Current`), this (`Replay`), or it cannot or will not
tell, take everything (`Snapshot`, with the reason). All is read in one cut of the read model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from .changes import Change, Offsets, OverviewChanged, TextAppended
from .cursor import Malformed, Position, parse
from .frames import Current, Frame, Keyed, Problem, Replay, Snapshot, of_change

View: TypeAlias = Literal["transcript", "surface", "overview"]

#: What is told in a view: roles of topics. Every view tells how its sessions stand.
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "transcript": ("transcript", "partials", "overview"),
    "surface": ("surface", "overview"),
    "overview": ("overview",),
}

EVERYTHING: Final = ""  #: in place of a session: all of them, in the view of overviews alone

MAX_SESSIONS: Final = 50  #: of one subscription: its cursor must fit into a header
MAX_MESSAGE: Final = 64 * 1024  #: bytes of what a client sends
REPLAY_FRAMES: Final = 512  #: more missed changes than fill a queue are a snapshot
REPLAY_BYTES: Final = 1024 * 1024

#: Why a `Snapshot` was sent.
NEW: Final = "new"  #: no cursor, or one that does not name the session
EPOCH: Final = "epoch"  #: the session's log was begun anew since
LOG: Final = "log"  #: the cursor is of other topics
TOO_MUCH: Final = "too-much"  #: more was missed than is worth a replay


class Subscribe(Struct, frozen=True, tag_field="op", tag="subscribe", forbid_unknown_fields=True):
    """``id``: the client's name for it; a higher ``gen`` replaces what goes by that name, and is
    echoed, so that a late reply to an older one can be told. No ``sessions``: all of them."""

    view: View = "transcript"
    sessions: Annotated[tuple[str, ...], Meta(max_length=MAX_SESSIONS)] = ()
    cursor: Annotated[str, Meta(min_length=1)] | None = None
    id: Annotated[str, Meta(max_length=64)] = ""
    gen: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class Unsubscribe(
    Struct, frozen=True, tag_field="op", tag="unsubscribe", forbid_unknown_fields=True
):
    id: str = ""


class Pong(Struct, frozen=True, tag_field="op", tag="pong", forbid_unknown_fields=True):
    """The answer to a ping, if a client wants to give one."""


Message: TypeAlias = Subscribe | Unsubscribe | Pong
_messages = msgspec.json.Decoder(Message)


def read_message(text: str | bytes) -> Message | Problem:
    """What a client sent. Never raises: what cannot be read is a `Problem` to send back."""
    if len(text) > MAX_MESSAGE:
        return Problem("too-large", f"a message is at most {MAX_MESSAGE} bytes")
    try:
        message = _messages.decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        return Problem("message", f"not understood: {error}")
    return check(message) or message if isinstance(message, Subscribe) else message


def check(asked: Subscribe) -> Problem | None:
    """What is wrong with it, if anything."""
    if not asked.sessions and asked.view != "overview":
        return Problem("sessions", f"the {asked.view} view needs `sessions`, one at least")
    if EVERYTHING in asked.sessions:
        return Problem("sessions", "a session's id is not empty")
    if asked.cursor is not None and isinstance(read := parse(asked.cursor), Malformed):
        return Problem("cursor", f"the cursor is none: {read.why}; leave it out to begin anew")
    return None


# --- the answer -----------------------------------------------------------------------------------


class Known(Struct, frozen=True):
    """A session of the read model: its present epoch, and the partition it is on."""

    epoch: int
    partition: int


class Whole(Struct, frozen=True):
    """What a `Snapshot` carries; fields as there."""

    rows: tuple[Raw, ...] | None = None
    has_more: bool = False
    overview: Raw | None = None
    surface: Raw | None = None
    overviews: tuple[Raw, ...] | None = None


class Cut(Protocol):
    """The read model as it stands in one database transaction, and as far as whoever asks may see
    it: other sessions do not exist.

    ``session`` may be `EVERYTHING` in `missed` and `whole`. ``ends``: of the topics, as far as they
    are known; a cursor beyond is from nowhere, one between is from a gateway that is ahead."""

    @property
    def log(self) -> str: ...
    @property
    def offsets(self) -> Offsets: ...
    @property
    def ends(self) -> Offsets: ...

    def known(self, session: str) -> Known | None: ...

    def missed(
        self, session: str, view: View, since: Offsets, limit: int
    ) -> Sequence[Change] | None:
        """What changed at or above ``since`` (of the view's places), each row as it stands now,
        deleted ones too; None: more than ``limit`` changes. An open row that was lengthened is a
        changed row."""
        ...

    def whole(self, session: str, view: View) -> Whole: ...


class Answered(Struct, frozen=True):
    """The frames of one session, and the cut that they are of."""

    session: str
    epoch: int
    partition: int | None  # None: of every one
    log: str
    offsets: Offsets
    frames: tuple[Frame, ...]


def answer(cut: Cut, session: str, view: View, cursor: Position | None) -> Answered | Problem:
    """What a client that holds ``cursor`` is to be told of ``session``, if it may see it."""
    known = cut.known(session) if session != EVERYTHING else Known(0, -1)
    if known is None:
        return Problem("unknown-session", "there is no such session", session)
    partition = None if session == EVERYTHING else known.partition
    offsets = places(view, partition, cut.offsets)
    if isinstance(problem := _impossible(cut, cursor, session), Problem):
        return problem
    since = _since(cut, cursor, session, known, offsets)
    reason = since if isinstance(since, str) else TOO_MUCH
    if not isinstance(since, str):
        missed = _missed(cut, session, view, since)
        if missed is not None:
            told: Frame = (
                Replay(session, known.epoch, len(missed))
                if missed
                else Current(session, known.epoch)
            )
            return Answered(session, known.epoch, partition, cut.log, offsets, (told, *missed))
    whole = cut.whole(session, view)
    return Answered(
        *(session, known.epoch, partition, cut.log, offsets),
        (_snapshot(whole, session, view, known.epoch, reason),),
    )


def places(view: View, partition: int | None, offsets: Offsets) -> Offsets:
    """Of ``offsets`` those that the view of a partition (None: of all) is about."""
    roles = ROLES[view]
    return {
        place: offset
        for place, offset in offsets.items()
        if place[0] in roles and partition in (None, place[1])
    }


def reaches(offsets: Offsets, cursor: Position) -> bool:
    """Whether a read model at ``offsets`` holds all that a client with this cursor does. A page or
    row out of one that does not would put old versions beside new ones: it is asked for later."""
    return all(offsets.get(place, 0) >= offset for place, offset in cursor.offsets.items())


def _impossible(cut: Cut, cursor: Position | None, session: str) -> Problem | None:
    """A cursor beyond the topics' ends: of a log that lost its end, or made up."""
    if cursor is None or cursor.log != cut.log:
        return None
    for place, offset in cursor.offsets.items():
        end = max(cut.ends.get(place, 0), cut.offsets.get(place, 0))
        if offset > end:
            text = f"the cursor is from the future ({place[0]}-{place[1]}: {offset} of {end})"
            return Problem("future", f"{text}; leave it out to begin anew", session)
    return None


def _since(
    cut: Cut, cursor: Position | None, session: str, known: Known, offsets: Offsets
) -> Offsets | str:
    """Where to go on from, or the reason why that is not to be had."""
    if cursor is None:
        return NEW
    if cursor.log != cut.log:
        return LOG
    if session != EVERYTHING:
        epoch = cursor.epochs.get(session)
        if epoch is None:
            return NEW
        # A higher one is of a gateway that is ahead: the rest of it will come.
        if epoch < known.epoch:
            return EPOCH
    if not any(place in cursor.offsets for place in offsets):
        return NEW  # of another view
    return {place: cursor.offsets.get(place, 0) for place in offsets}


def _missed(cut: Cut, session: str, view: View, since: Offsets) -> tuple[Keyed, ...] | None:
    changes = cut.missed(session, view, since, REPLAY_FRAMES)
    if changes is None or sum(map(_size, changes)) > REPLAY_BYTES:
        return None
    return tuple(of_change(change) for change in sorted(changes, key=order))


def order(change: Change) -> tuple[int, int, int]:
    """How the changes of one session follow each other across topics: by the event that caused
    them; what stood open before the text that lengthens it, the overview of it all last."""
    rank = 2 if isinstance(change, OverviewChanged) else int(isinstance(change, TextAppended))
    seq = change.seq if hasattr(change, "seq") else change.rev
    return change.epoch, seq, rank


def _size(change: Change) -> int:
    return len(change.text) if isinstance(change, TextAppended) else len(bytes(change.body))


def _snapshot(whole: Whole, session: str, view: View, epoch: int, reason: str) -> Snapshot:
    return Snapshot(
        *(session, epoch, view, reason),
        rows=whole.rows,
        has_more=whole.has_more,
        overview=whole.overview,
        surface=whole.surface,
        overviews=whole.overviews,
    )
