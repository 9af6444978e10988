"""The store as the streams read it: what was missed and what there is, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from sqlalchemy import Connection, select

from . import pages, sessions, surface_at
from . import store_tables as t
from .changes import Change, Offsets, OverviewChanged, RowChanged, SurfaceChanged
from .open_rows import completed
from .pages import Budget
from .protocol import EVERYTHING, ROLES, Known, View, Whole
from .sessions import Visible
from .store import offsets

NEWEST = 500  #: overviews that begin a stream of all sessions; the list has the others

_r, _p, _s, _f = t.rows.c, t.partials.c, t.sessions.c, t.surface.c


class StoreCut:
    """Implements `protocol.Cut` for as long as the connection's transaction lasts. ``visible``:
    which sessions whoever asks may see (None: all). ``ends``: of the topics."""

    def __init__(
        self, connection: Connection, log: str, ends: Offsets, visible: Visible | None
    ) -> None:
        self.log = log
        self.ends = ends
        self.offsets: Offsets = offsets(connection)
        self._connection = connection
        self._visible = visible

    def known(self, session: str) -> Known | None:
        if self._visible is not None and not self._visible(session):
            return None
        found = sessions.find(self._connection, session)
        return None if found is None else Known(found.epoch, found.partition)

    # --- what was missed

    def missed(
        self, session: str, view: View, since: Offsets, limit: int
    ) -> Sequence[Change] | None:
        # Of a place without a record yet nothing is known: it begins at 0.
        at = dict.fromkeys(ROLES[view], 0) | {role: at for (role, _), at in since.items()}
        found: list[Change] = []
        for some in self._missed(session, view, since, at, limit):
            found += some
            if len(found) > limit:
                return None
        return found

    def _missed(
        self, session: str, view: View, since: Offsets, at: dict[str, int], limit: int
    ) -> Iterator[Sequence[Change]]:
        if session == EVERYTHING:
            yield self._overviews(since)
            return
        if view == "transcript":
            yield self._rows(session, at["transcript"], at["partials"], limit)
        if view == "surface":
            yield self._steps(session, at["surface"], limit)
        mine = (_s.session == session, _s.offset >= at["overview"], _s.overview.is_not(None))
        yield [_overview(one) for one in self._connection.execute(_OVERVIEW.where(*mine))]

    def _rows(self, session: str, rows: int, texts: int, limit: int) -> list[RowChanged]:
        """Published since, or lengthened since."""
        longer = select(_p.key).where(_p.session == session, _p.offset >= texts).distinct()
        wanted = select(*_ROW, _s.partition).join(t.sessions, _s.session == _r.session)
        mine = (_r.session == session, (_r.offset >= rows) | _r.key.in_(longer))
        found = self._connection.execute(wanted.where(*mine).limit(limit + 1)).all()
        return [self._row(session, one) for one in found]

    def _row(self, session: str, found: Any) -> RowChanged:
        body, rev = bytes(found.body), found.rev
        if found.running:
            body = completed(self._connection, session, found.key, body)
            rev = msgspec.json.decode(body, type=_Rev).rev
        return RowChanged(
            *(session, found.epoch, found.key, rev, found.kind, found.anchor_seq),
            *(found.anchor_rank, found.visibility, found.deleted, Raw(body)),
            *(found.partition, found.offset),
        )

    def _steps(self, session: str, since: int, limit: int) -> list[SurfaceChanged]:
        wanted = select(_f.seq, _f.op, _f.change, _f.message, _f.offset, _s.epoch, _s.partition)
        joined = wanted.join(t.sessions, _s.session == _f.session)
        mine = (_f.session == session, _f.offset >= since)
        found = self._connection.execute(joined.where(*mine).order_by(_f.seq).limit(limit + 1))
        return [
            SurfaceChanged(
                *(session, one.epoch, one.seq, one.op, _step(one.change, one.message)),
                *(one.partition, one.offset),
            )
            for one in found
        ]

    def _overviews(self, since: Offsets) -> list[OverviewChanged]:
        found = self._connection.execute(_OVERVIEW.where(_s.overview.is_not(None)))
        return [
            _overview(one)
            for one in found
            if one.offset >= since.get(("overview", one.partition), 0)
            and (self._visible is None or self._visible(one.session))
        ]

    # --- what there is

    def whole(self, session: str, view: View) -> Whole:
        if session == EVERYTHING:
            asked = sessions.Asked(limit=NEWEST)
            newest = sessions.listed(self._connection, asked, self._visible, 0)
            return Whole(overviews=tuple(newest.sessions))
        held = sessions.find(self._connection, session)
        assert held is not None
        overview = None if held.overview is None else Raw(bytes(held.overview))
        if view == "overview":
            return Whole(overview=overview)
        if view == "surface":
            return Whole(overview=overview, surface=self._surface(session))
        page = pages.rows_before(self._connection, session, held.epoch, None, Budget())
        return Whole(page.rows, page.has_more, overview)

    def _surface(self, session: str) -> Raw:
        generation, nodes = surface_at.surface_at(self._connection, session, None)
        reached = select(_s.surface_seq).where(_s.session == session)
        as_of = self._connection.execute(reached).scalar()
        surface = {"generation": generation, "as_of_seq": as_of, "nodes": nodes}
        return Raw(msgspec.json.encode(surface))


class _Rev(Struct):
    rev: int


_ROW = (
    *(_r.key, _r.epoch, _r.rev, _r.kind, _r.anchor_seq, _r.anchor_rank),
    *(_r.visibility, _r.deleted, _r.running, _r.body, _r.offset),
)
_OVERVIEW = select(_s.session, _s.epoch, _s.seq, _s.state, _s.overview, _s.partition, _s.offset)


def _overview(found: Any) -> OverviewChanged:
    return OverviewChanged(
        *(found.session, found.epoch, found.seq, found.state, Raw(bytes(found.overview))),
        *(found.partition, found.offset),
    )


def _step(change: bytes, message: bytes | None) -> Raw:
    """The record as published: its message is held beside it."""
    if message is None:
        return Raw(bytes(change))
    fields: dict[str, Raw] = msgspec.json.decode(bytes(change), type=dict[str, Raw])
    return Raw(msgspec.json.encode({**fields, "message": Raw(bytes(message))}))
