"""What an accepted event publishes on the surface (projection.md §4, outputs.md *SurfaceChange*)."""

from __future__ import annotations

from .changes import SurfaceChange, Target
from .events import Event, ImageOffload, Replace
from .out import Out
from .rooms import Rooms
from .surface import Plan

_AMENDABLE = ("user/message", "tool/result")


def publish_plan(rooms: Rooms, event: Event, plan: Plan, out: Out) -> None:
    """Carry out what the surface planned, and say so."""
    position = rooms.surface.apply(plan)
    body, marker = event.body, event.marker
    message = None if getattr(body, "empty", False) else body.message  # type: ignore[union-attr]
    start, end = (marker.start, marker.end) if isinstance(marker, Replace) else (None, None)
    out.surface.append(
        SurfaceChange(
            rooms.session,
            rooms.epoch,
            event.seq,
            "replace" if plan.replaces else "append",
            event.type,
            event.time,
            start,
            end,
            tuple([node.seq for node in plan.shadowed]),
            position,
            rooms.surface.generation,
            message,
            (),
            plan.partial,
        )
    )


def on_image_offload(rooms: Rooms, event: Event, body: ImageOffload, out: Out) -> None:
    """Whoever holds the messages marks those images; a target that is no such node is noted."""
    targets = []
    for target in body.targets:
        node = None if target.seq is None else rooms.surface.find(target.seq)
        if node is not None and node.type in _AMENDABLE:
            targets.append(Target(node.seq, target.images))
        else:
            rooms.note("malformed")
    if targets:
        out.surface.append(
            SurfaceChange(
                rooms.session,
                rooms.epoch,
                event.seq,
                "amend",
                event.type,
                event.time,
                generation=rooms.surface.generation,
                targets=tuple(targets),
            )
        )
