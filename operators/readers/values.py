"""The figures as they are shown: the reference's under its own names, ours beside them."""

from __future__ import annotations

from typing import Any

from operators.events import Usage
from operators.rooms import Rooms

from .rooms import Readers


def reference(readers: Readers, rooms: Rooms) -> dict[str, Any]:
    """The figures of ``readers.json`` (readers.md §13); ``measure`` only beside a file."""
    own_part = readers.counted(rooms)
    found: dict[str, Any] = {
        "sessionStats": session_stats(own_part),
        "tokenUsage": buckets(own_part.tokens.total),
        "contextPressure": context_pressure(readers),
        "contextBreakdown": context_breakdown(readers),
    }
    if readers.v4 is not None:
        found["contextBreakdownMetered"] = metered_v4(readers)
    if readers.measure is not None:
        found["measure"] = measure(readers, rooms)
    return found


def own(readers: Readers, rooms: Rooms) -> dict[str, Any]:
    """Ours: exact and of the session's own part."""
    readers = readers.counted(rooms)
    prices, lost = readers.prices, readers.losses
    found = {
        "billed": [
            {"provider": route.provider, "model": route.model}
            | {"usage": buckets(row.usage), "compaction": buckets(row.compaction)}
            | {"since": row.since, "through": row.through}
            for route, row in readers.billing.table()
        ],
        "surface_tokens": prices.total,
        "metered_difference": readers.context.total - prices.total,
        "cache_breaks": {
            cause: {"breaks": row.breaks, "invalidated_tokens": row.tokens}
            for cause, row in sorted(lost.sums.items())
        },
        "last_cache_break": _break(lost.last),
    }
    if readers.breaks is not None:
        found["all_cache_breaks"] = [_break(row) for row in readers.breaks]
    return found


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


def context_breakdown(readers: Readers) -> dict[str, int]:
    """With system messages on the surface (v3 and later) the exact sum; else the metered total and
    the header's system text (readers.md §5.1)."""
    tools = 0 if readers.header is None else readers.header.tools
    if readers.has_systems:
        system = readers.prices.last_system
        return _breakdown(system, tools, readers.prices.total - system)
    system = 0 if readers.header is None else readers.header.system
    return _breakdown(system, tools, readers.context.total)


def metered_v4(readers: Readers) -> dict[str, int] | None:
    if readers.v4 is None:
        return None
    system, tools = readers.v4.system, 0 if readers.header is None else readers.header.tools
    return _breakdown(system, tools, max(0, readers.v4.total - system))


def measure(readers: Readers, rooms: Rooms) -> dict[str, Any] | None:
    if readers.measure is None:
        return None
    prices, now = readers.prices, readers.measure.now(readers.prices.total)
    nodes = Rooms.surface.peek(rooms).nodes()
    return {
        "baseline": {"kind": now.kind, "tokens": now.baseline},
        "surfaceDeltaTokens": now.delta,
        "totalTokens": now.total,
        "surfaceTokens": prices.total,
        "nodes": [[node.seq, prices.table.get(node.seq) or 0] for node in nodes],
    }


def _breakdown(system: int, tools: int, message: int) -> dict[str, int]:
    return {"systemTokens": system, "toolsTokens": tools, "messageTokens": message}


def _break(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "seq": found.seq,
        "cause": found.cause,
        "prefix_messages": found.prefix,
        "prefix_tokens": found.prefix_tokens,
        "invalidated_tokens": found.invalidated,
    }
