"""Full-text search: rows whose text holds every word, each with the seq it lands on.

A word is what stands between blanks, or between double quotes; it is found anywhere in the text,
whatever its case (readers.md §11), in any script: trigrams find words of three characters and more,
shorter ones are looked for row by row, the newest first, until the page is full. Both databases
give the same rows in the same order: by the row's time, newest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, text

from . import store_tables as t
from .sessions import Visible, packed, unpacked
from .texts import needle

CHUNK = 100
AROUND = 80  #: code points of text shown on each side of what was found
INDEXED = 3  #: characters from which on the index helps
MOST_WORDS = 16

_WORD = re.compile(r'"([^"]*)"|(\S+)')
_d = t.documents.c
ORDER = (_d.time, _d.session, _d.seq, _d.key)


class Asked(Struct, frozen=True):
    words: str
    session: str | None = None
    kinds: tuple[str, ...] = ()
    after: str | None = None
    limit: int = 50


class Hit(Struct, frozen=True):
    """A row that was found: ``before`` + ``match`` + ``behind`` is an excerpt of its text, with
    every run of white space as one blank; ``cut``: there is more text on that side."""

    session: str
    key: str
    seq: int
    kind: str
    time: int
    before: str
    match: str
    behind: str
    cut: tuple[bool, bool]


class Found(Struct, frozen=True):
    hits: list[Hit]
    next: str | None


def words(asked: str) -> list[str]:
    """The words of a query as they are compared; none for white space alone."""
    found = (needle(quoted or plain) for quoted, plain in _WORD.findall(asked))
    return list(dict.fromkeys(word for word in found if word))[:MOST_WORDS]


def search(connection: Connection, asked: Asked, visible: Visible | None) -> Found:
    """A page of hits. `sessions.TokenError` for an ``after`` that is none."""
    wanted = words(asked.words)
    if not wanted:
        return Found([], None)
    hits: list[Hit] = []
    last: tuple[Any, ...] | None = None
    for row in _walk(connection, asked, wanted):
        if visible is not None and not visible(row.session):
            continue
        if len(hits) == asked.limit:
            assert last is not None
            return Found(hits, packed(_Token(*last)))
        hits.append(_hit(row, wanted[0]))
        last = (row.time, row.session, row.seq, row.key)
    return Found(hits, None)


def _walk(connection: Connection, asked: Asked, wanted: Sequence[str]) -> Iterator[Any]:
    columns = (*ORDER, _d.kind, _d.text, _d.folded)
    base = select(*columns).where(*_conditions(connection, asked, wanted))
    last = None if asked.after is None else _read(asked.after)
    while True:
        query = base if last is None else base.where(_beyond(last))
        query = query.order_by(*(column.desc() for column in ORDER)).limit(CHUNK)
        found = connection.execute(query).all()
        yield from found
        if len(found) < CHUNK:
            return
        last = tuple(found[-1][:4])


def _conditions(
    connection: Connection, asked: Asked, wanted: Sequence[str]
) -> list[ColumnElement[bool]]:
    conditions: list[Any] = []
    if asked.session is not None:
        conditions.append(_d.session == asked.session)
    if asked.kinds:
        conditions.append(_d.kind.in_(asked.kinds))
    if connection.dialect.name == "sqlite":
        indexed = [word for word in wanted if len(word) >= INDEXED]
        if indexed:
            phrases = " AND ".join('"' + word.replace('"', '""') + '"' for word in indexed)
            index = "documents.id IN (SELECT rowid FROM documents_index WHERE folded MATCH :all)"
            conditions.append(text(index).bindparams(all=phrases))
        conditions += [func.instr(_d.folded, word) > 0 for word in wanted]
    else:
        conditions += [_d.folded.contains(word, autoescape=True) for word in wanted]
    return conditions


def _beyond(last: tuple[Any, ...]) -> ColumnElement[bool]:
    """After ``last``, newest first."""
    alternatives = [
        and_(*(ORDER[i] == last[i] for i in range(at)), ORDER[at] < last[at])
        for at in range(len(ORDER))
    ]
    return and_(_d.time <= last[0], or_(*alternatives))


def _hit(row: Any, word: str) -> Hit:
    at = max(row.folded.find(word), 0)
    end = at + len(word)
    low, high = max(at - AROUND, 0), min(end + AROUND, len(row.text))
    excerpt = (row.text[low:at], row.text[at:end], row.text[end:high])
    cut = (low > 0, high < len(row.text))
    return Hit(row.session, row.key, row.seq, row.kind, row.time, *excerpt, cut)


class _Token(Struct, frozen=True, array_like=True):
    time: int
    session: str
    seq: int
    key: str


def _read(token: str) -> tuple[Any, ...]:
    read = unpacked(token, _Token)
    return read.time, read.session, read.seq, read.key
