"""The transcript: what each event changes in the rows a person reads (projection.md §5).

One function per kind of event, in one table at the end. A replacement changes no row, with one
exception: a checkpoint makes or joins a marker (law ``transcript_is_append_origin``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import assistant, chunks
from .changes import MessageData, UnknownData
from .compactions_and_commands import (
    on_command,
    on_compaction_end,
    on_compaction_start,
    on_compaction_summary,
    on_end_seed,
    on_landed,
)
from .events import (
    Append,
    AssistantAttempt,
    AssistantChunk,
    AssistantMessage,
    CommandDone,
    CommandRun,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    DeveloperMessage,
    Dispatch,
    EndSeed,
    Event,
    Fact,
    ImageOffload,
    InboxSplice,
    LogOnly,
    Prune,
    RequestContext,
    RequestHeader,
    Retry,
    RetryStarted,
    Run,
    StepEnd,
    StepStart,
    SystemMessage,
    Title,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    Unknown,
    UsageChunk,
    UserMessage,
)
from .out import Out, RowPlace
from .rooms import Rooms
from .steps import Step
from .surface_changes import on_image_offload
from .tool_rows import on_dispatch, on_tool_call, on_tool_result
from .turn_rows import on_step_end, on_step_start, on_turn_end, on_turn_start

Handler = Callable[[Rooms, Event, Any, Out], None]


def on_user(rooms: Rooms, event: Event, body: UserMessage, out: Out) -> None:
    claimed = rooms.inbox.use(body.id)
    source = body.source
    if not isinstance(event.marker, Append):
        if source.checkpoint is not None:
            on_landed(rooms, event, source.checkpoint, out)
        return
    kind = "context"
    if source.kind == "user" or body.steering:
        kind = "steering" if claimed or body.steering else "user"
    place = rooms.turns.place(None, None)
    data = MessageData(body.id, body.content, source.raw, source.producer, source.form)
    out.row(RowPlace(kind, event.seq, event.seq, 0, event.seq, True, *place, event.time), data)
    rooms.totals.count(kind)


def on_system(rooms: Rooms, event: Event, body: SystemMessage | DeveloperMessage, out: Out) -> None:
    if not isinstance(event.marker, Append):
        return
    place = rooms.turns.place(body.turn, body.step)
    source = body.source
    if isinstance(body, SystemMessage):
        kind, visible = "system", False
        data = MessageData(body.id, body.content, source.raw)
    else:
        kind, visible = "context", True
        data = MessageData(body.id, body.content, source.raw, source.producer, source.form)
    out.row(RowPlace(kind, event.seq, event.seq, 0, event.seq, visible, *place, event.time), data)
    if visible:
        rooms.totals.count(kind)


def on_assistant(rooms: Rooms, event: Event, body: AssistantMessage, out: Out) -> None:
    place = rooms.turns.place(body.turn, body.step)
    if not isinstance(event.marker, Append):
        return
    turn, step = rooms.step_of(*place, event)
    sample = body.usage or (body.stream.usage if body.stream else None)
    rooms.account(turn, step, sample)
    is_second = step.settled
    row = event.seq if is_second or step.row is None else step.row
    visible = assistant.settle(step, turn, event, row, out).visible
    if is_second:
        if visible:
            rooms.totals.count("assistant")
    else:
        assistant.measure(step, turn, sample, event.time)
        rooms.count_row(step, visible, event.seq)
        step.settled, step.blocks, step.row = True, {}, row
    if body.provider is not None:
        rooms.provider, rooms.model = body.provider, body.model
    for call_id in body.calls:
        rooms.tools.announce_late(event.seq, *place, call_id, out)
    rooms.tools.announce(event.seq, *place, body.calls)
    step.announces += [(call_id, event.seq) for call_id in body.calls]


def on_chunk(rooms: Rooms, event: Event, body: AssistantChunk, out: Out) -> None:
    turn_number, step_number = body.turn, body.step
    if turn_number is None or step_number is None:
        turn_number, step_number = rooms.turns.place(turn_number, step_number)
    step = rooms.steps.current
    if step is None or step.step != step_number or step.turn != turn_number or step.closed:
        if not rooms.accepts_chunks(turn_number, step_number):
            return
        _, step = rooms.step_of(turn_number, step_number, event)
    chunk = body.chunk
    kind = chunk.__class__
    if kind is UsageChunk:
        rooms.account(rooms.turns.record(turn_number), step, chunk.usage)  # type: ignore[union-attr]
    if step.settled or step.closed:
        return
    seq = event.seq
    if step.first is None:
        step.first = (seq, event.time)
    if kind is Run:
        if chunks.take_run(step, chunk, seq, out):  # type: ignore[arg-type]
            _publish(rooms, step, seq + event.count - 1, out)
    elif chunks.TAKES[kind](step, chunk, seq, event.time, out):
        _publish(rooms, step, seq, out)


def on_attempt(rooms: Rooms, event: Event, body: AssistantAttempt, out: Out) -> None:
    """An attempt stands for the chunks of its stream; its row is published once."""
    place = rooms.turns.place(body.turn, body.step)
    if not rooms.accepts_chunks(*place):
        return
    turn, step = rooms.step_of(*place, event)
    rooms.account(turn, step, body.stream.usage, attempt=True)
    if step.settled or step.closed:
        return
    silent = Out(partials=False)
    before = None if step.row is None else (step.place(0), step.data("running"))
    rev = step.rev
    if step.first is None and body.records:
        step.first = (event.seq, event.time)
    for record in body.records:
        chunk = record.chunk
        if isinstance(chunk, Run):
            chunks.take_run(step, chunk, event.seq, silent, spread=False)
        else:
            chunks.TAKES[chunk.__class__](step, chunk, event.seq, record.time, silent)
    if step.shown is not None and step.shown[0] == event.seq:
        step.shown = (event.seq, event.time)  # a row's time is its anchor event's (§5)
    if step.row is not None and before != (step.place(0), step.data("running")):
        _publish(rooms, step, event.seq, out)
    else:
        step.rev = rev  # what changed nothing is not published (§5)


def _publish(rooms: Rooms, step: Step, rev: int, out: Out) -> None:
    if step.row is not None:
        assistant.publish(step, rev, out)
        anchor = (step.shown or (step.row, None))[0]
        rooms.count_row(step, step.shown is not None, anchor)


def on_retry(rooms: Rooms, event: Event, body: Retry, out: Out) -> None:
    rooms.totals.count("retries")
    place = rooms.turns.place(body.turn, body.step)
    boundary = rooms.boundary(*place, event)
    _, step = rooms.step_of(*place, event)
    step.retried = True
    if not step.settled and not step.closed:
        rooms.count_row(step, False, event.seq)
        assistant.discard(step, event.seq, out)
    if body.retry_id is not None:
        chain = rooms.retries.retry(event, body, place, boundary is not None, out)
        if chain is not None:
            step.retries.append(chain.key)


def on_retry_started(rooms: Rooms, event: Event, body: RetryStarted, out: Out) -> None:
    rooms.retries.started(event.seq, body, out)
    step = rooms.steps.get(*rooms.turns.place(body.turn, body.step))
    if step is not None:
        step.sample, step.retried = None, False


def on_inbox(rooms: Rooms, _: Event, body: InboxSplice, __: Out) -> None:
    if body.next_step is None:
        rooms.note("malformed")
    else:
        rooms.inbox.splice(body)


def on_request_header(rooms: Rooms, _: Event, body: RequestHeader, __: Out) -> None:
    if body.provider is not None:
        rooms.provider, rooms.model = body.provider, body.model


def on_request_context(rooms: Rooms, _: Event, body: RequestContext, __: Out) -> None:
    if body.provider is not None:
        rooms.provider, rooms.model = body.provider, body.model
    rooms.context_window = body.context_window


def on_title(rooms: Rooms, _: Event, body: Title, __: Out) -> None:
    if body.title is not None:
        rooms.title = body.title


def on_log_only(rooms: Rooms, event: Event, body: LogOnly | Fact | Prune, out: Out) -> None:
    """Known, and nothing to any row."""


def on_unknown(rooms: Rooms, event: Event, body: Unknown, out: Out) -> None:
    """Kept, opaque, without any other effect (§2)."""
    if not body.ignorable:
        rooms.note("unknown_required_event")
    seq = event.seq
    place = RowPlace("unknown", seq, seq, 0, seq, False, *rooms.turns.place(None, None), event.time)
    out.row(place, UnknownData(event.type, body.ignorable))


HANDLERS: dict[type, Handler] = {
    AssistantChunk: on_chunk,
    UserMessage: on_user,
    AssistantMessage: on_assistant,
    AssistantAttempt: on_attempt,
    SystemMessage: on_system,
    DeveloperMessage: on_system,
    ToolCall: on_tool_call,
    ToolResult: on_tool_result,
    Dispatch: on_dispatch,
    TurnStart: on_turn_start,
    TurnEnd: on_turn_end,
    StepStart: on_step_start,
    StepEnd: on_step_end,
    Retry: on_retry,
    RetryStarted: on_retry_started,
    InboxSplice: on_inbox,
    CommandRun: on_command,
    CommandDone: on_command,
    CompactionStart: on_compaction_start,
    CompactionSummary: on_compaction_summary,
    CompactionEnd: on_compaction_end,
    EndSeed: on_end_seed,
    RequestHeader: on_request_header,
    RequestContext: on_request_context,
    Title: on_title,
    ImageOffload: on_image_offload,
    LogOnly: on_log_only,
    Fact: on_log_only,
    Prune: on_log_only,
    Unknown: on_unknown,
}
