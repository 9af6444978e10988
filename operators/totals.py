"""A session's own totals (projection.md §6): they start again at a fork's cut.

``generation`` counts those restarts: a figure that was added under an earlier generation is never
subtracted from a later one.
"""

from __future__ import annotations

from immutables import Map
from msgspec import Struct

from .changes import UsageData
from .events import Usage

NO_USAGE = Usage()
_LONG = 2**63 - 1


def add(total: Usage, sample: Usage) -> Usage:
    return exchange(total, NO_USAGE, sample)


def exchange(total: Usage, old: Usage, new: Usage) -> Usage:
    """``total`` with the sample ``new`` in place of ``old``."""
    figures = (
        total.uncached_input - old.uncached_input + new.uncached_input,
        total.output - old.output + new.output,
        total.cache_read - old.cache_read + new.cache_read,
        total.cache_write - old.cache_write + new.cache_write,
        total.reasoning - old.reasoning + new.reasoning,
    )
    if max(figures) > _LONG or min(figures) < -_LONG:
        a, b, c, d, e = map(bounded, figures)
        return Usage(a, b, c, d, e)
    return Usage(*figures)


def usage_data(usage: Usage) -> UsageData:
    return UsageData(
        usage.uncached_input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning
    )


def bounded(figure: int) -> int:
    """A sum as an Avro ``long``: absurd figures of a hostile log stop at its ends."""
    return max(-_LONG - 1, min(figure, _LONG))


class Clock(Struct, frozen=True, array_like=True, gc=False):
    """The open step that model time is read from (readers.md §2)."""

    turn: int | None = None
    step: int | None = None
    started: int | None = None
    is_open: bool = False


class Totals:
    """Counts, usage and times of the session's own part."""

    __slots__ = (
        "compaction_usage",
        "counts",
        "cut",
        "generation",
        "model_ms",
        "open_step",
        "pending",
        "tool_ms",
        "usage",
    )

    def __init__(self, generation: int = 0, cut: int = 0) -> None:
        self.generation = generation
        self.cut = cut  # first seq of the own part
        self.counts: dict[str, int] = {}
        self.usage = NO_USAGE
        self.compaction_usage = NO_USAGE
        self.model_ms = 0
        self.tool_ms = 0
        self.open_step = Clock()
        self.pending: Map[str, int | None] = Map()

    def fork(self) -> Totals:
        twin = Totals.__new__(Totals)
        twin.generation, twin.cut = self.generation, self.cut
        twin.counts = self.counts.copy()
        twin.usage, twin.compaction_usage = self.usage, self.compaction_usage
        twin.model_ms, twin.tool_ms = self.model_ms, self.tool_ms
        twin.open_step, twin.pending = self.open_step, self.pending
        return twin

    def restarted(self, cut: int) -> Totals:
        """Everything before ``cut`` belongs to the parent."""
        return Totals(self.generation + 1, cut)

    def count(self, name: str, change: int = 1) -> None:
        """A key is present once it is not 0 (outputs.md, *counts*)."""
        value = self.counts.get(name, 0) + change
        if value:
            self.counts[name] = value
        else:
            self.counts.pop(name, None)

    # --- model and tool time, by the statistics reader's rules: the type decides, not the marker

    def step_started(self, turn: int | None, step: int | None, time: int | None) -> None:
        self.open_step = Clock(turn, step, time, True)

    def message_logged(self, turn: int | None, step: int | None, time: int | None) -> None:
        clock = self.open_step
        if clock.is_open and clock.turn == turn and clock.step == step:
            self.model_ms = bounded(self.model_ms + (elapsed(clock.started, time) or 0))
            self.open_step = Clock()

    def step_ended(self) -> None:
        self.open_step = Clock()

    def call_logged(self, call_id: str, time: int | None) -> None:
        self.pending = self.pending.set(call_id, time)

    def result_logged(self, call_id: str, time: int | None) -> None:
        if call_id in self.pending:
            self.tool_ms = bounded(self.tool_ms + (elapsed(self.pending[call_id], time) or 0))
            self.pending = self.pending.delete(call_id)

    def turn_ended(self) -> None:
        if self.pending:
            self.pending = Map()


def elapsed(start: int | None, end: int | None) -> int | None:
    """Milliseconds, clamped at 0; None when a time is unknown."""
    return None if start is None or end is None else max(0, end - start)
