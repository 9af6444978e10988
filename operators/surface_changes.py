"""What an accepted event publishes on the surface (projection.md §4, outputs.md §1)."""

from __future__ import annotations

from msgspec import Raw

from .changes import SurfaceChange, Target
from .events import Event, ImageOffload, Replace
from .out import Out
from .rooms import Rooms
from .surface import Plan

_AMENDABLE = ("user/message", "tool/result")


def publish_append(rooms: Rooms, event: Event, out: Out) -> None:
    """The event's node goes to the tail."""
    surface = rooms.surface
    out.landed = surface.append(event)
    out.surface.append(
        SurfaceChange(
            rooms.session,
            rooms.epoch,
            event.seq,
            "append",
            event.type,
            event.time,
            None,
            None,
            (),
            surface.size - 1,
            surface.generation,
            _message(event),
        )
    )


def publish_plan(rooms: Rooms, event: Event, plan: Plan, out: Out) -> None:
    """Carry out the replacement that the surface planned, and say so."""
    marker = event.marker
    assert isinstance(marker, Replace)
    position = rooms.surface.replace(plan)
    out.landed, out.shadowed = plan.node, plan.shadowed
    out.surface.append(
        SurfaceChange(
            rooms.session,
            rooms.epoch,
            event.seq,
            "replace",
            event.type,
            event.time,
            marker.start,
            marker.end,
            tuple([node.seq for node in plan.shadowed]),
            position,
            rooms.surface.generation,
            _message(event),
            (),
            plan.partial,
        )
    )


def _message(event: Event) -> Raw | None:
    """What the model is sent: nothing for a message without content."""
    body = event.body
    return None if getattr(body, "empty", False) else body.message  # type: ignore[union-attr]


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
