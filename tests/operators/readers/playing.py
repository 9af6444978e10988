"""A log folded, with the events that were taken, as answers want them. ``rooms``: the small readers
of the whole log, as the reference has them, or the session's own."""

from __future__ import annotations

import json
from collections.abc import Iterable

from msgspec import Raw

from operators.events import Event, Line
from operators.nodes import Node
from operators.readers.answers import Told
from operators.readers.projections import Projections, Values
from operators.rooms import Rooms
from operators.session import Out, Session
from schemas.inbound import read_line
from tests.operators.build import numbered
from tests.operators.records import Json

read = read_line


class Playing:
    """Session and readers after some lines. ``whole``: an inherited prefix counts, too."""

    def __init__(self, session: str | None = "golden", *, whole: bool = True) -> None:
        self.session = Session(session)
        self.beside = Projections() if whole else None
        self.events: list[Event] = []
        self.shadowed_by: dict[int, int] = {}
        self.messages: dict[int, tuple[str | None, Raw | None]] = {}

    @property
    def rooms(self) -> Projections:
        return Rooms.readers.peek(self.session).small if self.beside is None else self.beside

    def fork(self) -> Playing:
        twin = Playing()
        twin.session = self.session.fork()
        twin.beside = None if self.beside is None else self.beside.fork()
        twin.events, twin.shadowed_by = [*self.events], {**self.shadowed_by}
        twin.messages = {**self.messages}
        return twin

    def take_all(self, lines: Iterable[Line]) -> Playing:
        for line in lines:
            self.take(line)
        return self

    def take(self, line: Line) -> None:
        before, out = self.session.next_seq, Out(partials=False)
        self.session.take(line, out)
        if not isinstance(line, Event) or out.refused or self.session.next_seq <= before:
            return
        self.events.append(line)
        for change in out.surface:
            if change.op in ("append", "replace"):
                self.shadowed_by |= dict.fromkeys(change.shadowed, change.seq)
                self.messages[change.seq] = (change.type, change.message)
        if self.beside is not None:
            self.beside.take(line, out.shadowed, lambda _: None)

    # --- what is asked ---------------------------------------------------------------------------

    def surface(self) -> list[Node]:
        """The current nodes in surface order."""
        return list(self.session.surface.nodes())

    def told(self) -> Told:
        """What answers are read from."""
        return Told(self.events, self.surface(), self.shadowed_by, self.session.last_time)

    def mark(self, seq: int) -> str:
        if self.session.surface.find(seq) is not None:
            return "C"
        return "S" if seq in self.shadowed_by else "-"

    @property
    def quality(self) -> dict[str, int]:
        """What the readers noted."""
        return {k: n for k, n in self.session.quality.items() if k.startswith("reader:")}

    def values(self) -> Values:
        return self.rooms.values(self.session.last_time)


def play(lines: Iterable[bytes]) -> Playing:
    """The lines of a log without a header, folded."""
    return Playing().take_all(map(read, lines))


def tell(*records: Json) -> Playing:
    """Makers' records (``tests/operators/records.py``), numbered and folded."""
    return play(json.dumps(record).encode() for record in numbered(records))
