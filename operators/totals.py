"""A session's own totals (projection.md §6): they start again at a fork's cut.

``generation`` counts those restarts: a figure that was added under an earlier generation is never
subtracted from a later one.
"""

from __future__ import annotations

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
    return figure if -_LONG <= figure <= _LONG else max(-_LONG - 1, min(figure, _LONG))


class Totals:
    """Counts and usage of the session's own part; its times are a reader's (readers.md §2)."""

    __slots__ = ("compaction_usage", "counts", "cut", "generation", "usage")

    def __init__(self, generation: int = 0, cut: int = 0) -> None:
        self.generation = generation
        self.cut = cut  # first seq of the own part
        self.counts: dict[str, int] = {}
        self.usage = NO_USAGE
        self.compaction_usage = NO_USAGE

    def fork(self) -> Totals:
        twin = Totals.__new__(Totals)
        twin.generation, twin.cut = self.generation, self.cut
        twin.counts = self.counts.copy()
        twin.usage, twin.compaction_usage = self.usage, self.compaction_usage
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


def elapsed(start: int | None, end: int | None) -> int | None:
    """Milliseconds, clamped at 0; None when a time is unknown."""
    return None if start is None or end is None else max(0, end - start)
