"""The tables of a session whose records a snapshot keeps in segments."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from operators.commands import Command
from operators.compaction import Compaction
from operators.nested import Sub, Waiting
from operators.readers.injected import Context
from operators.readers.rooms import Readers
from operators.retries import Chain
from operators.rooms import Rooms, Shared
from operators.session import Session
from operators.summaries import Summary
from operators.table import Table
from operators.tool import Tool

from .opaque import reader_of, writer_of


class Kind:
    """Records of one kind: the room they are in, where in it a table is that may be changed, how
    they are written and read."""

    def __init__(self, room: Shared[Any], path: str, record: type) -> None:
        self._room, self._table = room, attrgetter(path)
        self.write: Callable[[list[Any]], bytes] = writer_of(record)
        self.read: Callable[[bytes], list[Any]] = reader_of(record)

    def own(self, session: Session) -> Table[Any]:
        """The session's table, to be changed."""
        table: Table[Any] = self._table(self._room.own(session))
        return table


#: Tables by the letter their segments start with.
TABLES = {
    "t": Kind(Rooms.tools, "table", Tool),
    "n": Kind(Rooms.tools, "nested.subs", Sub),
    "w": Kind(Rooms.tools, "nested.waiting", Waiting),
    "r": Kind(Rooms.retries, "table", Chain),
    "c": Kind(Rooms.compactions, "table", Compaction),
    "m": Kind(Rooms.compactions, "summaries.table", Summary),
    "k": Kind(Rooms.commands, "table", Command),
    "i": Kind(Rooms.readers, "own_small.own_contexts", Context),
}

#: The marks of a room's tables, with the letters of these: few rooms changed, most are only asked.
MARKS: tuple[tuple[Shared[Any], Callable[[Any], tuple[set[int], ...]], str], ...] = (
    (
        Rooms.tools,
        attrgetter("table.dirty", "nested.subs.dirty", "nested.waiting.dirty"),
        "tnw",
    ),
    (Rooms.retries, lambda room: (room.table.dirty,), "r"),
    (Rooms.compactions, attrgetter("table.dirty", "summaries.table.dirty"), "cm"),
    (Rooms.commands, lambda room: (room.table.dirty,), "k"),
    (Rooms.readers, Readers.context_marks, "i"),
)
