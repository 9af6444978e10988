"""Which kind of event each figure is read from: one function per kind, in one table at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from operators.changes import SurfaceChange
from operators.events import (
    SURFACE_BODIES,
    Append,
    AssistantAttempt,
    AssistantChunk,
    AssistantMessage,
    DeveloperMessage,
    Event,
    ImageOffload,
    RequestContext,
    RetryStarted,
    StepEnd,
    StepStart,
    SystemMessage,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    UsageChunk,
    UserMessage,
)
from operators.out import Out
from operators.rooms import Rooms
from operators.surface import Surface

from . import losses
from .bodies import Header, Prune, Summary
from .context import AstrayClaim
from .javascript import UnreadableError
from .losses import Break
from .prices import Prices, price
from .request import read_header
from .usage import Route, sample_of

if TYPE_CHECKING:
    from .rooms import Readers


def _sample(readers: Readers, event: Event, body: Any, rooms: Rooms, sample: Any) -> None:
    """A usage sample of a message, an attempt or a chunk."""
    embedded = isinstance(body, AssistantAttempt) or (
        isinstance(body, AssistantMessage) and body.stream is not None
    )
    readers.tokens.take(body.turn, body.step, sample, embedded)
    readers.billing.take(rooms, event.time, body, sample)
    readers.context.sample(sample)


def on_chunk(readers: Readers, event: Event, body: AssistantChunk, rooms: Rooms, _: Out) -> None:
    if readers.statistics.clock.awaiting:
        readers.statistics.chunk(event, body)
    if body.chunk.__class__ is UsageChunk:
        _sample(readers, event, body, rooms, body.chunk.usage)
    if readers.measure is not None:
        readers.measure.chunk(event, body)


def on_attempt(
    readers: Readers, event: Event, body: AssistantAttempt, rooms: Rooms, _: Out
) -> None:
    readers.statistics.attempt(body)
    sample = sample_of(body)
    if sample is not None:
        _sample(readers, event, body, rooms, sample)


def on_message(
    readers: Readers, event: Event, body: AssistantMessage, rooms: Rooms, out: Out
) -> None:
    readers.statistics.message(event, body)
    sample = sample_of(body)
    if sample is not None:
        _sample(readers, event, body, rooms, sample)
    on_surface(readers, event, body, rooms, out)


def on_result(readers: Readers, event: Event, body: ToolResult, rooms: Rooms, out: Out) -> None:
    readers.statistics.tool_result(event, body)
    on_surface(readers, event, body, rooms, out)


def on_surface(readers: Readers, event: Event, body: Any, rooms: Rooms, out: Out) -> None:
    """A node joined the surface, or took the place of others."""
    try:
        tokens = price(event)
    except UnreadableError:
        rooms.note("reader:estimate")
        tokens = 0
    prices, is_system = readers.prices, body.__class__ is SystemMessage
    if is_system:
        readers.has_systems = True
    if readers.measure is not None and body.__class__ is AssistantMessage:
        readers.measure.message(event, body, tokens, prices.total)
    if isinstance(event.marker, Append):
        prices.append(event.seq, tokens, is_system)
        readers.context.append(tokens)
        if readers.v4 is not None:
            readers.v4.append(event.seq, tokens, is_system)
        return
    _replace(readers, event, rooms, out.surface[-1], (tokens, is_system))


def _replace(
    readers: Readers, event: Event, rooms: Rooms, change: SurfaceChange, node: tuple[int, bool]
) -> None:
    prices, before = readers.prices, readers.prices.total
    surface = Rooms.surface.peek(rooms)
    prices.replace(change, *node, surface)
    kept = _before(prices, surface, change.seq)
    _lose(
        readers,
        Break(
            change.seq,
            readers.losses.cause(event, change),
            change.position or 0,
            kept,
            before - kept,
        ),
    )
    try:
        claimed = readers.context.claimed(change)
    except AstrayClaim:
        rooms.note("reader:context")
        return
    readers.context.replace(node[0], claimed)
    if readers.v4 is not None:
        readers.v4.replace(change, node[0], claimed, node[1])


def _before(prices: Prices, surface: Surface, seq: int) -> int:
    node = surface.find(seq)
    return 0 if node is None else prices.before(node.key, surface)


def _lose(readers: Readers, found: Break) -> None:
    readers.losses.take(found)
    if readers.breaks is not None:
        readers.breaks.append(found)


def on_offload(readers: Readers, event: Event, _: ImageOffload, rooms: Rooms, out: Out) -> None:
    """Messages that lose their images are other messages from there on."""
    surface = Rooms.surface.peek(rooms)
    change = out.surface[-1] if out.surface else None
    if change is None or change.seq != event.seq:
        return
    nodes = [node for target in change.targets if (node := surface.find(target.seq)) is not None]
    if nodes:
        first = min(nodes, key=lambda node: node.key)
        kept = readers.prices.before(first.key, surface)
        lost = readers.prices.total - kept
        _lose(readers, Break(event.seq, losses.IMAGES, surface.position(first.key), kept, lost))


def on_header(readers: Readers, event: Event, body: Header, rooms: Rooms, _: Out) -> None:
    """Another system text, tool list or model: nothing of the old prompt is of use."""
    before = readers.header
    try:
        header = read_header(body.raw)
    except UnreadableError:
        rooms.note("reader:context")
        return
    readers.header = header
    if readers.measure is not None:
        readers.measure.header = header
    if before is not None and before.prompt != header.prompt:
        lost = before.tokens + readers.prices.total
        _lose(readers, Break(event.seq, losses.HEADER, 0, 0, lost))


def on_meter(readers: Readers, event: Event, body: Summary | Prune, rooms: Rooms, _: Out) -> None:
    readers.context.meter(event, body)
    readers.losses.meter(event, body)
    if isinstance(body, Summary) and body.usage is not None:
        named = body.asked_provider is not None or body.asked_model is not None
        asked = Route(body.asked_provider, body.asked_model) if named else None
        readers.billing.take_compaction(rooms, event.time, asked)


def on_turn_start(readers: Readers, _: Event, __: TurnStart, ___: Rooms, ____: Out) -> None:
    readers.statistics.turn_start()
    if readers.measure is not None:
        readers.measure.turn_start()


def on_turn_end(readers: Readers, _: Event, __: TurnEnd, ___: Rooms, ____: Out) -> None:
    readers.statistics.turn_end()


def on_step_start(readers: Readers, event: Event, body: StepStart, _: Rooms, __: Out) -> None:
    readers.statistics.step_start(event, body)
    if readers.measure is not None:
        readers.measure.step_start(body, readers.prices.total)


def on_step_end(readers: Readers, _: Event, body: StepEnd, __: Rooms, ___: Out) -> None:
    readers.statistics.step_end(body)
    if readers.measure is not None:
        readers.measure.step_end()


def on_call(readers: Readers, event: Event, body: ToolCall, _: Rooms, __: Out) -> None:
    readers.statistics.tool_call(event, body)


def on_retry_started(readers: Readers, _: Event, body: RetryStarted, __: Rooms, ___: Out) -> None:
    readers.tokens.retry_started(body)


def on_request_context(
    readers: Readers, _: Event, body: RequestContext, __: Rooms, ___: Out
) -> None:
    readers.context.request_context(body)


Handler = Callable[["Readers", Event, Any, Rooms, Out], None]
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
    Header: on_header,
    RequestContext: on_request_context,
    Summary: on_meter,
    Prune: on_meter,
    ImageOffload: on_offload,
}
assert HANDLERS.keys() >= set(SURFACE_BODIES)
