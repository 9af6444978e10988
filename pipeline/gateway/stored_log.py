"""A session's log as the read model holds it, for the queries that look at events
(`pipeline.readers.query`): raw lines, and what each seq is on the surface. Nothing is folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import msgspec
from msgspec import Raw, Struct
from sqlalchemy import ColumnElement, Connection, select

from operators.events import SURFACE_BODIES, Event
from operators.nodes import Node
from schemas.inbound import read_line

from . import store_tables as t
from . import surface_at
from .sessions import Held, next_seq

CHUNK = 500  #: lines of one statement

_e = t.events.c


class StoredLog:
    """A `query.Log` through the session's last folded event. ``taken`` is read while it is
    iterated, once; ``lines`` are those of the events that came so far, ``reached`` is the seq after
    them."""

    def __init__(self, connection: Connection, held: Held) -> None:
        self.session_id = held.session
        self.end = next_seq(held)
        self.taken: Iterable[Event] = ()
        self.lines: dict[int, bytes] = {}
        self.reached = 0
        self._connection = connection
        self._mine = (_e.session == held.session, _e.epoch == held.epoch, _e.seq < self.end)

    # --- its events -------------------------------------------------------------------------------

    def between(self, first: int, last: int | None = None, most: int | None = None) -> Self:
        """The events of the line that holds ``first``, and those after it through ``last``; of at
        most so many lines."""
        first, last = min(first, self.end), self.end if last is None else min(last, self.end)
        conditions = [_e.seq >= self._begin(first), _e.seq + _e["count"] > first]
        conditions.append(_e.seq <= max(last, -1))
        self.reached = first
        self.taken = self._events(conditions, most)
        return self

    def at(self, seqs: Sequence[int]) -> Self:
        """The events that are not packed with others, of these seqs."""
        spans = (seqs[at : at + CHUNK] for at in range(0, len(seqs), CHUNK))
        self.taken = (event for some in spans for event in self._events([_e.seq.in_(some)]))
        return self

    def _events(
        self, conditions: Sequence[ColumnElement[bool]], most: int | None = None
    ) -> Iterator[Event]:
        for number, (seq, count, line) in enumerate(self._walk(conditions)):
            if number == most:
                return
            self.reached = seq + count
            event = read_line(line)
            if isinstance(event, Event) and self._folded(event):
                self.lines[event.seq] = line
                yield event
        self.reached = self.end

    def _folded(self, event: Event) -> bool:
        """Whether the fold took it (projection.md §4): a surface event then is, or was, a node; any
        other has nothing that touches the surface."""
        if isinstance(event.body, SURFACE_BODIES):
            return event.seq in self._gone
        return event.marker is None and event.sources is None

    def _walk(self, conditions: Sequence[ColumnElement[bool]]) -> Iterator[tuple[int, int, bytes]]:
        wanted = select(_e.seq, _e["count"], _e.line).where(*self._mine, *conditions)
        after: list[ColumnElement[bool]] = []
        while True:
            found = self._connection.execute(wanted.where(*after).order_by(_e.seq).limit(CHUNK))
            rows = found.all()
            yield from ((seq, count, bytes(line)) for seq, count, line in rows)
            if len(rows) < CHUNK:
                return
            after = [_e.seq > rows[-1].seq]

    def _begin(self, seq: int) -> int:
        """Where the line begins that holds a seq, if any does."""
        wanted = select(_e.seq).where(*self._mine, _e.seq <= seq).order_by(_e.seq.desc()).limit(1)
        return int(self._connection.execute(wanted).scalar() or 0)

    @property
    def first_held(self) -> int | None:
        """The first seq that there is a line of; those before it have expired."""
        wanted = select(_e.seq).where(*self._mine).order_by(_e.seq).limit(1)
        found: int | None = self._connection.execute(wanted).scalar()
        return found

    # --- its surface ------------------------------------------------------------------------------

    @cached_property
    def _gone(self) -> dict[int, int]:
        """Of every seq that ever was a node, the seq of what replaced it."""
        return surface_at.gone(self._connection, self.session_id)

    @cached_property
    def current(self) -> frozenset[int]:
        return frozenset(seq for seq, by in self._gone.items() if by == t.FOREVER)

    @cached_property
    def shadowed_by(self) -> dict[int, int]:
        return {seq: by for seq, by in self._gone.items() if by != t.FOREVER}

    def mark(self, seq: int) -> str:
        by = self._gone.get(seq)
        return "-" if by is None else "C" if by == t.FOREVER else "S"

    def replaced(self, seq: int) -> tuple[int, ...]:
        change = surface_at.change_of(self._connection, self.session_id, seq)
        return () if change is None else change.shadowed

    def nodes(self) -> list[Node]:
        """The nodes as tool pairing counts them: by the number of an answer's calls."""
        return [
            Node(0, seq, kind or "", _calls(message) if kind == "assistant/message" else 0)
            for seq, kind, message in surface_at.messages(self._connection, self.session_id)
        ]


class _Block(Struct):
    type: Any = None


class _Answer(Struct):
    content: list[_Block] = []


def _calls(message: Raw | None) -> int:
    if message is None:
        return 0
    try:
        blocks = msgspec.json.decode(message, type=_Answer).content
    except msgspec.ValidationError:
        return 0
    return sum(block.type == "tool-call" for block in blocks)
