"""Usage counted once more, straight from a log's records: the rule, and how it was got wrong.

``own_part`` is the rule of projection.md §6, by a dictionary; the others are faults that products
of this field were reported for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

Json = dict[str, Any]
Key = tuple[Any, Any, int]
Counts = tuple[int, int, int, int]
BUCKETS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
NOTHING: Counts = (0, 0, 0, 0)


class Sample(Struct, frozen=True):
    """One report of usage; ``attempt`` counts the retries of its turn and step before it."""

    seq: int
    key: Key
    counts: Counts
    copied: bool  #: of a message that replaces another


def samples(lines: Iterable[bytes]) -> list[Sample]:
    """Every report of usage in a log."""
    attempts: dict[tuple[Any, Any], int] = {}
    waiting: set[tuple[Any, Any]] = set()  # retried, and not started again
    found = []
    for row in map(json.loads, lines):
        kind, data = row["type"], row.get("data")
        if not isinstance(data, dict):
            continue
        place = (data.get("turn"), data.get("step"))
        if kind == "llm/retry":
            attempts[place] = attempts.get(place, 0) + 1
            waiting.add(place)
        elif kind == "llm/retry-started":
            waiting.discard(place)
        usage = _usage(kind, data)
        if usage is not None:
            number = attempts.get(place, 0)
            if kind == "assistant/attempt" and place in waiting:
                number -= 1  # the record of the attempt that failed
            a, b, c, d = (int(usage.get(bucket, 0)) for bucket in BUCKETS)
            copied = row.get("surfaceOp", "append") != "append"
            found.append(Sample(row["seq"], (*place, number), (a, b, c, d), copied))
    return found


def _usage(kind: str, data: Json) -> Json | None:
    if kind == "assistant/chunk":
        chunk = data["chunk"]
        return chunk["usage"] if chunk["type"] == "usage" else None
    if kind == "assistant/message" and data.get("usage"):
        found: Json = data["usage"]
        return found
    if kind in ("assistant/message", "assistant/attempt"):
        chunks = [record.get("chunk", {}) for record in data.get("stream") or ()]
        told = [chunk["usage"] for chunk in chunks if chunk.get("type") == "usage"]
        return told[-1] if told else None
    return None


def total(found: Iterable[Counts]) -> Counts:
    a, b, c, d = (sum(column) for column in zip(NOTHING, *found, strict=True))
    return a, b, c, d


def own_part(found: Iterable[Sample], start: int = 0) -> Counts:
    """The last sample of each turn, step and attempt, of messages appended, from ``start`` on."""
    kept = {s.key: s.counts for s in found if s.seq >= start and not s.copied}
    return total(kept.values())


def every_report(found: Iterable[Sample], start: int = 0) -> Counts:
    """Fault: each report is added, though a chunk, and then the message, say the same."""
    return total(s.counts for s in found if s.seq >= start)


def first_wins(found: Iterable[Sample], start: int = 0) -> Counts:
    """Fault: the first report of a step is kept, which a stream writes before it is done."""
    kept: dict[Key, Counts] = {}
    for sample in found:
        if sample.seq >= start and not sample.copied:
            kept.setdefault(sample.key, sample.counts)
    return total(kept.values())


def last_of_step(found: Iterable[Sample], start: int = 0) -> Counts:
    """Fault: a retried attempt was billed and is lost."""
    own = (s for s in found if s.seq >= start and not s.copied)
    return total({s.key[:2]: s.counts for s in own}.values())


def whole_log(found: Iterable[Sample], start: int = 0) -> Counts:
    """Fault: a fork's inherited prefix is counted again in every child, whatever ``start`` is."""
    return own_part(found)


#: Each with public reports of it.
FAULTS = {
    "every report (ccusage#389, ccusage#976, claude-code-history-viewer#283)": every_report,
    "first wins (ccusage#901, ccusage#938, claude-code-history-viewer#575)": first_wins,
    "last of step (hermes-agent#74313, cc-plugin-eval#330)": last_of_step,
    "whole log (orca#19139)": whole_log,
}
