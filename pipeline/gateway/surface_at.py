"""What the model sees, or saw at some seq: nodes and messages, what shadowed what, and how it
changed between two seqs (projection.md §4).

A node stands from its own seq until the seq of what replaced it; both are kept, so any moment is a
query of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from sqlalchemy import ColumnElement, Connection, and_, select

from operators.changes import SurfaceChange
from operators.history import BODY_LIMIT, PREVIEW
from pipeline.images import offload

from . import store_tables as t

KEY = "surface:"  #: begins the reference of a node's message
MOST_MARKS = 1_000_000  #: seqs classified by one answer

_s = t.surface.c
_NODE = _s.op.in_(("append", "replace"))


class Node(Struct, frozen=True):
    """``gone``: the seq of what replaced it, None while it stands; ``shadowed``: the nodes that it
    replaced itself. ``message``: what it projects to, with its offloaded images marked; one over
    16 KiB is ``{ref, bytes, preview}``."""

    seq: int
    type: str | None
    time: int | None
    op: str
    gone: int | None
    shadowed: tuple[int, ...]
    message: Raw | None


class SurfaceAt(Struct, frozen=True):
    """``at``: the seq asked for, None: now. ``nodes`` in surface order."""

    session: str
    epoch: int
    as_of_seq: int | None
    at: int | None
    generation: int
    nodes: list[Node]


class Difference(Struct, frozen=True):
    """Between what was seen at two seqs, without messages: ``came`` stands at ``to`` and did not at
    ``from_seq``, ``went`` the reverse, ``passed`` came and went in between; ``amended`` had images
    taken out. In surface order."""

    session: str
    epoch: int
    from_seq: int
    to: int
    came: list[Node]
    went: list[Node]
    passed: list[Node]
    amended: list[int]


def surface_at(
    connection: Connection, session: str, at: int | None, *, messages: bool = True
) -> tuple[int, list[Node]]:
    """Generation and nodes as they stood after seq ``at`` (None: now)."""
    stood = _stood(at)
    images = _offloaded(connection, session, at)
    nodes = list(_nodes(connection, session, [stood], images, messages=messages))
    last = [_s.session == session, _s.op == "replace"] + ([] if at is None else [_s.seq <= at])
    newest = select(_s.change).where(*last).order_by(_s.seq.desc()).limit(1)
    change = connection.execute(newest).scalar()
    return (0 if change is None else _change(change).generation), nodes


def difference(
    connection: Connection, session: str, low: int, high: int
) -> tuple[list[Node], list[Node], list[Node], list[int]]:
    """Came, went, passed, amended between seq ``low`` and seq ``high``."""
    came = and_(_s.seq > low, _s.seq <= high, _s.gone > high)
    went = and_(_s.seq <= low, _s.gone > low, _s.gone <= high)
    passed = and_(_s.seq > low, _s.gone <= high)
    found = [
        list(_nodes(connection, session, [each], {}, messages=False))
        for each in (came, went, passed)
    ]
    amended = [
        target.seq
        for change in _amendments(connection, session, [_s.seq > low, _s.seq <= high])
        for target in change.targets
    ]
    return found[0], found[1], found[2], sorted(set(amended))


def gone(connection: Connection, session: str) -> dict[int, int]:
    """Of every seq that ever was a node, the seq of what replaced it; `FOREVER` while it stands."""
    found = connection.execute(select(_s.seq, _s.gone).where(_s.session == session, _NODE))
    return {seq: by for seq, by in found}  # noqa: C416 - rows are no pairs to mypy


def change_of(connection: Connection, session: str, seq: int) -> SurfaceChange | None:
    """What made a node, without its message; None for a seq that never was one."""
    query = select(_s.change).where(_s.session == session, _s.seq == seq, _NODE)
    change = connection.execute(query).scalar()
    return None if change is None else _change(change)


def messages(connection: Connection, session: str) -> Iterator[tuple[int, str | None, Raw | None]]:
    """Seq, event type and whole message of the nodes that stand, in surface order."""
    images = _offloaded(connection, session, None)
    query = select(_s.seq, _s.change, _s.message).where(_s.session == session, _stood(None))
    for seq, change, message in connection.execute(query.order_by(_s.place, _s.seq)):
        told = None if message is None else _marked(Raw(message), images.get(seq, ()))
        yield seq, _change(change).type, told


def seqs_of(connection: Connection, session: str, type_: str) -> list[int]:
    """The seqs of all that ever were nodes and are of this event type."""
    query = select(_s.seq, _s.change).where(_s.session == session, _NODE).order_by(_s.seq)
    return [seq for seq, change in connection.execute(query) if _change(change).type == type_]


def marks(connection: Connection, session: str, span: tuple[int, int], at: int | None) -> str:
    """One character per seq from the first of ``span`` to before the second: C a node (as of
    ``at``), S it was one, ``-`` neither."""
    low, high = span
    marked = bytearray(b"-") * max(high - low, 0)
    found = select(_s.seq, _s.gone).where(
        _s.session == session, _s.seq >= low, _s.seq < high, _NODE
    )
    moment = t.FOREVER - 1 if at is None else at
    for seq, gone in connection.execute(found):
        if seq <= moment:
            marked[seq - low] = ord("C" if gone > moment else "S")
    return marked.decode()


def message_of(connection: Connection, session: str, seq: int) -> bytes | None:
    """A node's message whole, as it is now."""
    found = connection.execute(
        select(_s.message).where(_s.session == session, _s.seq == seq, _NODE)
    ).scalar()
    if found is None:
        return None
    images = _offloaded(connection, session, None).get(seq, ())
    return bytes(_marked(Raw(found), images))


# --- nodes ----------------------------------------------------------------------------------------


def _stood(at: int | None) -> ColumnElement[bool]:
    return _s.gone == t.FOREVER if at is None else and_(_s.seq <= at, _s.gone > at)


def _nodes(
    connection: Connection,
    session: str,
    which: Sequence[ColumnElement[bool]],
    images: dict[int, set[int]],
    *,
    messages: bool,
) -> Iterator[Node]:
    columns: list[Any] = [_s.seq, _s.op, _s.gone, _s.change, *([_s.message] if messages else [])]
    query = select(*columns).where(_s.session == session, *which)
    for seq, op, gone, change, *rest in connection.execute(query.order_by(_s.place, _s.seq)):
        made = _change(change)
        message = None
        if messages and rest[0] is not None:
            message = _paged(seq, Raw(rest[0]), images.get(seq, ()))
        left = None if gone == t.FOREVER else gone
        yield Node(seq, made.type, made.time, op, left, made.shadowed, message)


def _marked(message: Raw, images: Collection[int]) -> Raw:
    return offload(message, images) if images else message


def _paged(seq: int, message: Raw, images: Collection[int]) -> Raw:
    text = bytes(_marked(message, images))
    if len(text) <= BODY_LIMIT:
        return Raw(text)
    preview = text.decode()[:PREVIEW]
    large = {"ref": f"{KEY}{seq}/message", "bytes": len(text), "preview": preview}
    return Raw(msgspec.json.encode(large))


def _offloaded(connection: Connection, session: str, at: int | None) -> dict[int, set[int]]:
    """The images taken out of each node's message."""
    found: dict[int, set[int]] = {}
    for change in _amendments(connection, session, [] if at is None else [_s.seq <= at]):
        for target in change.targets:
            found.setdefault(target.seq, set()).update(target.images)
    return found


def _amendments(
    connection: Connection, session: str, which: Sequence[ColumnElement[bool]]
) -> Iterator[SurfaceChange]:
    query = select(_s.change).where(_s.session == session, _s.op == "amend", *which)
    for (change,) in connection.execute(query.order_by(_s.seq)):
        yield _change(change)


def _change(text: bytes) -> SurfaceChange:
    return _decode(text)


_decode = msgspec.json.Decoder(SurfaceChange).decode
