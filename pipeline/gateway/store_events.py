"""Raw lines and the messages that spend a page's budget.

Lines are kept per epoch of the log, since they may be ahead of what is folded. The first line of a
seq stays; one that comes again, or late, is not the log's (projection.md §3).
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from . import store_tables as t
from .records import EventLine
from .statements import run


def write_events(connection: Connection, lines: Iterable[EventLine]) -> None:
    reached: dict[tuple[str, int], int] = {}
    held, messages = [], []
    for line in lines:
        log = (line.session, line.epoch)
        next_seq = reached.get(log)
        if next_seq is None:
            next_seq = _next_seq(connection, *log)
        end = line.seq + line.count
        first = max(line.seq, next_seq)  # of a packed row that overlaps, the new members
        reached[log] = max(next_seq, end)
        if first >= end:
            continue
        of = {"session": line.session, "epoch": line.epoch, "seq": first}
        held.append({**of, "count": end - first, "line": line.line})
        if line.cut is not None:
            messages.append({**of, "cut": line.cut})
    run(connection, t.events.insert(), held)
    run(connection, t.messages.insert(), messages)


def _next_seq(connection: Connection, session: str, epoch: int) -> int:
    """The seq after the highest held."""
    mine = (t.events.c.session == session, t.events.c.epoch == epoch)
    last = select(func.max(t.events.c.seq)).where(*mine).scalar_subquery()
    ends = select(t.events.c.seq + t.events.c.count).where(*mine, t.events.c.seq == last)
    found: int | None = connection.execute(ends).scalar()
    return 0 if found is None else found
