"""Single rows of a transcript, whole, and the large bodies that its pages left out."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from sqlalchemy import Connection, select

from . import store_tables as t
from . import surface_at
from .bodies import whole
from .open_rows import joined, large_of, parts_of
from .operations import JSON, Answer, Operation
from .parameters import Id
from .problems import not_found
from .service import Asking


class RowParameters(Struct, frozen=True):
    id: Id
    key: Annotated[str, Meta(min_length=1, max_length=1_000, description="a row's key")]


def row(asking: Asking, asked: RowParameters) -> Answer:
    r = t.rows.c
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        mine = (r.session == held.session, r.key == asked.key)
        found = connection.execute(select(r.body, r.running).where(*mine)).first()
        if found is None:
            raise not_found(f"session {held.session!r} has no row {asked.key!r}")
        body = whole_row(connection, held.session, asked.key, found[0], running=found[1])
    return Answer(body, history=True)


def whole_row(
    connection: Connection, session: str, key: str, body: bytes, *, running: bool
) -> bytes:
    """A row with all that belongs to it."""
    text = whole(bytes(body), large_of(connection, session, key))
    parts = parts_of(connection, session, key) if running else []
    return joined(text, parts) if parts else text


class BodyParameters(Struct, frozen=True):
    id: Id
    ref: Annotated[
        str, Meta(min_length=1, max_length=1_000, description="`ref` of a body left out")
    ]


def body(asking: Asking, asked: BodyParameters) -> Answer:
    key, _, path = asked.ref.partition("/")
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        if key.startswith(surface_at.KEY):
            found = _message(connection, held.session, key, path)
        else:
            found = _body(connection, held.session, key, path)
    if found is None:
        raise not_found(f"session {held.session!r} has no body {asked.ref!r}")
    return Answer(found, history=True)


def _body(connection: Connection, session: str, key: str, path: str) -> bytes | None:
    """One that was left out; of a row that still grows, as it is now."""
    r = t.rows.c
    found = connection.execute(
        select(r.body, r.running).where(r.session == session, r.key == key)
    ).first()
    if found is None:
        return None
    if not found[1]:
        return large_of(connection, session, key).get(path)
    text = whole_row(connection, session, key, found[0], running=True)
    data = msgspec.json.decode(text, type=_Data).data
    return bytes(data[path]) if path in data else None


class _Data(Struct):
    data: dict[str, Raw]


def _message(connection: Connection, session: str, key: str, path: str) -> bytes | None:
    seq = key.removeprefix(surface_at.KEY)
    if not seq.isdecimal() or len(seq) > 16 or path != "message":
        return None
    return surface_at.message_of(connection, session, int(seq))


Row = dict[str, Raw]

OPERATIONS = (
    Operation(
        "/v1/sessions/{id}/rows/{key}",
        "row",
        "One row of the transcript, whole",
        RowParameters,
        {JSON: Row},
        row,
        history=True,
    ),
    Operation(
        "/v1/sessions/{id}/bodies/{ref}",
        "body",
        "A body that a page left out, as JSON",
        BodyParameters,
        {JSON: Raw},
        body,
        history=True,
    ),
)
