"""Queries and their answers, one function each: the command line and any other door call these.

Answers are structs whose JSON stays as it is: fields are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Raw, Struct

from operators.readers.documents import documents
from operators.readers.filters import SURFACES, event_filter, session_filter
from operators.readers.injected import Liveness, liveness
from operators.readers.lineage import Conflict, Family, Lineage, SessionRecord, listed
from operators.readers.pairing import Cuts, cuts
from operators.text import well_formed

from .logs import Log
from .parameters import EVENT_PARAMETERS, SESSION_PARAMETERS, clauses

LIMIT = 1_000  #: hits of one answer, unless told otherwise
_WORDS = {mark: word for word, mark in SURFACES.items()}

Given = Mapping[str, Sequence[str] | None]


class Hit(Struct, frozen=True):
    """An event that was found, with the text it was found by."""

    session: str | None
    seq: int
    type: str
    time: int | None
    surface: str
    text: str


def search(log: Log, given: Given, limit: int = LIMIT) -> Iterator[Hit]:
    """The events with text that pass the filters (`EVENT_PARAMETERS`), oldest first. Raises
    `FilterError` before anything is looked at."""
    passes = event_filter(clauses(EVENT_PARAMETERS, given))
    found = (each for each in documents(log.taken, log.mark) if passes(each))
    session = log.session.session
    return (
        Hit(session, each.seq, each.type, each.time, _WORDS[each.surface], well_formed(each.text))
        for each in islice(found, limit)
    )


class Shown(Struct, frozen=True):
    """One event of a window; ``line`` as logged."""

    seq: int
    type: str
    time: int | None
    surface: str
    line: Raw


def window(log: Log, seq: int, around: int) -> Iterator[Shown]:
    """The events from ``around`` before ``seq`` to as many after it; the log keeps its lines."""
    for event in log.taken:
        if event.seq + event.count > seq - around and event.seq <= seq + around:
            surface = _WORDS[log.mark(event.seq)]
            line = _opaque(log.lines.get(event.seq, b""))
            yield Shown(event.seq, event.type, event.time, surface, line)


def _opaque(line: bytes) -> Raw:
    """The line of an event, bytes that are no UTF-8 replaced."""
    return Raw(line.strip().decode("utf-8", "replace").encode())


class Trace(Struct, frozen=True):
    """``chain``: what replaced the event, and what replaced that, to the node that stands;
    ``replaced``: the nodes that it replaced itself, in surface order."""

    session: str | None
    seq: int
    type: str
    surface: str
    replaced_by: int | None
    chain: tuple[int, ...]
    replaced: tuple[int, ...]


def trace(log: Log, seq: int) -> Trace | None:
    """What became of an event; None if the log has none of that seq."""
    event = next((e for e in log.taken if e.seq <= seq < e.seq + e.count), None)
    if event is None:
        return None
    chain, at = [], seq
    while (by := log.shadowed_by.get(at)) is not None:
        chain.append(by)
        at = by
    replaced = next((r.shadowed for r in log.surface_view.replacements if r.seq == seq), ())
    surface = _WORDS[log.mark(seq)]
    first = chain[0] if chain else None
    session = log.session.session
    return Trace(session, seq, event.type, surface, first, tuple(chain), tuple(replaced))


def contexts(log: Log) -> list[Liveness]:
    """Every injected context and whether the model still sees it."""
    return liveness(log.taken, log.current, log.shadowed_by)


def surface_cuts(log: Log) -> Cuts:
    """Where the surface may be cut without parting a call from its result."""
    return cuts(log.nodes())


# --- many sessions --------------------------------------------------------------------------------


class Sessions(Struct, frozen=True):
    """The sessions that pass, newest first, and those whose copies do not agree."""

    sessions: list[SessionRecord]
    conflicts: list[Conflict]


def sessions(records: Iterable[SessionRecord], given: Given, limit: int = LIMIT) -> Sessions:
    """The sessions that pass the filters (`SESSION_PARAMETERS`). Raises `FilterError`."""
    passes = session_filter(clauses(SESSION_PARAMETERS, given))
    found, conflicts = listed(records)
    return Sessions(list(islice(filter(passes, found), limit)), conflicts)


def lineage(records: Iterable[SessionRecord], session: str) -> Lineage | None:
    """Ancestors and descendants; None for a session that is not among them."""
    return Family(listed(records)[0]).lineage(session)
