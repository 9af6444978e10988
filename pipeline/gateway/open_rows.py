"""Rows whose text still grows: as published, and what came after (projection.md §5.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct
from sqlalchemy import Connection, select

from operators.history import BODY_LIMIT, PREVIEW

from . import store_tables as t
from .bodies import whole

_p = t.partials.c
BLOCKS = "blocks"


class Part(Struct, frozen=True):
    rev: int
    block: int
    block_type: str
    at: int
    text: str


def completed(connection: Connection, session: str, key: str, body: bytes) -> bytes:
    """The row of a page with the text that came after it; large blocks by reference again."""
    parts = parts_of(connection, session, key)
    if not parts:
        return bytes(body)
    row = joined(whole(bytes(body), large_of(connection, session, key)), parts)
    return _paged(row, key)


def large_of(connection: Connection, session: str, key: str) -> dict[str, bytes]:
    """The row's large bodies by their path."""
    b = t.bodies.c
    found = select(b.path, b.body).where(b.session == session, b.key == key)
    return {path: bytes(body) for path, body in connection.execute(found)}


def parts_of(connection: Connection, session: str, key: str) -> list[Part]:
    wanted = (_p.rev, _p.block, _p.block_type, _p.at, _p.text)
    mine = select(*wanted).where(_p.session == session, _p.key == key)
    return [Part(*each) for each in connection.execute(mine.order_by(_p.rev, _p.block))]


def joined(row: bytes, parts: Iterable[Part]) -> bytes:
    """Each part goes on where the text it continues ends; one that does not fit is left out."""
    fields: dict[str, Any] = msgspec.json.decode(row, type=dict[str, Raw])
    data: dict[str, Any] = msgspec.json.decode(fields["data"], type=dict[str, Raw])
    blocks: list[dict[str, Any]] = msgspec.json.decode(data[BLOCKS])
    published: int = msgspec.json.decode(fields["rev"])
    rev = published
    for part in parts:
        if part.rev > published and _lengthen(blocks, part):
            rev = max(rev, part.rev)
    data[BLOCKS] = blocks
    return msgspec.json.encode({**fields, "rev": rev, "seq": rev, "data": data})


def _lengthen(blocks: list[dict[str, Any]], part: Part) -> bool:
    if not 0 <= part.block < len(blocks):
        return False
    block = blocks[part.block]
    name = "arguments" if part.block_type == "tool-call" else "text"
    text = block.get(name)
    if block.get("type") != part.block_type or not isinstance(text, str) or len(text) != part.at:
        return False
    block[name] = text + part.text
    return True


def _paged(row: bytes, key: str) -> bytes:
    if len(row) <= BODY_LIMIT:
        return row
    fields: dict[str, Any] = msgspec.json.decode(row, type=dict[str, Raw])
    data: dict[str, Any] = msgspec.json.decode(fields["data"], type=dict[str, Raw])
    for name, value in data.items():
        text = bytes(value)
        if len(text) > BODY_LIMIT:
            preview = text.decode()[:PREVIEW]
            data[name] = {"ref": f"{key}/{name}", "bytes": len(text), "preview": preview}
    return msgspec.json.encode({**fields, "data": data})
