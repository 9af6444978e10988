"""Rows, their large bodies, the text that lengthens them, and what they are found by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Raw
from sqlalchemy import Connection, bindparam, delete

from operators.changes import AssistantData, PartialText, TranscriptRow

from . import store_tables as t
from .bodies import paged
from .changes import RowChanged, TextAppended
from .records import Incoming
from .statements import run, upsert
from .texts import searched

_OF_KEY = (t.rows.c.session, t.rows.c.key)


def write_rows(connection: Connection, incoming: Sequence[Incoming]) -> list[RowChanged]:
    """Rows of current epochs, in the order of their offsets; the last of a key counts."""
    last: dict[tuple[str, str], tuple[Incoming, TranscriptRow]] = {}
    for each in incoming:
        row = each.item
        assert isinstance(row, TranscriptRow)
        assert row.session is not None
        last[row.session, row.key] = (each, row)
    changed, held, large, found, gone = [], [], [], [], []
    for (session, key), (each, row) in last.items():
        page = paged(row)
        held.append(_values(session, row, each.offset, page.body))
        of = {"session": session, "key": key}
        large += [{**of, "path": path, "body": body} for path, body in page.large.items()]
        document = searched(row)
        if document is None:
            gone.append({"b_session": session, "b_key": key})
        else:
            where = {"seq": row.anchor_seq, "kind": row.kind, "time": row.time or 0}
            found.append({**of, **where, "text": document.text, "folded": document.folded})
        changed.append(_changed(session, row, each, page.body))
    keys = [{"b_session": session, "b_key": key} for session, key in last]
    run(connection, upsert(connection, t.rows, _OF_KEY), held)
    run(connection, _delete(t.bodies), keys)
    run(connection, t.bodies.insert(), large)
    revs = [{**k, "b_rev": h["rev"]} for k, h in zip(keys, held, strict=True)]
    run(connection, _delete(t.partials, until=True), revs)
    run(connection, _delete(t.documents), gone)
    documents = (t.documents.c.session, t.documents.c.key)
    run(connection, upsert(connection, t.documents, documents), found)
    return changed


def _values(session: str, row: TranscriptRow, offset: int, body: bytes) -> dict[str, Any]:
    return {
        "session": session,
        "key": row.key,
        "epoch": row.epoch,
        "rev": row.rev,
        "kind": row.kind,
        "anchor_seq": row.anchor_seq,
        "anchor_rank": row.anchor_rank,
        "visibility": row.visibility,
        "deleted": row.deleted,
        "running": isinstance(row.data, AssistantData) and row.data.status == "running",
        "offset": offset,
        "body": body,
    }


def _changed(session: str, row: TranscriptRow, at: Incoming, body: bytes) -> RowChanged:
    return RowChanged(
        session,
        row.epoch,
        row.key,
        row.rev,
        row.kind,
        row.anchor_seq,
        row.anchor_rank,
        row.visibility,
        row.deleted,
        Raw(body),
        at.partition,
        at.offset,
    )


def _delete(table: Any, *, until: bool = False) -> Any:
    """What belongs to a row; ``until`` its revision."""
    statement = delete(table).where(
        table.c.session == bindparam("b_session"), table.c.key == bindparam("b_key")
    )
    return statement.where(table.c.rev <= bindparam("b_rev")) if until else statement


def write_partials(
    connection: Connection, incoming: Iterable[Incoming], revs: Mapping[tuple[str, str], int]
) -> list[TextAppended]:
    """Text of current epochs; what a row (``revs``: by session and key) holds already is none."""
    changed, held = [], []
    for each in incoming:
        part = each.item
        assert isinstance(part, PartialText)
        assert part.session is not None
        if part.last_seq <= revs.get((part.session, part.key), -1):
            continue
        text = TextAppended(
            part.session,
            part.epoch,
            part.key,
            part.last_seq,
            part.block,
            part.block_type,
            part.offset,
            part.text,
            part.first_seq,
            part.time,
            each.partition,
            each.offset,
        )
        changed.append(text)
        held.append({name: getattr(text, name) for name in _PARTIAL})
    key = (t.partials.c.session, t.partials.c.key, t.partials.c.rev, t.partials.c.block)
    run(connection, upsert(connection, t.partials, key), held)
    return changed


_PARTIAL = tuple(column.name for column in t.partials.columns)
