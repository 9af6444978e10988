"""The list of sessions, and one session: overviews as published, and whether they stall."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct
from sqlalchemy import ColumnElement, Connection, LargeBinary, bindparam, func, select, text

from operators.readers.text import folded

from . import store_tables as t

CHUNK = 100
OPEN = ("running", "compacting")
STALL_MS = 300_000  #: a turn that is open and silent for so long is called stalled

Visible: TypeAlias = Callable[[str], bool]
"""Whether whoever asks may see a session, by its id; None in its place: all of them."""

_s = t.sessions.c


class TokenError(ValueError):
    """A place to go on from that this service did not make."""


class Held(Struct, frozen=True):
    """A session as held: its epoch and partition, its overview as JSON (None: none came yet)."""

    session: str
    epoch: int
    partition: int
    seq: int
    overview: bytes | None


class Asked(Struct, frozen=True):
    """``states``: any of these, none: all. ``words``: every one of them occurs in title, id,
    folder, model or origin. ``after``: where the last page ended."""

    states: tuple[str, ...] = ()
    words: str = ""
    parent: str | None = None
    sort: str = "activity"
    ascending: bool = False
    after: str | None = None
    limit: int = 50


class Listed(Struct, frozen=True):
    """``next``: where the next page begins, None at the end."""

    sessions: list[Raw]
    next: str | None


def find(connection: Connection, session: str) -> Held | None:
    wanted = select(_s.session, _s.epoch, _s.partition, _s.seq, _s.overview)
    found = connection.execute(wanted.where(_s.session == session)).first()
    return None if found is None else Held(*found)


def listed(connection: Connection, asked: Asked, visible: Visible | None, now_ms: int) -> Listed:
    """A page of the list. `TokenError` for an ``after`` that is none, or of another sort."""
    taken: list[Raw] = []
    last: tuple[Any, str] | None = None
    for value, session, overview in _walk(connection, asked):
        if visible is not None and not visible(session):
            continue
        if len(taken) == asked.limit:
            assert last is not None
            return Listed(taken, _token(asked.sort, *last))
        taken.append(with_stall(overview, now_ms))
        last = value, session
    return Listed(taken, None)


def counted(connection: Connection, visible: Visible | None) -> dict[str, int]:
    """How many sessions there are in each state."""
    there = _s.overview.is_not(None)
    if visible is None:
        found = connection.execute(
            select(_s.state, func.count()).where(there).group_by(_s.state)
        ).all()
        return dict(sorted((state, number) for state, number in found))
    every = connection.execute(select(_s.session, _s.state).where(there))
    return dict(sorted(Counter(state for name, state in every if visible(name)).items()))


def newest(connection: Connection, limit: int) -> list[tuple[str, bytes]]:
    """Ids and overviews of the sessions that were active last."""
    walk = _walk(connection, Asked(limit=limit))
    return [(session, bytes(body)) for (_, session, body), _ in zip(walk, range(limit))]  # noqa: B905


class _Seqs(Struct):
    as_of_seq: int | None = None
    next_seq: int = 0


def as_of(held: Held) -> int | None:
    """The last event folded, as the overview says."""
    if held.overview is None:
        return None
    return msgspec.json.decode(held.overview, type=_Seqs).as_of_seq


def next_seq(held: Held) -> int:
    """The seq after the last event folded, as the overview says."""
    return msgspec.json.decode(held.overview or b"{}", type=_Seqs).next_seq


def with_stall(overview: bytes, now_ms: int) -> Raw:
    """The overview and ``stalled``, which only a reader with a clock can tell."""
    fields: dict[str, Any] = msgspec.json.decode(overview, type=dict[str, Raw])
    state, last = msgspec.json.decode(fields["state"]), msgspec.json.decode(fields["last_time"])
    silent = isinstance(last, int) and now_ms - last > STALL_MS
    return Raw(msgspec.json.encode({**fields, "stalled": state in OPEN and silent}))


def _walk(connection: Connection, asked: Asked) -> Iterator[tuple[Any, str, bytes]]:
    """Sort value, id and overview, chunk by chunk along the index of the sort."""
    column = t.SORTS[asked.sort]
    order = (
        (column.asc(), _s.session.asc()) if asked.ascending else (column.desc(), _s.session.desc())
    )
    last = None if asked.after is None else _read_token(asked.sort, asked.after)
    base = select(column, _s.session, _s.overview).where(*_filters(connection, asked))
    while True:
        wanted = base if last is None else base.where(*_beyond(column, last, asked.ascending))
        found = connection.execute(wanted.order_by(*order).limit(CHUNK)).all()
        for value, session, overview in found:
            yield value, session, bytes(overview)
        if len(found) < CHUNK:
            return
        last = found[-1][0], found[-1][1]


def _filters(connection: Connection, asked: Asked) -> list[ColumnElement[bool]]:
    conditions: list[Any] = [_s.overview.is_not(None)]
    if asked.states:
        conditions.append(_s.state.in_(asked.states))
    if asked.parent is not None:
        conditions.append(_s.parent == asked.parent)
    for number, word in enumerate(folded(asked.words).split()):
        name = f"word{number}"
        bound = bindparam(name, word.encode("utf-8", "replace"), LargeBinary)
        how = (
            f"instr(sessions.words, :{name}) > 0"
            if connection.dialect.name == "sqlite"
            else f"position(:{name} in sessions.words) > 0"
        )
        conditions.append(text(how).bindparams(bound))
    return conditions


def _beyond(column: Any, last: tuple[Any, str], ascending: bool) -> list[ColumnElement[bool]]:
    value, session = last
    if ascending:
        return [column >= value, (column > value) | (_s.session > session)]
    return [column <= value, (column < value) | (_s.session < session)]


# --- where a page ends ----------------------------------------------------------------------------


class _Token(Struct, frozen=True, array_like=True):
    sort: str
    value: int | str
    session: str


def _token(sort: str, value: Any, session: str) -> str:
    return packed(_Token(sort, value, session))


def _read_token(sort: str, token: str) -> tuple[Any, str]:
    read = unpacked(token, _Token)
    if read.sort != sort or isinstance(read.value, str) is not (sort == "title"):
        raise TokenError(f"`after` is of a list sorted by {read.sort}, not by {sort}")
    return read.value, read.session


def packed(token: Struct) -> str:
    """A struct as opaque base64url."""
    return urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def unpacked(token: str, kind: type[Any]) -> Any:
    """`TokenError` for what `packed` did not make."""
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        read = msgspec.json.decode(b64decode(padded, altchars=b"-_", validate=True), type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise TokenError("`after` was not made by this service; leave it out to begin") from error
    numbers = [v for v in msgspec.structs.astuple(read) if isinstance(v, int)]
    if any(abs(number) > t.FOREVER for number in numbers):
        raise TokenError("`after` was not made by this service; leave it out to begin")
    return read
