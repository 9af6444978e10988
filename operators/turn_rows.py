"""What turn and step boundaries change: frozen rows, interrupted calls, the turn's rows (§5.6)."""

from __future__ import annotations

from . import assistant
from .changes import MaxTokensData, TurnData, TurnErrorData
from .events import Event, StepEnd, StepStart, TurnEnd, TurnStart
from .out import Out, RowPlace
from .rooms import Rooms
from .steps import Step
from .totals import usage_data
from .turns import Turn

TURN_RANK = 10
MAX_TOKENS_RANK = 5
MOST_COUNTS = 64  #: the log's reasons are a dozen
LONGEST_REASON = 64


def on_turn_start(rooms: Rooms, event: Event, body: TurnStart, _: Out) -> None:
    if body.turn is None:
        return rooms.note("malformed")
    return rooms.turns.start(body.turn, event.time)


def on_step_start(rooms: Rooms, event: Event, body: StepStart, out: Out) -> None:
    turn_number, number = rooms.turns.place(body.turn, None)[0], body.step
    if number is None:
        return rooms.note("malformed")
    turn = rooms.turns.record(turn_number)
    earlier = rooms.steps.get(turn_number, number)
    if earlier is not None and not earlier.closed:
        _close_row(rooms, earlier, turn, event, out)
    step = rooms.steps.open(turn, number, event.seq)
    step.start_time = event.time
    step.reopened = not turn.open
    if turn.started and turn.first_step is None:
        turn.first_step = number
    if number == turn.first_step:
        turn.ttft_ms = None
    if turn_number == rooms.turns.open_turn:
        rooms.turns.open_step = number
    return None


def on_step_end(rooms: Rooms, event: Event, body: StepEnd, out: Out) -> None:
    place = rooms.turns.place(body.turn, body.step)
    if not rooms.accepts_chunks(*place):
        return
    turn, step = rooms.step_of(*place, event)
    turn.step_ends += 1
    _close_step(rooms, step, turn, event, out)
    if place == (rooms.turns.open_turn, rooms.turns.open_step):
        rooms.turns.open_step = None


def _close_row(rooms: Rooms, step: Step, turn: Turn, event: Event, out: Out) -> None:
    """The step's assistant row is frozen or removed, unless it is settled."""
    running = not step.settled and not step.closed
    frozen = assistant.close(step, turn, event.seq, event.time, out)
    if running:
        rooms.count_row(step, frozen, event.seq)


def _close_step(rooms: Rooms, step: Step, turn: Turn, event: Event, out: Out) -> None:
    _close_row(rooms, step, turn, event, out)
    rooms.tools.close(step.tools, (event.seq, event.time), out)
    rooms.retries.close(step.retries, event.seq, out)


def on_turn_end(rooms: Rooms, event: Event, body: TurnEnd, out: Out) -> None:
    number = rooms.turns.place(body.turn, None)[0]
    turn = rooms.turns.records.get(number) or Turn(number, open=False)
    tool_calls = tool_errors = 0
    for key in turn.steps:
        step = rooms.steps.at(key)
        if not step.closed:  # in a closed one nothing is open any more
            step = rooms.steps.get(step.turn, step.step) or step
            _close_step(rooms, step, turn, event, out)
        tools = [rooms.tools.table[tool] for tool in step.tools]
        tool_calls += len(tools)
        tool_errors += sum(tool.status == "error" for tool in tools)
    _turn_row(turn, event, body, (tool_calls, tool_errors), out)
    _outcome_row(turn, event, body, out)
    _forget(rooms, turn)
    rooms.note("dispatch_dropped", rooms.tools.nested.drop_waiting())
    rooms.turns.end(number)
    rooms.totals.count(_reason_count(rooms, body.reason or "unknown"))
    rooms.last_end = body.reason or "unknown"


def _reason_count(rooms: Rooms, reason: str) -> str:
    """The count of that reason; hostile ones share one, so that no log makes overviews grow."""
    name = f"turns_{reason}"
    known = name in rooms.totals.counts or len(rooms.totals.counts) < MOST_COUNTS
    return name if known and len(reason) <= LONGEST_REASON else "turns_other"


def _turn_row(turn: Turn, event: Event, body: TurnEnd, tools: tuple[int, int], out: Out) -> None:
    data = TurnData(
        body.reason,
        body.detail,
        turn.step_ends,
        *tools,
        None if turn.usage is None else usage_data(turn.usage),
        turn.start_time,
        event.time,
        turn.ttft_ms,
        turn.decode_ms,
        turn.decode_tokens,
        turn.closing[0] if turn.closing else None,
    )
    seq = event.seq
    place = RowPlace("turn", seq, seq, TURN_RANK, seq, False, turn.number, None, event.time)
    out.row(place, data)


def _outcome_row(turn: Turn, event: Event, body: TurnEnd, out: Out) -> None:
    """A turn that failed or hit the output cap says so in a row of its own."""
    seq = event.seq
    if body.reason == "error":
        masked = body.error_code == "AUTH"
        data = TurnErrorData(None if masked else body.error_message, body.error_code, masked)
        place = RowPlace("turn-error", seq, seq, 0, seq, True, turn.number, None, event.time)
        out.row(place, data)
    elif body.reason == "max-tokens":
        anchor, rank, time = seq, 0, event.time
        if turn.closing is not None:
            anchor, rank, time = turn.closing
            rank += MAX_TOKENS_RANK
        place = RowPlace("max-tokens", seq, anchor, rank, seq, True, turn.number, None, time)
        out.row(place, MaxTokensData(turn.closing[0] if turn.closing else None))


def _forget(rooms: Rooms, turn: Turn) -> None:
    """What a turn settled leaves the state (§5.7)."""
    for key in turn.steps:
        step = rooms.steps.at(key)
        rooms.tools.forget(step.tools)
        rooms.retries.forget(step.retries)
        rooms.tools.forget_announcements(turn.number, [call_id for call_id, _ in step.announces])
    rooms.steps.forget(turn)
