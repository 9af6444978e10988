"""Sessions as their overviews tell them, and whom each comes from: of those that may be seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw
from sqlalchemy import Connection, select

from operators.changes import SessionOverview
from operators.events import NULL
from operators.readers.lineage import SessionRecord
from pipeline.readers.sessions import of_overview

from . import store_tables as t
from .sessions import Visible

CHUNK = 500

_s = t.sessions.c


def overviews(connection: Connection, visible: Visible | None) -> Iterator[SessionOverview]:
    """All of them, by id."""
    after: list[object] = []
    base = select(_s.session, _s.overview).where(_s.overview.is_not(None)).order_by(_s.session)
    while True:
        query = base.where(_s.session > after[0]) if after else base
        found = connection.execute(query.limit(CHUNK)).all()
        yield from _seen(found, visible)
        if len(found) < CHUNK:
            return
        after = [found[-1].session]


def kin(
    connection: Connection, session: str, visible: Visible | None
) -> dict[str, SessionOverview]:
    """The session and all of its line, up and down, as far as they may be seen: what is behind a
    session that may not be seen is not met. Empty if it is not there itself."""
    found: dict[str, SessionOverview] = {}
    at: str | None = session
    while at is not None and at not in found:
        above = next(_seen(_found(connection, _s.session, [at]), visible), None)
        if above is None:
            break
        found[at], at = above, above.parent
    below = [session] if session in found else []
    while below:
        children = list(_seen(_found(connection, _s.parent, below), visible))
        below = [each.session for each in children if each.session and each.session not in found]
        found |= {each.session: each for each in children if each.session}
    return found


def records(found: Iterable[SessionOverview]) -> Iterator[SessionRecord]:
    return (of_overview(each) for each in found)


def _found(
    connection: Connection, column: object, values: list[str]
) -> Iterator[tuple[str, bytes]]:
    for at in range(0, len(values), CHUNK):
        some = values[at : at + CHUNK]
        query = select(_s.session, _s.overview).where(column.in_(some))  # type: ignore[attr-defined]
        rows = connection.execute(query.where(_s.overview.is_not(None))).all()
        yield from ((row.session, row.overview) for row in rows)


def _seen(found: Iterable[tuple[str, bytes]], visible: Visible | None) -> Iterator[SessionOverview]:
    for session, overview in found:
        if visible is None or visible(session):
            yield _read(overview)


def _read(overview: bytes) -> SessionOverview:
    """Without its todos, which are JSON of any kind."""
    fields = msgspec.json.decode(overview, type=dict[str, Raw])
    fields["todos"] = NULL
    return msgspec.json.decode(msgspec.json.encode(fields), type=SessionOverview, strict=False)
