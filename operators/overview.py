"""The overview of a session, read off its rooms (projection.md §6)."""

from __future__ import annotations

from functools import cache

from .changes import SessionOverview
from .events import Shape
from .readers.published import published
from .readers.values import own_part
from .rooms import Rooms
from .totals import Totals, usage_data

#: The names of the shapes, as outputs.md lists them.
SHAPE_NAMES = {
    Shape.CHUNK_EVENTS: "chunk-events",
    Shape.PACKED_ROWS: "packed-rows",
    Shape.EMBEDDED_STREAM: "embedded-stream",
    Shape.RESULT_FLAT: "tool-result:flat",
    Shape.RESULT_WRAPPED: "tool-result:wrapped",
    Shape.RESULT_DIRECT: "tool-result:direct",
    Shape.REPLACE_START: "replace:start",
    Shape.REPLACE_START_SEQ: "replace:startSeq",
    Shape.CHECKPOINT_PLUGIN: "checkpoint:plugin",
    Shape.CHECKPOINT_PRODUCER: "checkpoint:producer",
    Shape.LEGACY_NAMES: "legacy-names",
    Shape.SOURCES_RANGES: "sources:ranges",
}


@cache
def shape_names(shapes: int) -> tuple[str, ...]:
    """The names of the bits of ``shapes``, sorted."""
    return tuple(sorted(name for shape, name in SHAPE_NAMES.items() if shapes & shape))


def session_state(rooms: Rooms) -> str:
    """What the session is doing, as far as its log says."""
    if rooms.parked is not None:
        return "parked"
    if Rooms.compactions.peek(rooms).running:
        return "compacting"
    if rooms.turns.open_turn is not None:
        return "running"
    return {"error": "failed", "interrupted": "interrupted"}.get(rooms.last_end or "", "idle")


def overview(rooms: Rooms) -> SessionOverview:
    header = rooms.header
    # what lies before a fork's cut is never counted in the child's own totals (§6)
    inherited = rooms.seed_cut is not None
    totals = Totals() if inherited else rooms.totals
    surface, readers = Rooms.surface.peek(rooms), own_part(rooms)
    times = readers.statistics.times
    return SessionOverview(  # in their order: by name they cost twice as much
        rooms.session,
        rooms.epoch,
        rooms.order.next_seq - 1,
        rooms.as_of_seq,
        None if inherited else rooms.title,
        header.cwd if header else None,
        header.parent if header else None,
        header.origin if header else None,
        header.depth if header else None,
        header.created_at if header else None,
        shape_names(rooms.shapes),
        rooms.provider,
        rooms.model,
        session_state(rooms),
        rooms.turns.open_turn,
        rooms.order.next_seq,
        rooms.last_time,
        dict(sorted(totals.counts.items())),
        surface.size,
        surface.generation,
        usage_data(totals.usage),
        usage_data(totals.compaction_usage),
        rooms.context_window,
        rooms.prompt_tokens,
        times.llm_ms,
        times.tool_ms,
        dict(sorted(rooms.quality.items())),
        rooms.inherited_until,
        *published(readers, surface, rooms.last_time),
    )
