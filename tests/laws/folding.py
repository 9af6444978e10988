"""Ways to fold a log for the laws: at once, line by line, in batches, through saved snapshots."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from operators.changes import Change
from operators.events import Line
from operators.session import Folded, Out, Session, fold, step
from schemas import snapshot
from schemas.inbound import read_line

SESSION = "s-1"


def read(lines: Iterable[bytes]) -> list[Line]:
    return [read_line(line) for line in lines]


def at_once(lines: Iterable[Line]) -> Folded:
    return fold(lines, SESSION)


def one_by_one(lines: Iterable[Line], state: Session | None = None) -> tuple[Session, list[Change]]:
    """Every line by itself, purely; all that was published."""
    state = state or Session(SESSION)
    published: list[Change] = []
    for line in lines:
        state, changes = step(state, line)
        published += changes
    return state, published


def one_batch(state: Session, lines: Iterable[Line]) -> tuple[Session, list[Change]]:
    """A batch folded into a copy; what it publishes."""
    staged, out = state.fork(), Out()
    for line in lines:
        staged.take(line, out)
    return staged, out.changes(staged)


def in_batches(batches: Iterable[Iterable[Line]]) -> tuple[Session, list[Change]]:
    state = Session(SESSION)
    published: list[Change] = []
    for batch in batches:
        state, changes = one_batch(state, batch)
        published += changes
    return state, published


class Saved:
    """What a state topic holds of one session."""

    def __init__(self) -> None:
        self.segments: dict[str, bytes] = {}

    def save(self, state: Session) -> dict[str, bytes | None]:
        changed = snapshot.save(state)
        for name, value in changed.items():
            if value is None:
                self.segments.pop(name, None)
            else:
                self.segments[name] = value
        return changed

    def load(self) -> Session:
        return snapshot.load(SESSION, self.segments)


def bytes_of(changes: Iterable[object]) -> list[bytes]:
    return [msgspec.json.encode(change) for change in changes]
