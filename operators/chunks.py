"""Stream chunks gathered into a step's blocks (projection.md §5.1).

Each function folds one kind of chunk and says whether the running row has to be published; text
that only lengthens a block goes out as growth instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .events import (
    BlockEnd,
    BlockStart,
    OtherChunk,
    Run,
    TextDelta,
    ToolDelta,
    UsageChunk,
)
from .out import Growth, Out
from .steps import Block, Step
from .text import is_blank, paired

UNSENT = 65536  #: open text after which the whole row is published again


def take_text(step: Step, chunk: TextDelta, seq: int, time: int | None, out: Out) -> bool:
    block = step.blocks.get(chunk.index)
    changed = False
    if block is None or block.final is not None or block.type != chunk.kind:
        block, changed = _block(step, chunk.index, chunk.kind, seq)
    text = chunk.text
    if not text:
        return changed
    if not (step.token_seen and block.nonblank):
        changed |= _first_text(step, block, text, seq, time)
    return _append(step, block, seq, seq, time, text, out, changed)


def _first_text(step: Step, block: Block, text: str, seq: int, time: int | None) -> bool:
    """Text that may be the first token, or what makes the step visible."""
    changed = not step.token_seen and step.token(time)
    if not block.nonblank and not is_blank(text):
        changed |= _see(step, block, seq, time)
    return changed


def take_call(step: Step, chunk: ToolDelta, seq: int, time: int | None, out: Out) -> bool:
    block, changed = _call_block(step, chunk.index, chunk.id, chunk.name, seq)
    if (chunk.arguments or chunk.name is not None) and not step.token_seen:
        changed = step.token(time)
    if not chunk.arguments:
        return changed
    return _append(step, block, seq, seq, time, chunk.arguments, out, changed)


def take_start(step: Step, chunk: BlockStart, seq: int, time: int | None, _: Out) -> bool:
    _look(step, step.new_block(chunk.index, chunk.block_type), seq, time)
    return _has_row(step, seq)


def take_end(step: Step, chunk: BlockEnd, seq: int, time: int | None, _: Out) -> bool:
    """The final block overwrites what was gathered."""
    block = step.new_block(chunk.index, chunk.type)
    block.id, block.name, block.final = chunk.call_id, chunk.name, chunk.block
    block.nonblank = chunk.type in ("text", "reasoning") and not chunk.blank
    _look(step, block, seq, time)
    return _has_row(step, seq)


def take_usage(step: Step, chunk: UsageChunk, *_: object) -> bool:
    before, step.usage = step.usage, chunk.raw
    return step.row is not None and (before is None or before != chunk.raw)


def take_other(*_: object) -> bool:
    return False


def take_run(step: Step, run: Run, seq: int, out: Out, spread: bool = True) -> bool:
    """A packed row as one delta: its members decide first token and visibility one by one; they
    have a seq each (``spread``) in the log, none in an embedded stream."""
    if run.kind == "tool-call":
        block, changed = _call_block(step, run.index, run.id, run.name, seq)
    else:
        block, changed = _block(step, run.index, run.kind, seq)
    for k, text in enumerate(run.texts):
        if step.token_seen and (block.nonblank or run.kind == "tool-call"):
            break
        if not step.token_seen and (text or run.name is not None):
            changed = step.token(run.times[k])
        if not block.nonblank and run.kind != "tool-call" and not is_blank(text):
            changed |= _see(step, block, seq + k if spread else seq, run.times[k])
    joined = paired("".join(run.texts))
    if not joined:
        return changed
    last = seq + len(run.texts) - 1 if spread else seq
    return _append(step, block, seq, last, run.times[-1], joined, out, changed)


TAKES: dict[type, Callable[[Step, Any, int, int | None, Out], bool]] = {
    TextDelta: take_text,
    ToolDelta: take_call,
    BlockStart: take_start,
    BlockEnd: take_end,
    UsageChunk: take_usage,
    OtherChunk: take_other,  # no effect
}


def _has_row(step: Step, seq: int) -> bool:
    """A running row exists from the first block on."""
    if step.row is None:
        step.row = seq
    return True


def _look(step: Step, block: Block, seq: int, time: int | None) -> None:
    """Whether the step is visible, now that ``block`` took the place of another."""
    if block.visible:
        step.shown = step.shown or (seq, time)
    elif step.shown is not None and not any(held.visible for held in step.blocks.values()):
        step.shown = None


def _see(step: Step, block: Block, seq: int, time: int | None) -> bool:
    """The block is not blank any more; whether that makes the step visible now."""
    block.nonblank = True
    if step.shown is not None:
        return False
    step.shown = (seq, time)
    return True


def _block(step: Step, index: int, kind: str, seq: int) -> tuple[Block, bool]:
    """The open block of that index and kind; opened (True) when there is none."""
    block = step.blocks.get(index)
    if block is not None and block.type == kind:
        return (block if block.final is None else _reopen(step, index, block)), False
    opened = step.new_block(index, kind)
    _look(step, opened, seq, None)  # it may have taken the place of the only visible one
    return opened, _has_row(step, seq)


def _reopen(step: Step, index: int, block: Block) -> Block:
    """An ended block as open text, for a delta that comes after its end."""
    final = json.loads(bytes(block.final or b"{}"))  # it may hold half characters
    text = final.get("arguments" if block.type == "tool-call" else "text")
    opened = step.new_block(index, block.type)
    opened.id, opened.name, opened.nonblank = block.id, block.name, block.nonblank
    opened.position = block.position
    if isinstance(text, str) and text:
        opened.append(text)
    opened.published, opened.published_hold = opened.size, opened.hold
    return opened


def _call_block(
    step: Step, index: int, call_id: str | None, name: str | None, seq: int
) -> tuple[Block, bool]:
    """The open tool-call block; whether it is new or its id (the first) or name (the last) is."""
    block, changed = _block(step, index, "tool-call", seq)
    if call_id and not block.id:
        block.id, changed = call_id, True
    if name is not None and name != block.name:
        block.name, changed = name, True
    return block, changed


def _append(  # noqa: PLR0917 - the hot path, no object for a delta
    step: Step,
    block: Block,
    seq: int,
    last_seq: int,
    time: int | None,
    text: str,
    out: Out,
    changed: bool,
) -> bool:
    """Add text to a block. ``changed``: the row is published anyway, so nothing goes out apart."""
    offset = block.size
    text = block.append(text)
    if not text:  # a half character alone is not shown yet
        return changed
    unsent = step.unsent = step.unsent + len(text)
    step.rev = last_seq
    if changed or unsent >= UNSENT:
        return True
    row = step.row
    if out.wants_partials and row is not None:
        at = block.position
        held = out.partials.get((row, at))
        if held is None:
            out.partials[row, at] = Growth(
                row, step.turn, step.step, at, block.type, offset, seq, last_seq, time, [text]
            )
        else:
            held.texts.append(text)
            held.last_seq, held.time = last_seq, time
    return False
