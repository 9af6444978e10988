"""Turns, steps, and where the time went (readers.md §2).

Steps are counted where they end and times where their message lands, by the type of an event alone:
copies that a replacement brings count as the reference counts them. A difference of times is
clamped at 0 before it is added; one of unknown times adds nothing.
"""

from __future__ import annotations

from immutables import Map
from msgspec import Struct
from msgspec.structs import replace

from operators.events import (
    AssistantAttempt,
    AssistantChunk,
    AssistantMessage,
    Chunk,
    Event,
    Run,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCall,
    ToolDelta,
    ToolResult,
)
from operators.totals import bounded


class Times(Struct, array_like=True, gc=False):
    """Counts and milliseconds. Averages: ``ttft_ms / ttft_steps`` and ``decode_tokens`` per
    ``decode_ms``; there is none where the divisor is 0."""

    turns: int = 0
    steps: int = 0
    llm_ms: int = 0
    tool_ms: int = 0
    ttft_ms: int = 0
    ttft_steps: int = 0
    decode_ms: int = 0
    decode_tokens: int = 0


class Clock(Struct, array_like=True, gc=False):
    """The open step and its first token, and the last closed turn."""

    is_open: bool = False
    turn: int | None = None
    step: int | None = None
    started: int | None = None
    awaiting: bool = False  #: open, and no token yet
    first: int | None = None
    closed: tuple[int | None] | None = None  #: turn of the last closed step


class Saved(Struct, array_like=True, gc=False):
    times: Times
    clock: Clock
    pending: list[tuple[str | None, int | None]]


class Statistics:
    """``times`` of the session's own part."""

    __slots__ = ("clock", "pending", "times")

    def __init__(self) -> None:
        self.times = Times()
        self.clock = Clock()
        self.pending: Map[str | None, int | None] = Map()  # open calls: since when

    def fork(self) -> Statistics:
        twin = Statistics.__new__(Statistics)
        twin.times, twin.clock = replace(self.times), replace(self.clock)
        twin.pending = self.pending
        return twin

    def saved(self) -> Saved:
        return Saved(self.times, self.clock, list(self.pending.items()))

    @classmethod
    def restored(cls, saved: Saved) -> Statistics:
        made = cls()
        made.times, made.clock = saved.times, saved.clock
        made.pending = Map(saved.pending)
        return made

    # --- one method per kind of event ---------------------------------------------------------

    def step_start(self, event: Event, body: StepStart) -> None:
        self.clock = Clock(True, body.turn, body.step, event.time, True, None, self.clock.closed)

    def chunk(self, event: Event, body: AssistantChunk) -> None:
        """Only while ``clock.awaiting``."""
        clock = self.clock
        if body.turn == clock.turn and body.step == clock.step:
            found = first_token(event, body.chunk)
            if found is not None:
                clock.awaiting, clock.first = False, found[0]

    def attempt(self, body: AssistantAttempt) -> None:
        clock, first = self.clock, body.stream.first_token_time
        here = body.turn == clock.turn and body.step == clock.step
        if clock.awaiting and here and first is not None:
            clock.awaiting, clock.first = False, first

    def message(self, event: Event, body: AssistantMessage) -> None:
        clock, times, time = self.clock, self.times, event.time
        if not clock.is_open or body.turn != clock.turn or body.step != clock.step:
            return
        times.llm_ms = _longer(times.llm_ms, clock.started, time)
        first = clock.first
        if clock.awaiting and body.stream is not None:
            first = body.stream.first_token_time
        if first is not None:
            times.ttft_ms = _longer(times.ttft_ms, clock.started, first)
            times.ttft_steps += 1
            usage = body.usage
            if usage is not None and usage.has_output:
                times.decode_ms = _longer(times.decode_ms, first, time)
                times.decode_tokens = bounded(times.decode_tokens + usage.output)
        self._close()

    def tool_call(self, event: Event, body: ToolCall) -> None:
        self.pending = self.pending.set(body.call_id, event.time)

    def tool_result(self, event: Event, body: ToolResult) -> None:
        call_id = body.call_id
        if call_id in self.pending:
            self.times.tool_ms = _longer(self.times.tool_ms, self.pending[call_id], event.time)
            self.pending = self.pending.delete(call_id)

    def step_end(self, body: StepEnd) -> None:
        times, clock = self.times, self.clock
        times.steps += 1
        if clock.closed != (body.turn,):
            times.turns += 1
            clock.closed = (body.turn,)
        self._close()

    def turn_end(self) -> None:
        if self.pending:
            self.pending = Map()

    def _close(self) -> None:
        clock = self.clock
        clock.is_open = clock.awaiting = False
        clock.first = None


def first_token(event: Event, chunk: Chunk | Run) -> tuple[int | None] | None:
    """The time of the first token among the members of a chunk event, in a tuple; None without
    one. A tool call's name makes one even when it is empty."""
    if isinstance(chunk, Run):
        named = chunk.kind == "tool-call" and chunk.name is not None
        at = next((k for k, text in enumerate(chunk.texts) if text or named), None)
        return None if at is None else (chunk.times[at],)
    if isinstance(chunk, TextDelta):
        return (event.time,) if chunk.text else None
    if isinstance(chunk, ToolDelta) and (chunk.arguments or chunk.name is not None):
        return (event.time,)
    return None


def _longer(total: int, start: int | None, end: int | None) -> int:
    """``total`` and the time from ``start`` to ``end``."""
    if start is None or end is None or end <= start:
        return total
    return bounded(total + end - start)
