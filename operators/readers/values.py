"""The figures as the reference shows them, under its own names (readers.md §13)."""

from __future__ import annotations

from typing import Any

from operators.changes import CacheBreak
from operators.events import Usage
from operators.rooms import Rooms
from operators.surface import Surface

from .published import cache_break
from .rooms import Readers


def reference(readers: Readers, surface: Surface) -> dict[str, Any]:
    """The figures of ``readers.json`` (readers.md §13); ``measure`` only beside a file."""
    found: dict[str, Any] = {
        "sessionStats": session_stats(readers),
        "tokenUsage": buckets(readers.tokens.total),
        "contextPressure": context_pressure(readers),
        "contextBreakdown": context_breakdown(readers, surface),
    }
    if readers.v4 is not None:
        found["contextBreakdownMetered"] = metered_v4(readers)
    if readers.measure is not None:
        found["measure"] = measure(readers, surface)
    return found


def own_part(rooms: Rooms) -> Readers:
    """The session's readers as far as they count, only to be read: while a fork's inherited prefix
    is still being read, nothing is its own (projection.md §6)."""
    readers = Rooms.readers.peek(rooms)
    if rooms.seed_cut is not None:
        readers = readers.fork()
        readers.cut()
    return readers


def session_stats(readers: Readers) -> dict[str, int]:
    times = readers.statistics.times
    return {
        "turns": times.turns,
        "steps": times.steps,
        "llmMs": times.llm_ms,
        "toolMs": times.tool_ms,
        "ttftMs": times.ttft_ms,
        "ttftSteps": times.ttft_steps,
        "decodeMs": times.decode_ms,
        "decodeTokens": times.decode_tokens,
    }


def buckets(usage: Usage) -> dict[str, int]:
    return {
        "uncachedInputTokens": usage.uncached_input,
        "outputTokens": usage.output,
        "cacheReadTokens": usage.cache_read,
        "cacheWriteTokens": usage.cache_write,
    }


def context_pressure(readers: Readers) -> dict[str, int]:
    """Absent is absent, never 0."""
    context = readers.context
    found = {
        "contextWindow": context.window,
        "pressureTokens": context.pressure,
        "projectedTokens": context.projected,
    }
    return {name: value for name, value in found.items() if value is not None}


def context_breakdown(readers: Readers, surface: Surface) -> dict[str, int]:
    """With system messages on the surface (v3 and later) the exact sum; else the metered total and
    the header's system text (readers.md §5.1)."""
    tools = 0 if readers.header is None else readers.header.tools
    if readers.systems.any:
        system = readers.systems.last
        return _breakdown(system, tools, surface.tokens - system)
    system = 0 if readers.header is None else readers.header.system
    return _breakdown(system, tools, readers.context.total)


def metered_v4(readers: Readers) -> dict[str, int] | None:
    if readers.v4 is None:
        return None
    system, tools = readers.v4.system, 0 if readers.header is None else readers.header.tools
    return _breakdown(system, tools, max(0, readers.v4.total - system))


def measure(readers: Readers, surface: Surface) -> dict[str, Any] | None:
    if readers.measure is None:
        return None
    now = readers.measure.now(surface.tokens)
    return {
        "baseline": {"kind": now.kind, "tokens": now.baseline},
        "surfaceDeltaTokens": now.delta,
        "totalTokens": now.total,
        "surfaceTokens": surface.tokens,
        "nodes": [[node.seq, node.tokens] for node in surface.nodes()],
    }


def _breakdown(system: int, tools: int, message: int) -> dict[str, int]:
    return {"systemTokens": system, "toolsTokens": tools, "messageTokens": message}


def cache_breaks(readers: Readers) -> list[CacheBreak]:
    """Every single break of the whole log, which only readers beside a file keep."""
    return [told for found in readers.breaks or () if (told := cache_break(found)) is not None]
