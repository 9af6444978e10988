"""Queries and their answers, one function each: the command line and any other door call these.

Beside each is what it wants of a log (``Asked(search_wants(…))``); the answer over the events that
it wanted is the answer over all of them. Answers are structs whose JSON stays as it is: fields are
added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from msgspec import Raw, Struct

from operators.events import Event, UserMessage
from operators.nodes import Node
from operators.readers.documents import LOG_ONLY, documents
from operators.readers.filters import SURFACES, event_filter, session_filter
from operators.readers.injected import Liveness, liveness
from operators.readers.lineage import Conflict, Family, Lineage, SessionRecord, listed
from operators.readers.pairing import Cuts, cuts
from operators.text import well_formed

from .asked import Wanted
from .parameters import EVENT_PARAMETERS, SESSION_PARAMETERS, clauses

LIMIT = 1_000  #: hits of one answer, unless told otherwise
_WORDS = {mark: word for word, mark in SURFACES.items()}

Given = Mapping[str, Sequence[str] | None]


class Log(Protocol):
    """A log that was folded; of its events at least those that the question wants."""

    lines: dict[int, bytes]

    @property
    def taken(self) -> Iterable[Event]: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def current(self) -> frozenset[int]: ...
    @property
    def shadowed_by(self) -> dict[int, int]: ...
    def mark(self, seq: int) -> str: ...
    def replaced(self, seq: int) -> tuple[int, ...]: ...
    def nodes(self) -> list[Node]: ...


def _covers(event: Event, low: int, high: int) -> bool:
    """Whether an event, or a member of a packed row, has a seq from ``low`` to ``high``."""
    return event.seq <= high and event.seq + event.count > low


class Hit(Struct, frozen=True):
    """An event that was found, with the text it was found by."""

    session: str | None
    seq: int
    type: str
    time: int | None
    surface: str
    text: str


def search_wants(given: Given, limit: int = LIMIT) -> Wanted:
    """The events with text that can be hits. What a place on the surface asks for shows only at the
    end of the log; without such a filter the first ``limit`` are all. Raises `FilterError`."""
    asked = clauses(EVENT_PARAMETERS, given)
    event_filter(asked)
    at_the_end = any(clause["kind"] == "surface" for clause in asked)
    passes = event_filter(clause for clause in asked if clause["kind"] != "surface")
    left = limit

    def wants(event: Event) -> bool:
        nonlocal left
        if not left or not any(map(passes, documents((event,), lambda _: LOG_ONLY))):
            return False
        left -= not at_the_end
        return True

    return wants


def search(log: Log, given: Given, limit: int = LIMIT) -> Iterator[Hit]:
    """The events with text that pass the filters (`EVENT_PARAMETERS`), oldest first. Raises
    `FilterError` before anything is looked at."""
    passes = event_filter(clauses(EVENT_PARAMETERS, given))
    found = (each for each in documents(log.taken, log.mark) if passes(each))
    session = log.session_id
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


def window_wants(seq: int, around: int) -> Wanted:
    return lambda event: _covers(event, seq - around, seq + around)


def window(log: Log, seq: int, around: int) -> Iterator[Shown]:
    """The events from ``around`` before ``seq`` to as many after it; the log keeps its lines."""
    for event in log.taken:
        if _covers(event, seq - around, seq + around):
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


def trace_wants(seq: int) -> Wanted:
    return lambda event: _covers(event, seq, seq)


def trace(log: Log, seq: int) -> Trace | None:
    """What became of an event; None if the log has none of that seq."""
    event = next((event for event in log.taken if _covers(event, seq, seq)), None)
    return None if event is None else traced(log, seq, event.type)


def traced(log: Log, seq: int, type_: str) -> Trace:
    """What became of the event of that seq and type."""
    chain, at = [], seq
    while (by := log.shadowed_by.get(at)) is not None:
        chain.append(by)
        at = by
    surface = _WORDS[log.mark(seq)]
    first = chain[0] if chain else None
    return Trace(log.session_id, seq, type_, surface, first, tuple(chain), log.replaced(seq))


def contexts_wants(event: Event) -> bool:
    return isinstance(event.body, UserMessage) and event.body.source.kind != "user"


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
