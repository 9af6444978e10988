"""The overview of a session, read off its rooms (projection.md §6)."""

from __future__ import annotations

from functools import cache

from .changes import SessionOverview
from .events import Shape
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
    surface = Rooms.surface.peek(rooms)
    return SessionOverview(
        session=rooms.session,
        epoch=rooms.epoch,
        seq=rooms.order.next_seq - 1,
        as_of_seq=rooms.as_of_seq,
        title=None if inherited else rooms.title,
        cwd=header.cwd if header else None,
        parent=header.parent if header else None,
        origin=header.origin if header else None,
        depth=header.depth if header else None,
        created_at=header.created_at if header else None,
        shapes=shape_names(rooms.shapes),
        provider=rooms.provider,
        model=rooms.model,
        state=session_state(rooms),
        open_turn=rooms.turns.open_turn,
        next_seq=rooms.order.next_seq,
        last_time=rooms.last_time,
        counts=dict(sorted(totals.counts.items())),
        surface_nodes=surface.size,
        generation=surface.generation,
        usage=usage_data(totals.usage),
        compaction_usage=usage_data(totals.compaction_usage),
        context_window=rooms.context_window,
        prompt_tokens=rooms.prompt_tokens,
        model_ms=totals.model_ms,
        tool_ms=totals.tool_ms,
        quality=dict(sorted(rooms.quality.items())),
        inherited_until=rooms.inherited_until,
    )
