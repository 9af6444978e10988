"""Assistant rows: running, settled by the final message, discarded by a retry, frozen by a boundary
(projection.md §5.1). How chunks become blocks is ``chunks.py``."""

from __future__ import annotations

from .changes import AssistantData
from .events import AssistantMessage, Event, Usage
from .out import Out, RowPlace
from .steps import Step
from .totals import bounded, elapsed
from .turns import Turn

INTERRUPTED_RANK = -90


def publish(step: Step, rev: int, out: Out) -> None:
    """The running row as it stands; built when the batch is published."""
    step.publish(rev)
    out.row(step.place(rev), lambda: step.data("running", published=True))


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
    step: Step,
    turn: Turn,
    event: Event,
    row: int,
    out: Out,
) -> RowPlace:
    """The final message: it replaces all blocks and stands at its own seq, in the row ``row``."""
    seq, time, message = event.seq, event.time, event.body
    assert isinstance(message, AssistantMessage)
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
        seq,
        0,
        seq,
        message.visible or message.interrupted,
        step.turn,
        step.step,
        time,
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
        time,
    )
    out.row(place, data)
    if message.has_text:
        turn.closing = (seq, 0, time)
    return place


def measure(step: Step, turn: Turn, sample: Usage | None, time: int | None) -> None:
    """First-token and decode figures of a step's first final message (§5.6); a step that never got
    one has none."""
    if turn.started and step.step == turn.first_step:
        turn.ttft_ms = elapsed(step.start_time, step.token_time)
    decode = elapsed(step.token_time, time)
    if decode is not None and sample is not None and sample.has_output:
        turn.decode_ms = bounded((turn.decode_ms or 0) + decode)
        turn.decode_tokens = bounded((turn.decode_tokens or 0) + sample.output)
