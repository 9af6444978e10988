"""The surface's changes, and where each node stands among the others.

A node's place is a number that never changes: its own seq when appended, that of the first node it
shadows when it replaces. So what stood at any seq is found by an index (projection.md §4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw
from sqlalchemy import Connection, bindparam, select, update

from operators.changes import SurfaceChange

from . import store_tables as t
from .changes import SurfaceChanged
from .jsonout import safe
from .records import Incoming
from .statements import run

NODES = ("append", "replace")


def write_surface(
    connection: Connection, incoming: Sequence[Incoming], reached: dict[str, int]
) -> list[SurfaceChanged]:
    """Changes of current epochs in order. ``reached``: each session's seq of its last change; it is
    moved on, and what is not above it was applied before."""
    changed, appended = [], []
    for each in incoming:
        change = each.item
        assert isinstance(change, SurfaceChange)
        assert change.session is not None
        session = change.session
        if change.seq <= reached.get(session, -1):
            continue
        reached[session] = change.seq
        values = _values(session, change, each.offset)
        if change.op == "append":
            appended.append(values | {"place": float(change.seq), "gone": t.FOREVER})
        else:
            run(connection, t.surface.insert(), appended)
            appended = []
            _apply(connection, session, change, values)
        changed.append(_changed(session, change, each))
    run(connection, t.surface.insert(), appended)
    return changed


def _values(session: str, change: SurfaceChange, offset: int) -> dict[str, Any]:
    message = None if change.message is None else safe(bytes(change.message))
    rest = msgspec.structs.replace(change, message=None)
    return {
        "session": session,
        "seq": change.seq,
        "op": change.op,
        "change": safe(msgspec.json.encode(rest)),
        "message": message,
        "offset": offset,
    }


def _apply(
    connection: Connection, session: str, change: SurfaceChange, values: dict[str, Any]
) -> None:
    if change.op != "replace":  # an amendment; a reset comes with its epoch
        if change.op == "amend":
            connection.execute(t.surface.insert(), [values])
        return
    place = _place(connection, session, change)
    left = update(t.surface).where(
        t.surface.c.session == bindparam("b_session"), t.surface.c.seq == bindparam("b_seq")
    )
    gone = [{"b_session": session, "b_seq": seq, "gone": change.seq} for seq in change.shadowed]
    run(connection, left, gone)
    connection.execute(t.surface.insert(), [values | {"place": place, "gone": t.FOREVER}])


def _place(connection: Connection, session: str, change: SurfaceChange) -> float:
    """That of the first node that leaves; in a window that none leaves, between its neighbours."""
    mine = (t.surface.c.session == session, t.surface.c.gone == t.FOREVER)
    if change.shadowed:
        found = connection.execute(
            select(t.surface.c.place).where(
                t.surface.c.session == session, t.surface.c.seq == change.shadowed[0]
            )
        ).scalar()
        if found is not None:
            return float(found)
    places = select(t.surface.c.place).where(*mine).order_by(t.surface.c.place)
    at = max(change.position, 0)
    near = connection.execute(places.offset(max(at - 1, 0)).limit(2)).scalars().all()
    if at == 0:
        return float(near[0]) - 1 if near else float(change.seq)
    if not near:
        return float(change.seq)
    return (float(near[0]) + float(near[1])) / 2 if len(near) == 2 else float(near[0]) + 0.5


def _changed(session: str, change: SurfaceChange, at: Incoming) -> SurfaceChanged:
    body = Raw(safe(msgspec.json.encode(change)))
    place = (at.partition, at.offset)
    return SurfaceChanged(session, change.epoch, change.seq, change.op, body, *place)
