"""Assistant rows: one step from its first chunk to its final message (projection.md §5.1).

A step gathers blocks from chunks until its final message, a retry or its closing. The step being
streamed is kept open for change; all others rest in a table and are never changed in place.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import msgspec
from immutables import Map
from msgspec import Raw

from .changes import AssistantData
from .events import (
    AssistantMessage,
    BlockEnd,
    BlockStart,
    Chunk,
    OtherChunk,
    Run,
    TextDelta,
    ToolDelta,
    Usage,
    UsageChunk,
)
from .out import Growth, Out, RowPlace
from .table import Table
from .text import is_blank, pair, to_json
from .totals import elapsed
from .turns import Turn

PIECE = 8192  #: code points of open text that are sealed, so that a batch saves only what it added
UNSENT = 65536  #: open text after which the whole row is published again
INTERRUPTED_RANK = -90
_HIGH = ("\ud800", "\udbff")


class Block(msgspec.Struct):
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

    def append(self, text: str) -> str:
        """Add text; what of it can be shown now (a half character cannot)."""
        if self.hold or (text and _HIGH[0] <= text[-1] <= _HIGH[1]):
            text = pair(self.hold + text)
            self.hold = ""
            if text and _HIGH[0] <= text[-1] <= _HIGH[1]:
                text, self.hold = text[:-1], text[-1]
        self.tail += text
        self.size += len(text)
        if len(self.tail) >= PIECE:
            self.sealed, self.tail = (*self.sealed, self.tail), ""
        return text

    @property
    def visible(self) -> bool:
        return self.nonblank or self.type not in ("text", "reasoning", "tool-call")

    def render(self) -> Any:
        if self.final is not None:
            return self.final
        text = "".join(self.sealed) + self.tail + self.hold
        if self.type == "tool-call":
            return {"type": self.type, "id": self.id, "name": self.name, "arguments": text}
        if self.type in ("text", "reasoning"):
            return {"type": self.type, "text": text}
        return {"type": self.type}


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
        twin = copy(self)
        twin.announces, twin.tools = self.announces.copy(), self.tools.copy()
        twin.retries = self.retries.copy()
        twin.blocks = {index: copy(block) for index, block in self.blocks.items()}
        return twin

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

    def data(self, status: str) -> AssistantData:
        blocks = to_json([self.blocks[index].render() for index in sorted(self.blocks)])
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
        twin = Steps()
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

    def name_of(self, key: int) -> tuple[int | None, int | None]:
        """Turn and step of the record made at that seq."""
        current = self.current
        step = current if current is not None and current.key == key else self.table[key]
        return step.turn, step.step

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


# --- chunks ---------------------------------------------------------------------------------------


class At(msgspec.Struct, frozen=True):
    """Where a chunk stands: seq and time of its event, of the last one for a packed row."""

    seq: int
    time: int | None
    last_seq: int
    last_time: int | None


def take_chunk(step: Step, chunk: Chunk | Run, at: At, out: Out) -> bool:
    """Fold one chunk into an open step; whether the row itself has to be published.

    Text that only lengthens a block goes out as growth instead."""
    if step.first is None:
        step.first = (at.seq, at.time)
    match chunk:
        case TextDelta(index, kind, text):
            return _grow(step, (index, kind, text), at, out)
        case Run():
            return _take_run(step, chunk, at, out)
        case ToolDelta(index, call_id, name, text):
            changed = _name_call(step, index, call_id, name, at)
            if name is not None or text:
                changed |= step.token(at.time)
            return _grow(step, (index, "tool-call", text), at, out, changed)
        case BlockStart(index, kind):
            _see(step, step.new_block(index, kind), at.seq, at.time)
            return _has_row(step, at)
        case BlockEnd():
            return _end_block(step, chunk, at)
        case UsageChunk(raw, _):
            step.usage = raw
            return step.row is not None
        case OtherChunk():
            return False


def _has_row(step: Step, at: At) -> bool:
    """A running row exists from the first block on."""
    if step.row is None:
        step.row = at.seq
    return True


def _see(step: Step, block: Block, seq: int, time: int | None) -> bool:
    """Whether that block makes the step visible now."""
    if step.shown is not None or not block.visible:
        return False
    step.shown = (seq, time)
    return True


def _block(step: Step, index: int, kind: str, at: At) -> tuple[Block, bool]:
    """The open block of that index and kind; opened (True) when there is none."""
    block = step.blocks.get(index)
    if block is not None and block.type == kind:
        if block.final is not None:
            block = _reopen(step, index, block)
        return block, False
    block = step.new_block(index, kind)
    _has_row(step, at)
    return block, True


def _reopen(step: Step, index: int, block: Block) -> Block:
    """An ended block as open text, for a delta that comes after its end."""
    final = msgspec.json.decode(block.final or b"{}")
    text = final.get("arguments" if block.type == "tool-call" else "text")
    opened = step.new_block(index, block.type)
    opened.id, opened.name, opened.nonblank = block.id, block.name, block.nonblank
    opened.append(text if isinstance(text, str) else "")
    return opened


def _name_call(step: Step, index: int, call_id: str | None, name: str | None, at: At) -> bool:
    """Keep the first id and the last name; whether the block is new or either changed."""
    block, changed = _block(step, index, "tool-call", at)
    if call_id and not block.id:
        block.id, changed = call_id, True
    if name is not None and name != block.name:
        block.name, changed = name, True
    return changed


def _grow(
    step: Step,
    delta: tuple[int, str, str],
    at: At,
    out: Out,
    changed: bool = False,
) -> bool:
    index, kind, text = delta
    block, opened = _block(step, index, kind, at)
    changed |= opened
    if text:
        if not step.token_seen:
            changed |= step.token(at.time)
        if not block.nonblank and kind != "tool-call" and not is_blank(text):
            block.nonblank = True
            changed |= _see(step, block, at.seq, at.time)
        changed |= _append(step, block, index, at, out, text, changed)
    return changed


def _append(
    step: Step, block: Block, index: int, at: At, out: Out, text: str, changed: bool
) -> bool:
    offset = block.size
    text = block.append(text)
    step.unsent += len(text)
    step.rev = at.last_seq
    if changed or step.unsent >= UNSENT:
        return True
    if out.wants_partials and text:
        out.grow(
            Growth(
                f"assistant:{step.row}",
                step.turn,
                step.step,
                index,
                block.type,
                offset,
                at.seq,
                at.last_seq,
                at.last_time,
                [text],
            )
        )
    return False


def _take_run(step: Step, run: Run, at: At, out: Out) -> bool:
    """A packed row as one delta: its members decide first token and visibility one by one."""
    changed = False
    if run.kind == "tool-call":
        changed = _name_call(step, run.index, run.id, run.name, at)
    block, opened = _block(step, run.index, run.kind, at)
    spread = at.last_seq > at.seq
    for k, text in enumerate(run.texts):
        if step.token_seen and (block.nonblank or run.kind == "tool-call"):
            break
        if not step.token_seen and (text or run.name is not None):
            changed |= step.token(run.times[k])
        if not block.nonblank and run.kind != "tool-call" and not is_blank(text):
            block.nonblank = True
            changed |= _see(step, block, at.seq + k if spread else at.seq, run.times[k])
    changed |= opened
    text = "".join(run.texts)
    if text:
        changed |= _append(step, block, run.index, at, out, text, changed)
    return changed


def _end_block(step: Step, chunk: BlockEnd, at: At) -> bool:
    """The final block overwrites what was gathered."""
    shown = chunk.type in ("text", "reasoning") and not chunk.blank
    block = step.new_block(chunk.index, chunk.type)
    block.id, block.name, block.final, block.nonblank = (
        chunk.call_id,
        chunk.name,
        chunk.block,
        shown,
    )
    if step.shown is not None and not any(held.visible for held in step.blocks.values()):
        step.shown = None
    _see(step, block, at.seq, at.time)
    return _has_row(step, at)


# --- publishing, settling, closing ----------------------------------------------------------------


def publish(step: Step, rev: int, out: Out) -> None:
    """The running row as it stands; built when the batch is published."""
    step.unsent, step.rev = 0, rev
    seen = step.fork()
    out.row(step.place(rev), lambda: seen.data("running"))


def discard(step: Step, rev: int, out: Out) -> None:
    """``llm/retry``: the partial blocks and the running row go, the first token stays."""
    if step.row is not None:
        out.row(step.place(rev), None)
    step.blocks, step.first, step.shown, step.row, step.usage = {}, None, None, None, None
    step.unsent = 0


def close(step: Step, turn: Turn, seq: int, time: int | None, out: Out) -> bool:
    """The step or its turn closes: partial content is frozen, an empty row removed. Whether a row
    was frozen."""
    if step.closed:
        return False
    step.closed, step.closed_at = True, (seq, time)
    if step.settled or step.row is None:
        return False
    blocks = step.blocks.values()
    if any(block.nonblank or block.type == "tool-call" for block in blocks):
        place = RowPlace(
            "assistant", step.row, seq, INTERRUPTED_RANK, seq, True, step.turn, step.step, time
        )
        out.row(place, step.data("interrupted"))
        if any(block.nonblank and block.type == "text" for block in blocks):
            turn.closing = (seq, INTERRUPTED_RANK, time)
        step.blocks = {}
        return True
    discard(step, seq, out)
    return False


def settle(
    step: Step, turn: Turn, message: AssistantMessage, at: At, out: Out, row: int
) -> RowPlace:
    """The final message: it replaces all blocks and stands at its own seq, in the row ``row``."""
    status = "interrupted" if message.interrupted else "settled"
    stream = message.stream
    token_time = step.token_time
    if not step.token_seen and stream is not None and stream.first_token_time is not None:
        token_time = stream.first_token_time
        if not step.settled:
            step.token(token_time)
    usage = message.usage_raw or (stream.usage_raw if stream else None)
    place = RowPlace(
        "assistant",
        row,
        at.seq,
        0,
        at.seq,
        message.visible or message.interrupted,
        step.turn,
        step.step,
        at.time,
    )
    data = AssistantData(
        status,
        message.id,
        message.content,
        usage,
        message.provider,
        message.model,
        step.start_time,
        token_time,
        at.time,
    )
    out.row(place, data)
    if message.has_text:
        turn.closing = (at.seq, 0, at.time)
    return place


def measure(step: Step, turn: Turn, sample: Usage | None, time: int | None) -> None:
    """First-token and decode figures of a step's first final message (§5.6); a step that never got
    one has none."""
    if turn.started and step.step == turn.first_step:
        turn.ttft_ms = elapsed(step.start_time, step.token_time)
    decode = elapsed(step.token_time, time)
    if decode is not None and sample is not None and sample.has_output:
        turn.decode_ms = (turn.decode_ms or 0) + decode
        turn.decode_tokens = (turn.decode_tokens or 0) + sample.output
