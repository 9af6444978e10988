"""Parking: a session whose log must not be folded past a fault waits for a person (streams.md §2).

A strict session on a stream folds up to the first line that is refused. From there on every line is
put aside as ``parked``, so that nothing of the session is folded out of its order; all others go
on. What was put aside is sent again, marked as a replay: only such lines are taken. Of a line that
stands in the way nothing behind it is taken, until it was put right or given up.

A replay says with its last line how far it reached (``through``). The session is folded on as ever
once nothing stands in the way and the replay reached the last line that was put aside; a line put
aside meanwhile has to be sent again as well. All of that hangs on the lines alone, so that whoever
folds them again parks and goes on at the same ones.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from .events import Event, Header, Line
from .intake import Session
from .order import Place
from .out import Out
from .rooms import Parked

MISSING = "seq-not-contiguous"  #: the line itself is not to blame


class Mark(Struct, frozen=True, gc=False):
    """Where a line stands in the input, or stood first if it is sent again (``replay``). ``skip``:
    a person gives it up. ``through``: the last place of those that were sent again with it."""

    at: int
    replay: bool = False
    skip: bool = False
    through: int = -1


def take(session: Session, line: Line, mark: Mark, out: Out) -> None:
    """Fold one line into a session that parks or is parked; see `Session.take`."""
    placed = _place(session, line)
    if not _silent(session, line, mark, placed):
        parked = session.parked
        if parked is not None and placed is not Place.CONFLICT and _waits(parked, line, mark):
            return _put_aside(session, parked, line, mark, out)
        if not _folded(session, line, mark, out):
            return None
    return _go_on(session, mark, out)


def _place(session: Session, line: Line) -> Place | None:
    """Where the line stands in the log; None if it says no seq."""
    if isinstance(line, Header) or line.seq is None:
        return None
    count = line.count if isinstance(line, Event) else 1
    return session.order.place(line.seq, count, line.digest)


def _silent(session: Session, line: Line, mark: Mark, placed: Place | None) -> bool:
    """Whether the line was dealt with before, and so is silent in a parked session, too. Of a seq
    that was taken a replay may bring another line than the one that was put in its place."""
    if isinstance(line, Header):
        return session.header is not None
    if placed is None:
        return mark.replay and mark.at <= session.cleared
    return placed is Place.AGAIN or (mark.replay and placed is Place.CONFLICT)


def _waits(parked: Parked, line: Line, mark: Mark) -> bool:
    """Whether the line comes behind what stands in the way."""
    if not mark.replay:
        return True
    if parked.at is None or parked.at == mark.at:
        return False
    seq = None if isinstance(line, Header) else line.seq
    return seq is None or parked.seq is None or seq >= parked.seq


def _put_aside(session: Session, parked: Parked, line: Line, mark: Mark, out: Out) -> None:
    seq = None if isinstance(line, Header) else line.seq
    why = parked.reason or "a replay is under way"
    out.refuse("parked", f"the session is parked at seq {session.expected}: {why}", seq)
    if mark.at > parked.tail:
        session.parked = replace(parked, tail=mark.at)
        out.kept = True


def _folded(session: Session, line: Line, mark: Mark, out: Out) -> bool:
    """Fold the line, or give it up as it is marked; False when it parks the session."""
    parked, before = session.parked, len(out.refused)
    if mark.skip and parked is not None and parked.at == mark.at and not isinstance(line, Header):
        if parked.reason != MISSING:
            session.give_up_line(line, out)
            return True
        session.give_up(line, out)
    session.take(line, out)
    if len(out.refused) == before or not session.parks:
        return True
    refused = out.refused[-1]
    since, tail = (mark.at, mark.at) if parked is None else (parked.since, parked.tail)
    session.parked = Parked(since, max(tail, mark.at), mark.at, refused.seq, refused.reason)
    return False


def _go_on(session: Session, mark: Mark, out: Out) -> None:
    """A line was folded or had been before: what stood in the way may be gone."""
    parked = session.parked
    if parked is None or not mark.replay:
        return
    if parked.at == mark.at:
        if parked.seq is None:
            session.cleared = max(session.cleared, mark.at)
        parked = replace(parked, at=None, seq=None, reason=None)
        out.kept = True
    if parked.at is None and mark.through >= parked.tail:
        parked, out.changed = None, True
    session.parked = parked
