"""Which kind of event each figure is read from: one function per kind, in one table at the end.

    read(session, event, out)            # the session's own readers, after its other rooms
    take(readers, event, session, out)   # any others, a file's that count the whole log

A handler answers with a quality fact or None. What no reader needs costs one look into ``READ``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from operators.events import (
    SURFACE_BODIES,
    AssistantAttempt,
    AssistantChunk,
    AssistantMessage,
    CompactionSummary,
    DeveloperMessage,
    Event,
    Fact,
    ImageOffload,
    Prune,
    Replace,
    RequestContext,
    RequestHeader,
    RetryStarted,
    StepEnd,
    StepStart,
    SystemMessage,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    Usage,
    UsageChunk,
    UserMessage,
)
from operators.nodes import Node
from operators.out import Out
from operators.rooms import Rooms
from operators.surface import Surface

from . import losses, projections
from .context import AstrayClaim
from .held import Note, Shadowed
from .javascript import UnreadableError
from .losses import Break
from .pairing import TORN
from .prices import price
from .request import read_header
from .rooms import (
    BILLING,
    CONTEXT,
    HEADER,
    LOSSES,
    SMALL,
    STATISTICS,
    SYSTEMS,
    TOKENS,
    Readers,
)
from .usage import Route, sample_of

BREAKDOWN, MEASURE = "reader:contextBreakdown", "reader:measure"
OF_WHOLE_LOGS = frozenset((BREAKDOWN, TORN))


def read(rooms: Rooms, event: Event, out: Out) -> None:
    """Show the session's readers an event of ``READ`` that its other rooms have just taken."""
    readers, body = rooms.readers, event.body
    if (
        body.__class__ is not AssistantChunk  # most events are, and few of them matter
        or body.chunk.__class__ is UsageChunk
        or readers.statistics.clock.awaiting
    ):
        note = rooms.note if not rooms.order.is_window else partial(_note_in_window, rooms)
        take(readers, event, rooms, out, note)


def _note_in_window(rooms: Rooms, fact: str) -> None:
    """Where something of the log was not seen, halves and prices are missing rightly (§7)."""
    if fact not in OF_WHOLE_LOGS:
        rooms.note(fact)


def take(readers: Readers, event: Event, rooms: Rooms, out: Out, note: Note) -> None:
    """Show readers an event that the session took; ``note`` hears of quality facts. Never
    raises."""
    body = event.body
    kind = body.__class__
    handler, small = _NEEDED.get(kind, _NOTHING)
    if handler is not None:
        fact = handler(readers, event, body, rooms, out)
        if fact is not None:
            note(fact)
    gone: Shadowed = ()
    if kind is Fact or event.marker.__class__ is Replace:
        gone = out.shadowed if event.marker.__class__ is Replace else ()
        small = projections.needed(event, gone)
    if small:
        readers.enter(SMALL).read(small, event, gone, note)


# --- usage ----------------------------------------------------------------------------------------


def _sample(readers: Readers, event: Event, body: Any, rooms: Rooms, sample: Usage) -> None:
    """A usage sample of a message, an attempt or a chunk."""
    embedded = isinstance(body, AssistantAttempt) or (
        isinstance(body, AssistantMessage) and body.stream is not None
    )
    turn, step = body.turn, body.step
    readers.enter(TOKENS).take(turn, step, sample, embedded)
    total = rooms.totals.usage
    if total is not readers.billing.usage:
        told = (turn, step, event.time, sample)
        readers.enter(BILLING).take(told, total, rooms.provider, rooms.model)
    readers.enter(CONTEXT).sample(sample)


def on_chunk(readers: Readers, event: Event, body: AssistantChunk, rooms: Rooms, _: Out) -> None:
    if readers.statistics.clock.awaiting:
        readers.enter(STATISTICS).chunk(event, body)
    chunk = body.chunk
    if isinstance(chunk, UsageChunk):
        _sample(readers, event, body, rooms, chunk.usage)
    if readers.measure is not None:
        readers.measure.chunk(event, body)


def on_attempt(
    readers: Readers, event: Event, body: AssistantAttempt, rooms: Rooms, _: Out
) -> None:
    readers.enter(STATISTICS).attempt(body)
    sample = sample_of(body)
    if sample is not None:
        _sample(readers, event, body, rooms, sample)


def on_retry_started(readers: Readers, _: Event, body: RetryStarted, __: Rooms, ___: Out) -> None:
    readers.enter(TOKENS).retry_started(body)


# --- the surface ----------------------------------------------------------------------------------


def on_message(
    readers: Readers, event: Event, body: AssistantMessage, rooms: Rooms, out: Out
) -> str | None:
    readers.enter(STATISTICS).message(event, body)
    sample = sample_of(body)
    if sample is not None:
        _sample(readers, event, body, rooms, sample)
    return on_surface(readers, event, body, rooms, out)


def on_result(
    readers: Readers, event: Event, body: ToolResult, rooms: Rooms, out: Out
) -> str | None:
    readers.enter(STATISTICS).tool_result(event, body)
    return on_surface(readers, event, body, rooms, out)


def on_surface(readers: Readers, event: Event, body: Any, rooms: Rooms, out: Out) -> str | None:
    """A node joined the surface, or took the place of others."""
    node = out.landed
    assert node is not None
    if event.marker.__class__ is Replace:
        return _replace(readers, event, rooms, out) or _unread(event, node)
    tokens, is_system = node.tokens, body.__class__ is SystemMessage
    if is_system:
        readers.enter(SYSTEMS).append(node)
    if readers.measure is not None and body.__class__ is AssistantMessage:
        readers.measure.message(event, body, tokens, _surface(rooms).tokens - tokens)
    if tokens:
        readers.enter(CONTEXT).append(tokens)
    if readers.v4 is not None:
        readers.v4.append(event.seq, tokens, is_system)
    return None if tokens else _unread(event, node)


def _surface(rooms: Rooms) -> Surface:
    return Rooms.surface.peek(rooms)


def _unread(event: Event, node: Node) -> str | None:
    """Whether a node costs nothing because its content is beyond reading."""
    if not node.tokens:
        try:
            price(event)
        except UnreadableError:
            return MEASURE
    return None


def _replace(readers: Readers, event: Event, rooms: Rooms, out: Out) -> str | None:
    node, gone, change = out.landed, out.shadowed, out.surface[-1]
    assert node is not None
    surface, context = _surface(rooms), readers.enter(CONTEXT)
    tokens, is_system = node.tokens, event.body.__class__ is SystemMessage
    before = surface.tokens - tokens + sum(left.tokens for left in gone)
    if readers.measure is not None and isinstance(event.body, AssistantMessage):
        readers.measure.message(event, event.body, tokens, before)
    if is_system or readers.systems.prices:
        readers.enter(SYSTEMS).replace(gone, node if is_system else None, surface)
    kept = surface.tokens_before(node.key)
    cause = readers.losses.cause(event, change)
    _lose(readers, Break(event.seq, cause, change.position, kept, before - kept))
    parted = context.total - before
    try:
        claimed = context.claimed(change)
    except AstrayClaim:
        return BREAKDOWN
    context.replace(tokens, claimed)
    if readers.v4 is not None:
        readers.v4.replace(change, tokens, claimed, is_system)
    return None if context.total - surface.tokens == parted else BREAKDOWN


def _lose(readers: Readers, found: Break) -> None:
    readers.enter(LOSSES).take(found)
    if readers.breaks is not None:
        readers.breaks.append(found)


def on_offload(readers: Readers, event: Event, _: ImageOffload, rooms: Rooms, out: Out) -> None:
    """Messages that lose their images are other messages from there on."""
    surface = _surface(rooms)
    change = out.surface[-1] if out.surface else None
    if change is None or change.seq != event.seq:
        return
    nodes = [node for target in change.targets if (node := surface.find(target.seq)) is not None]
    if nodes:
        first = min(nodes, key=lambda node: node.key)
        kept = surface.tokens_before(first.key)
        lost = surface.tokens - kept
        _lose(readers, Break(event.seq, losses.IMAGES, surface.position(first.key), kept, lost))


# --- requests, metering ---------------------------------------------------------------------------


def on_header(
    readers: Readers, event: Event, body: RequestHeader, rooms: Rooms, _: Out
) -> str | None:
    """Another system text, tool list or model: nothing of the old prompt is of use."""
    if body.raw is None:
        return None
    raw = hash(bytes(body.raw))  # most steps send the header of the step before
    if raw == readers.read_header:
        return None
    before = readers.header
    try:
        header = read_header(body.raw)
    except UnreadableError:
        return BREAKDOWN
    readers.put(HEADER, header)
    readers.read_header = raw
    if readers.measure is not None:
        readers.measure.header = header
    if before is not None and before.prompt != header.prompt:
        lost = before.tokens + _surface(rooms).tokens
        _lose(readers, Break(event.seq, losses.HEADER, 0, 0, lost))
    return None


def on_request_context(
    readers: Readers, _: Event, body: RequestContext, __: Rooms, ___: Out
) -> None:
    readers.enter(CONTEXT).request_context(body)


def on_summary(
    readers: Readers, event: Event, body: CompactionSummary, rooms: Rooms, out: Out
) -> None:
    on_prune(readers, event, body, rooms, out)
    if body.usage is not None:
        asked = Route(body.provider, body.model)
        if body.provider is None and body.model is None:
            asked = Route(rooms.provider, rooms.model)
        readers.enter(BILLING).take_compaction(rooms.totals.compaction_usage, event.time, asked)


def on_prune(
    readers: Readers, event: Event, body: Prune | CompactionSummary, _: Rooms, __: Out
) -> None:
    readers.enter(CONTEXT).meter(event, body)
    readers.enter(LOSSES).meter(event, body)


# --- turns, steps, calls --------------------------------------------------------------------------


def on_turn_start(readers: Readers, _: Event, __: TurnStart, ___: Rooms, ____: Out) -> None:
    if readers.measure is not None:
        readers.measure.turn_start()


def on_turn_end(readers: Readers, _: Event, __: TurnEnd, ___: Rooms, ____: Out) -> None:
    if readers.statistics.pending:
        readers.enter(STATISTICS).turn_end()


def on_step_start(readers: Readers, event: Event, body: StepStart, rooms: Rooms, _: Out) -> None:
    readers.enter(STATISTICS).step_start(event, body)
    if readers.measure is not None:
        readers.measure.step_start(body, _surface(rooms).tokens)


def on_step_end(readers: Readers, _: Event, body: StepEnd, __: Rooms, ___: Out) -> None:
    readers.enter(STATISTICS).step_end(body)
    if readers.measure is not None:
        readers.measure.step_end()


def on_call(readers: Readers, event: Event, body: ToolCall, _: Rooms, __: Out) -> None:
    readers.enter(STATISTICS).tool_call(event, body)


Handler = Callable[[Readers, Event, Any, Rooms, Out], str | None]
HANDLERS: dict[type, Handler] = {
    AssistantChunk: on_chunk,
    AssistantAttempt: on_attempt,
    AssistantMessage: on_message,
    UserMessage: on_surface,
    SystemMessage: on_surface,
    DeveloperMessage: on_surface,
    ToolResult: on_result,
    ToolCall: on_call,
    TurnStart: on_turn_start,
    TurnEnd: on_turn_end,
    StepStart: on_step_start,
    StepEnd: on_step_end,
    RetryStarted: on_retry_started,
    RequestHeader: on_header,
    RequestContext: on_request_context,
    CompactionSummary: on_summary,
    Prune: on_prune,
    ImageOffload: on_offload,
}
assert HANDLERS.keys() >= set(SURFACE_BODIES)

_NOTHING: tuple[Handler | None, projections.Needed] = (None, ())
_NEEDED: dict[type, tuple[Handler | None, projections.Needed]] = {
    kind: (HANDLERS.get(kind), projections.HANDLERS.get(kind, ()))
    for kind in (*HANDLERS, *projections.HANDLERS, Fact)
    if isinstance(kind, type)
}

#: The kinds of events that some reader needs.
READ = frozenset(_NEEDED)
