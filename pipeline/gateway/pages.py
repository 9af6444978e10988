"""History pages out of the store: rows by anchor, raw events by seq (projection.md §8).

Every query is bounded by an index and by the page, never by the session's length. A page of rows is
the range of an events page, cut further by a budget of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from msgspec import Raw, Struct
from sqlalchemy import ColumnElement, Connection, and_, select

from operators.history import MAX_BYTES, MAX_MESSAGES

from . import store_tables as t
from .open_rows import completed

CHUNK = 64  #: rows read at once
MOST_EVENTS_BYTES = 8 * 1024 * 1024  #: of a page of raw events, unless told otherwise

_r = t.rows.c
ORDER = (_r.anchor_seq, _r.anchor_rank, _r.key)


class Budget(Struct, frozen=True):
    """``messages``: append-origin user and assistant messages; ``size``: bytes of JSON."""

    messages: int = MAX_MESSAGES
    size: int = MAX_BYTES


class RowsPage(Struct, frozen=True):
    """Rows anchored at ``first`` ≤ seq < ``before`` in order, or at ``first`` ≤ seq to the end
    (``before`` None). The next older page is the one before ``first`` if ``has_more``; the next
    newer one after ``before`` - 1 if ``has_newer``."""

    first: int
    before: int | None
    rows: tuple[Raw, ...]
    has_more: bool
    has_newer: bool


def rows_before(
    connection: Connection, session: str, epoch: int, before: int | None, budget: Budget
) -> RowsPage:
    """The newest rows anchored below ``before`` (None: the newest of all). A range that anchors
    none is passed over: a page is not empty while there are older rows."""
    end, more = before, True
    rows: tuple[Raw, ...] = ()
    first = 0
    while more and not rows:
        low = cut_before(connection, session, epoch, end, budget.messages)
        at, rows, full = _older(connection, session, (low, end), budget.size)
        more = full or (low > 0 and _any(connection, session, _r.anchor_seq < low))
        end = first = at if full else low
    newer = before is not None and _any(connection, session, _r.anchor_seq >= before)
    return RowsPage(first if more else 0, before, rows, more, newer)


def rows_after(
    connection: Connection, session: str, epoch: int, after: int, budget: Budget
) -> RowsPage:
    """The oldest rows anchored above ``after``; ranges that anchor none are passed over."""
    low, newer = after + 1, True
    rows: tuple[Raw, ...] = ()
    before: int | None = low
    while newer and not rows:
        high = cut_after(connection, session, epoch, low - 1, budget.messages)
        end, rows, full = _newer(connection, session, (low, high), budget.size)
        before = end if full else high
        newer = before is not None and _any(connection, session, _r.anchor_seq >= before)
        low = low if before is None else before
    more = _any(connection, session, _r.anchor_seq <= after)
    return RowsPage(after + 1, before if newer else None, rows, more, newer)


def rows_around(
    connection: Connection, session: str, epoch: int, seq: int, budget: Budget
) -> RowsPage:
    """About half the budget below ``seq`` and the rest from it on; never without the row there."""
    half = Budget(max(budget.messages // 2, 1), max(budget.size // 2, 1))
    from_it = rows_after(connection, session, epoch, seq - 1, half)
    older = rows_before(connection, session, epoch, seq, half)
    return RowsPage(
        older.first,
        from_it.before,
        older.rows + from_it.rows,
        older.has_more,
        from_it.has_newer,
    )


# --- the rows of a range --------------------------------------------------------------------------


def _older(
    connection: Connection, session: str, span: tuple[int, int | None], size: int
) -> tuple[int, tuple[Raw, ...], bool]:
    """Lowest anchor taken, the rows in order, whether the budget ended before the range did."""
    low, before = span
    mine = [_r.anchor_seq >= low] if low else []
    mine += [] if before is None else [_r.anchor_seq < before]
    taken, full, at = _groups(_walk(connection, session, mine, newest_first=True), size)
    rows = tuple(body for group in reversed(taken) for body in reversed(group))
    return at, rows, full


def _newer(
    connection: Connection, session: str, span: tuple[int, int | None], size: int
) -> tuple[int, tuple[Raw, ...], bool]:
    """The anchor after the highest taken, and as `_older`."""
    low, high = span
    mine = [_r.anchor_seq >= low] + ([] if high is None else [_r.anchor_seq < high])
    taken, full, at = _groups(_walk(connection, session, mine, newest_first=False), size)
    return at + 1, tuple(body for group in taken for body in group), full


def _groups(rows: Iterator[tuple[int, Raw]], size: int) -> tuple[list[list[Raw]], bool, int]:
    """Rows of one anchor seq stay together, as cursors are seqs; the first group is always taken.
    The groups, whether there was more than ``size``, the anchor of the last one taken."""
    groups: list[list[Raw]] = []
    at = spent = 0
    for anchor, found in groupby(rows, key=itemgetter(0)):
        group = [body for _, body in found]
        spent += sum(len(bytes(body)) for body in group)
        if groups and spent > size:
            return groups, True, at
        groups.append(group)
        at = anchor
    return groups, False, at


def _walk(
    connection: Connection,
    session: str,
    mine: Sequence[ColumnElement[bool]],
    *,
    newest_first: bool,
) -> Iterator[tuple[int, Raw]]:
    """Anchor and body of the rows that stand, chunk by chunk along the index."""
    order = [column.desc() if newest_first else column.asc() for column in ORDER]
    last: tuple[int, int, str] | None = None
    while True:
        conditions = [_r.session == session, *mine]
        if last is not None:
            conditions += _beyond(last, newest_first=newest_first)
        wanted = select(*ORDER, _r.deleted, _r.running, _r.body)
        found = connection.execute(wanted.where(*conditions).order_by(*order).limit(CHUNK)).all()
        for anchor, _, key, deleted, running, body in found:
            if not deleted:
                yield anchor, Raw(completed(connection, session, key, body) if running else body)
        if len(found) < CHUNK:
            return
        last = found[-1][:3]


def _beyond(last: tuple[int, int, str], *, newest_first: bool) -> list[ColumnElement[bool]]:
    """After ``last`` in the order of the walk; the first condition is for the index."""
    anchor, rank, key = last

    def past(column: Any, value: object) -> ColumnElement[bool]:
        return column < value if newest_first else column > value  # type: ignore[no-any-return]

    bound = _r.anchor_seq <= anchor if newest_first else _r.anchor_seq >= anchor
    same = _r.anchor_seq == anchor
    return [
        bound,
        past(_r.anchor_seq, anchor)
        | (same & past(_r.anchor_rank, rank))
        | (same & (_r.anchor_rank == rank) & past(_r.key, key)),
    ]


def _any(connection: Connection, session: str, condition: ColumnElement[bool]) -> bool:
    mine = and_(_r.session == session, condition, _r.deleted.is_(False))
    return connection.execute(select(_r.anchor_seq).where(mine).limit(1)).first() is not None


# --- where a page ends ----------------------------------------------------------------------------

_m = t.messages.c


def cut_before(
    connection: Connection, session: str, epoch: int, before: int | None, messages: int
) -> int:
    """The lowest seq of the page that covers so many messages below ``before``; 0: it reaches the
    beginning."""
    mine = [_m.session == session, _m.epoch == epoch]
    mine += [] if before is None else [_m.seq < before]
    found = select(_m.cut).where(*mine).order_by(_m.seq.desc()).offset(messages - 1).limit(1)
    return connection.execute(found).scalar() or 0


def cut_after(
    connection: Connection, session: str, epoch: int, after: int, messages: int
) -> int | None:
    """The seq before which the page above ``after`` ends; None: it reaches the end. It is where the
    message that is one too many begins, but never within those that the page covers."""
    mine = (_m.session == session, _m.epoch == epoch, _m.seq > after)
    found = connection.execute(
        select(_m.seq, _m.cut).where(*mine).order_by(_m.seq).offset(messages - 1).limit(2)
    ).all()
    if len(found) < 2:
        return None
    (last, _), (_, cut) = found
    return int(max(cut, last + 1))


# --- raw events -----------------------------------------------------------------------------------


class EventsPage(Struct, frozen=True):
    """As `operators.history.Page`, with the lines. ``has_more``: there may be older ones."""

    before: int | None
    first: int | None
    last: int | None
    count: int
    append_messages: int
    has_more: bool
    events: tuple[bytes, ...]


_e = t.events.c


def events_before(
    connection: Connection,
    session: str,
    epoch: int,
    before: int | None,
    budget: Budget,
) -> EventsPage:
    """One contiguous range, the newest that covers the budget's messages; it is cut short where it
    would be more than its bytes, at a whole line."""
    cut = cut_before(connection, session, epoch, before, budget.messages)
    lines: list[bytes] = []
    first = last = None
    count = spent = 0
    for seq, length, line in _lines(connection, session, epoch, before):
        if seq + length <= cut:
            break
        if lines and spent + len(line) > budget.size:
            cut = seq + length
            break
        top = seq + length - 1 if before is None else min(seq + length, before) - 1
        first, last = max(seq, cut), top if last is None else last
        count += top - first + 1
        lines.append(line)
        spent += len(line)
    messages = 0 if first is None else _messages(connection, session, epoch, (cut, before))
    return EventsPage(before, first, last, count, messages, cut > 0, tuple(reversed(lines)))


def _lines(
    connection: Connection, session: str, epoch: int, before: int | None
) -> Iterator[tuple[int, int, bytes]]:
    """Seq, count and line, the newest first."""
    while True:
        mine = [_e.session == session, _e.epoch == epoch]
        mine += [] if before is None else [_e.seq < before]
        wanted = select(_e.seq, _e["count"], _e.line).where(*mine).order_by(_e.seq.desc())
        found = connection.execute(wanted.limit(CHUNK)).all()
        for seq, count, line in found:
            yield seq, count, bytes(line)
        if len(found) < CHUNK:
            return
        before = found[-1][0]


def _messages(
    connection: Connection, session: str, epoch: int, span: tuple[int, int | None]
) -> int:
    low, before = span
    mine = [_m.session == session, _m.epoch == epoch, _m.seq >= low]
    mine += [] if before is None else [_m.seq < before]
    return len(connection.execute(select(_m.seq).where(*mine)).all())
