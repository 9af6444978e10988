"""Steps: what is being gathered of an assistant row, and where steps are kept (§5.1, §5.7).

The step being streamed is open for change; all others rest in a table and are never changed in
place.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import msgspec
from immutables import Map
from msgspec import Raw
from msgspec.structs import replace

from .changes import AssistantData
from .events import Usage
from .out import RowPlace
from .table import Table
from .text import pair, to_json
from .turns import Turn

PIECE = 8192  #: code points of open text that are sealed, so that a batch saves only what it added
HALVES = "\ud800"  #: from here on a character may be half of one
_LOW = "\udc00"


@dataclass(slots=True)
class Block:
    """A block being gathered; ``final`` is the one that ended it. ``hold`` is a trailing high
    surrogate half that waits for its other half."""

    type: str
    number: int = 0  #: counts the blocks of a step, also overwritten ones
    id: str | None = None
    name: str | None = None
    final: Raw | None = None
    sealed: tuple[str, ...] = ()
    tail: str = ""
    size: int = 0
    hold: str = ""
    nonblank: bool = False
    position: int = 0  #: among the blocks of its row, as published last
    published: int = 0  #: size and hold when its row was published last
    published_hold: str = ""

    def fork(self) -> Block:
        return Block(*_fields_of(self))

    def append(self, text: str) -> str:
        """Add text that is not empty; what of it can be shown now (a half character cannot)."""
        if self.hold or text[-1] >= HALVES:
            text = self._join_halves(text)
        tail = self.tail + text
        self.size += len(text)
        if len(tail) >= PIECE:
            self.sealed, tail = (*self.sealed, tail), ""
        self.tail = tail
        return text

    def _join_halves(self, text: str) -> str:
        text = pair(self.hold + text)
        self.hold = ""
        if HALVES <= text[-1] < _LOW:
            text, self.hold = text[:-1], text[-1]
        return text

    @property
    def visible(self) -> bool:
        return self.nonblank or self.type not in ("text", "reasoning", "tool-call")

    def render(self, published: bool) -> Any:
        """The block as it was published last, or as it is now."""
        if self.final is not None:
            return self.final
        text = "".join(self.sealed) + self.tail
        text = text[: self.published] + self.published_hold if published else text + self.hold
        if self.type == "tool-call":
            return {"type": self.type, "id": self.id, "name": self.name, "arguments": text}
        if self.type in ("text", "reasoning"):
            return {"type": self.type, "text": text}
        return {"type": self.type}


_fields_of = attrgetter(*(field.name for field in fields(Block)))


class Step(msgspec.Struct):
    """One step; ``key`` is the seq of the event that made this record. ``row`` is the seq in the
    row's key once there is a row; ``sample`` the last usage sample of the running attempt, with the
    totals generation it was added under; ``counted`` likewise for the row. ``announces``
    (call id, seq of the message), ``tools`` and ``retries`` (row keys) belong to the step."""

    key: int
    turn: int | None
    step: int | None
    start_time: int | None = None
    token_seen: bool = False
    token_time: int | None = None
    blocks: dict[int, Block] = {}
    first: tuple[int, int | None] | None = None
    shown: tuple[int, int | None] | None = None
    row: int | None = None
    rev: int = 0
    unsent: int = 0
    usage: Raw | None = None
    sample: Usage | None = None
    sample_generation: int = -1
    retried: bool = False
    settled: bool = False
    closed: bool = False
    closed_at: tuple[int, int | None] = (0, None)
    reopened: bool = False
    counted: int = -1
    opened: int = 0
    announces: list[tuple[str, int]] = []
    tools: list[int] = []
    retries: list[int] = []

    def new_block(self, index: int, kind: str) -> Block:
        """A fresh block in that place."""
        self.opened += 1
        block = self.blocks[index] = Block(kind, self.opened)
        return block

    def fork(self) -> Step:
        return replace(
            self,
            blocks={index: block.fork() for index, block in self.blocks.items()},
            announces=self.announces.copy(),
            tools=self.tools.copy(),
            retries=self.retries.copy(),
        )

    def place(self, rev: int) -> RowPlace:
        """Where the running row stands: at its first visible chunk, else at its first chunk."""
        assert self.row is not None
        anchor, time = self.shown or self.first or (self.row, None)
        return RowPlace(
            "assistant",
            self.row,
            anchor,
            0,
            rev,
            self.shown is not None,
            self.turn,
            self.step,
            time,
        )

    def publish(self, rev: int) -> None:
        """The row is published as it stands. What comes after only lengthens open text, until it is
        published again: so the published form is the blocks cut to their size of now."""
        self.unsent, self.rev = 0, rev
        blocks = self.blocks
        for position, index in enumerate(sorted(blocks) if len(blocks) > 1 else blocks):
            block = blocks[index]
            block.position = position
            if block.final is None:
                block.published, block.published_hold = block.size, block.hold

    def data(self, status: str, published: bool = False) -> AssistantData:
        blocks = to_json([self.blocks[index].render(published) for index in sorted(self.blocks)])
        return AssistantData(
            status,
            blocks=blocks,
            usage=self.usage,
            step_start_time=self.start_time,
            first_token_time=self.token_time,
        )

    def token(self, time: int | None) -> bool:
        """The first token; whether this was it."""
        if self.token_seen:
            return False
        self.token_seen, self.token_time = True, time
        return True


class Steps:
    """The steps of turns that have not ended."""

    __slots__ = ("current", "index", "table")

    def __init__(self) -> None:
        self.table: Table[Step] = Table()
        self.index: Map[tuple[int | None, int | None], int] = Map()
        self.current: Step | None = None

    def fork(self) -> Steps:
        twin = Steps.__new__(Steps)
        twin.table, twin.index = self.table.fork(), self.index
        twin.current = self.current.fork() if self.current else None
        return twin

    def rest(self) -> None:
        """Put the open step back into the table (before a save, or for another one)."""
        if self.current is not None:
            self.table.put(self.current.key, self.current)
            self.current = None

    def get(self, turn: int | None, step: int | None) -> Step | None:
        """The step of that name, ready to be changed; None when there is none."""
        current = self.current
        if current is not None and current.step == step and current.turn == turn:
            return current
        key = self.index.get((turn, step))
        if key is None:
            return None
        self.rest()
        self.current = self.table[key].fork()
        return self.current

    def at(self, key: int) -> Step:
        """The record made at that seq, to be read only."""
        current = self.current
        return current if current is not None and current.key == key else self.table[key]

    def peek(self, turn: int | None, step: int | None) -> Step | None:
        """The step of that name, to be read only."""
        current = self.current
        if current is not None and current.step == step and current.turn == turn:
            return current
        key = self.index.get((turn, step))
        return None if key is None else self.table[key]

    def open(self, turn: Turn, step: int | None, seq: int) -> Step:
        """A fresh step of that name; what belongs to an earlier one of that name goes with it."""
        self.rest()
        name = (turn.number, step)
        old = self.index.get(name)
        fresh = Step(seq, turn.number, step)
        if old is not None:
            before = self.table[old].fork()
            fresh.announces, fresh.tools, fresh.retries = (
                before.announces,
                before.tools,
                before.retries,
            )
            fresh.sample, fresh.sample_generation = before.sample, before.sample_generation
            fresh.retried = before.retried
            self.table.drop(old)
            turn.steps.remove(old)
        self.index = self.index.set(name, seq)
        turn.steps.append(seq)
        self.current = fresh
        return fresh

    def running(self) -> list[Step]:
        """Steps with a running row, by the seq of their record."""
        steps = dict(self.table.rows)
        if self.current is not None:
            steps[self.current.key] = self.current
        found = (steps[key] for key in sorted(steps))
        return [s for s in found if s.row is not None and not s.settled and not s.closed]

    def forget(self, turn: Turn) -> None:
        """Drop all steps of an ended turn."""
        self.rest()
        for key in turn.steps:
            step = self.table[key]
            self.index = self.index.delete((step.turn, step.step))
            self.table.drop(key)
