"""Sessions: their epochs, their overviews, and what the list filters and sorts by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from sqlalchemy import Connection, bindparam, delete, select, update

from operators.changes import SessionOverview
from operators.readers.text import folded

from . import store_tables as t
from .changes import OverviewChanged
from .jsonout import safe
from .records import Incoming
from .statements import insert_new, run

MOST = 2**62  #: of a figure, so that no database overflows

#: Sessions looked up by one statement.
TOGETHER = 500


class Known(Struct, frozen=True):
    """What the writer must know of a session. ``seq``: of its overview, -1 without one."""

    epoch: int
    surface_seq: int
    seq: int


def known(connection: Connection, sessions: Iterable[str]) -> dict[str, Known]:
    c = t.sessions.c
    wanted, found = list(sessions), {}
    for at in range(0, len(wanted), TOGETHER):
        some = wanted[at : at + TOGETHER]
        rows = connection.execute(
            select(c.session, c.epoch, c.surface_seq, c.seq).where(c.session.in_(some))
        )
        found.update({name: Known(*rest) for name, *rest in rows})
    return found


def enter(connection: Connection, epochs: Mapping[str, int], partitions: Mapping[str, int]) -> None:
    """New sessions, and those whose epoch rose: what was held of these is gone."""
    new = [
        {"session": session, "epoch": epoch, "partition": partitions[session]}
        for session, epoch in epochs.items()
    ]
    gone = [{"b_session": session} for session in epochs]
    for table in t.OF_A_SESSION:
        run(connection, delete(table).where(table.c.session == bindparam("b_session")), gone)
    below = [
        {"b_session": session, "b_epoch": epoch} for session, epoch in epochs.items() if epoch > 0
    ]
    for table in (t.events, t.messages):
        old = delete(table).where(
            table.c.session == bindparam("b_session"), table.c.epoch < bindparam("b_epoch")
        )
        run(connection, old, below)
    run(connection, delete(t.sessions).where(t.sessions.c.session == bindparam("b_session")), gone)
    run(connection, insert_new(connection, t.sessions), new)


def write_reached(connection: Connection, reached: Mapping[str, int]) -> None:
    """Up to which seq each session's surface is applied."""
    mine = update(t.sessions).where(t.sessions.c.session == bindparam("b_session"))
    values = [{"b_session": session, "surface_seq": seq} for session, seq in reached.items()]
    run(connection, mine, values)


def write_overviews(
    connection: Connection, incoming: Iterable[Incoming], seqs: Mapping[str, int]
) -> list[OverviewChanged]:
    """Overviews of current epochs; ``seqs``: of those held."""
    last: dict[str, tuple[Incoming, SessionOverview]] = {}
    for each in incoming:
        overview = each.item
        assert isinstance(overview, SessionOverview)
        assert overview.session is not None
        if overview.seq >= seqs.get(overview.session, -1):
            last[overview.session] = (each, overview)
    changed, values = [], []
    for session, (each, overview) in last.items():
        body = safe(msgspec.json.encode(overview))
        values.append({"b_session": session, **_columns(overview, body, each.offset)})
        at = (each.partition, each.offset)
        of = (session, overview.epoch, overview.seq, overview.state)
        changed.append(OverviewChanged(*of, Raw(body), *at))
    run(
        connection,
        update(t.sessions).where(t.sessions.c.session == bindparam("b_session")),
        values,
    )
    return changed


def _columns(overview: SessionOverview, body: bytes, offset: int) -> dict[str, Any]:
    usage, counts = overview.usage, overview.counts
    words = (overview.title, overview.session, overview.cwd, overview.model, overview.origin)
    spent = usage.uncached_input + usage.output + usage.cache_read + usage.cache_write
    failed = sum(n for name, n in counts.items() if name in ("tool_errors", "turns_error"))
    return {
        "seq": overview.seq,
        "overview": body,
        "offset": offset,
        "state": overview.state,
        "title": folded(overview.title or ""),
        "words": folded("\n".join(word for word in words if word)),
        "parent": overview.parent,
        "activity": _bounded(overview.last_time or overview.created_at or 0),
        "created": _bounded(overview.created_at or 0),
        "tokens": _bounded(spent),
        "errors": _bounded(failed),
        "compactions": _bounded(counts.get("compactions_landed", 0)),
    }


def _bounded(figure: int) -> int:
    return max(-MOST, min(figure, MOST))
