"""The fold of one session: the door of this package.

    state, changes = step(Session("s-1"), line)    # pure, one line at a time
    folded = fold(lines, "s-1")                    # a whole log at once

``step`` is the specification. A runner folds many lines into one staged copy (``Session.fork``),
gathers their changes in one ``Out`` and keeps the copy only when they were delivered.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .changes import Change, Refused, SessionOverview, SurfaceChange, TranscriptRow
from .events import Event, Fault, Header, Line
from .intake import Session
from .out import Out

__all__ = [
    "Change",
    "Event",
    "Fault",
    "Folded",
    "Header",
    "Line",
    "Out",
    "Session",
    "enter_epoch",
    "final_rows",
    "fold",
    "step",
]


def enter_epoch(state: Session, epoch: int, out: Out) -> Session | None:
    """The state to fold a record of that epoch into; None for a stale record, which is dropped. A
    higher epoch starts the session anew and says so on the surface (§3)."""
    if epoch == state.epoch:
        return state
    if epoch < state.epoch:
        return None
    out.session, out.epoch = state.session, state.epoch
    out.close_epoch()
    out.epoch, out.changed = epoch, True
    out.surface.append(SurfaceChange(state.session, epoch, -1, "reset"))
    entered = Session(state.session, epoch, state.strict, state.first_seq)
    entered.parks = state.parks
    return entered


def step(state: Session, line: Line) -> tuple[Session, tuple[Change, ...]]:
    """One line, purely: the next state, and the changes in publishing order; a line that was not
    taken is a ``Refused`` at their end."""
    out = Out()
    after = state.fork()
    after.take(line, out)
    return after, (*out.changes(after), *out.refused)


class Folded(Struct, frozen=True):
    """A whole log folded: last version of each row, sorted; every surface change; refused lines."""

    session: Session
    rows: tuple[TranscriptRow, ...]
    surface: tuple[SurfaceChange, ...]
    overview: SessionOverview
    refused: tuple[Refused, ...]


def fold(lines: Iterable[Line], session: str | None = None) -> Folded:
    """Fold the lines of one session, in log order."""
    state = Session(session)
    out = Out(partials=False)
    for line in lines:
        state.take(line, out)
    return Folded(
        state,
        tuple(final_rows(state, out)),
        tuple(out.surface),
        state.overview(),
        tuple(out.refused),
    )


def final_rows(state: Session, out: Out) -> list[TranscriptRow]:
    """The rows a reader ends up with, running ones with their open text, in transcript order."""
    out.session, out.epoch = state.session, state.epoch
    rows = {row.key: row for row in out.rows()}
    rows.update((row.key, row) for row in state.open_rows())
    alive = [row for row in rows.values() if not row.deleted]
    return sorted(alive, key=lambda row: (row.anchor_seq, row.anchor_rank, row.key))
