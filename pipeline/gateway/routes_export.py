"""A session as a file, streamed: what is sent is read page by page, so its size costs no memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import ColumnElement, select

from . import store_tables as t
from .export import MEDIA, Format, exported
from .operations import Answer, Operation
from .parameters import Id
from .problems import Problem
from .routes_rows import whole_row
from .service import Asking

_OTHER = re.compile(r"[^A-Za-z0-9._-]")
CHUNK = 50  #: rows of one moment

_r = t.rows.c
ORDER = (_r.anchor_seq, _r.anchor_rank, _r.key)

#: The file's own style is all that it loads.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class ExportParameters(Struct, frozen=True):
    id: Id
    format: Annotated[Format, Meta(description="Markdown, HTML, or a row per line as JSON")] = "md"


class _Title(Struct):
    title: str | None = None


def export(asking: Asking, asked: ExportParameters) -> Answer:
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
    title = msgspec.json.decode(held.overview or b"{}", type=_Title).title
    rows = _rows(asking, held.session, held.epoch)
    name = f"{quote(held.session, safe='')}.{asked.format}"
    plain = (
        f"{_OTHER.sub('_', held.session)}.{asked.format}"  # all that some clients know, curl too
    )
    return Answer(
        media=MEDIA[asked.format] + "; charset=utf-8",
        stream=exported(asked.format, held.session, title, rows),
        headers={
            "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{name}",
            "Content-Security-Policy": POLICY + "; sandbox",
            "Cache-Control": "no-store",
        },
    )


def _rows(asking: Asking, session: str, epoch: int) -> Iterator[bytes]:
    """Whole rows in order. A log that is begun anew meanwhile, or a database that goes away, ends
    the file: it then is shorter than it says."""
    last: tuple[int, int, str] | None = None
    while True:
        mine = [_r.session == session, _r.epoch == epoch, _r.deleted.is_(False)]
        if last is not None:
            mine += [_r.anchor_seq >= last[0], _after(last)]
        wanted = select(*ORDER, _r.running, _r.body).where(*mine).order_by(*ORDER).limit(CHUNK)
        try:
            with asking.read() as connection:
                found = connection.execute(wanted).all()
                whole = [
                    whole_row(connection, session, row.key, row.body, running=row.running)
                    for row in found
                ]
        except Problem as problem:
            raise ConnectionAbortedError(problem.detail) from problem
        yield from whole
        if len(found) < CHUNK:
            return
        last = (found[-1].anchor_seq, found[-1].anchor_rank, found[-1].key)


def _after(last: tuple[int, int, str]) -> ColumnElement[bool]:
    anchor, rank, key = last
    same = _r.anchor_seq == anchor
    return (
        (_r.anchor_seq > anchor)
        | (same & (_r.anchor_rank > rank))
        | (same & (_r.anchor_rank == rank) & (_r.key > key))
    )


OPERATIONS = (
    Operation(
        "/v1/sessions/{id}/export",
        "export",
        "The whole transcript as a file",
        ExportParameters,
        dict.fromkeys(MEDIA.values()),
        export,
    ),
)
