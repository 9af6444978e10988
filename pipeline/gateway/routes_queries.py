"""The questions of ``foldstream query`` about one session, with the same parameters and answers.

Those that look at raw events need the right to see them, as no redaction covers these.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, defstruct

from operators.readers.filters import event_filter
from operators.readers.injected import Liveness
from operators.readers.pairing import Cuts
from pipeline.readers import query
from pipeline.readers.parameters import AROUND, EVENT_PARAMETERS, clauses
from pipeline.readers.query import Hit, Shown, Trace

from . import surface_at
from .jsonout import safe
from .operations import JSON, Answer, Operation
from .parameters import Id, Limit, Seq, checked, filters, given
from .problems import not_found
from .service import Asking
from .stored_log import StoredLog

MOST_LINES = 20_000  #: looked at for one answer, so that none keeps a thread for long

SearchParameters = defstruct(
    "EventSearchParameters",
    [
        ("id", Id),
        *filters(EVENT_PARAMETERS),
        ("first", Annotated[Seq, Meta(description="where to go on: `next` of the page before")], 0),
        ("limit", Limit, 50),
    ],
    frozen=True,
)


class Hits(Struct, frozen=True):
    """The events found, the oldest first. ``next``: `first` of the next page, which may be when
    fewer than ``limit`` were found in all that was looked at; null at the end. ``first_held``: the
    first seq that could be looked at."""

    session: str
    epoch: int
    hits: list[Hit]
    next: int | None
    first_held: int | None


def search(asking: Asking, asked: Any) -> Answer:
    asking.needs_raw()
    wanted = given(asked, EVENT_PARAMETERS)
    first, last = _span(wanted, asked.first)
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        log = StoredLog(connection, held).between(first, last, MOST_LINES)
        hits = list(query.search(log, wanted, asked.limit))
        more = log.reached if log.reached < log.end else None
        found = Hits(held.session, held.epoch, hits, more, log.first_held)
    return _answer(found)


def _span(wanted: query.Given, first: int) -> tuple[int, int | None]:
    """The seqs that can pass the filters, which are checked."""
    asked = checked(lambda: clauses(EVENT_PARAMETERS, wanted))
    checked(lambda: event_filter(asked))
    seqs = [clause for clause in asked if clause["kind"] == "seq"]
    lasts = [clause["to"] for clause in seqs if "to" in clause]
    return max([first, *(clause.get("from", 0) for clause in seqs)]), min(lasts, default=None)


class WindowParameters(Struct, frozen=True):
    id: Id
    at: Annotated[Seq, Meta(description="the seq in the middle")]
    around: Annotated[int, Meta(ge=0, le=500, description="events before it and after it")] = AROUND


class Window(Struct, frozen=True):
    """Events in order, each as logged (packed rows whole) with what it is on the surface."""

    session: str
    epoch: int
    events: list[Shown]


def window(asking: Asking, asked: WindowParameters) -> Answer:
    asking.needs_raw()
    at, around = asked.at, asked.around
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        log = StoredLog(connection, held).between(max(at - around, 0), at + around)
        events = list(query.window(log, at, around))
    return _answer(Window(held.session, held.epoch, events))


class AtParameters(Struct, frozen=True):
    id: Id
    at: Annotated[Seq, Meta(description="the event's seq")]


def trace(asking: Asking, asked: AtParameters) -> Answer:
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        log = StoredLog(connection, held).between(asked.at, asked.at)
        found = query.trace(log, asked.at)
        node = surface_at.change_of(connection, held.session, asked.at)
        if found is None and node is not None:  # its line has expired
            found = query.traced(log, asked.at, node.type or "")
    if found is None:
        raise not_found(f"session {held.session!r} has no event at seq {asked.at}")
    return _answer(found)


class OneSession(Struct, frozen=True):
    id: Id


class Contexts(Struct, frozen=True):
    """Injected context in the order of the log: alive, superseded or shadowed, and by which seq."""

    session: str
    epoch: int
    contexts: list[Liveness]


def contexts(asking: Asking, asked: OneSession) -> Answer:
    asking.needs_raw()
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        messages = surface_at.seqs_of(connection, held.session, "user/message")
        log = StoredLog(connection, held).at(messages)
        found = query.contexts(log)
    return _answer(Contexts(held.session, held.epoch, found))


class SurfaceCuts(Cuts, frozen=True):
    """As `Cuts`, of the nodes ``seqs``."""

    seqs: tuple[int, ...] = ()


def cuts(asking: Asking, asked: OneSession) -> Answer:
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        log = StoredLog(connection, held)
        found, seqs = query.surface_cuts(log), tuple(node.seq for node in log.nodes())
    return _answer(SurfaceCuts(found.before, found.after, found.corrupt, seqs))


def _answer(found: Struct) -> Answer:
    return Answer(safe(msgspec.json.encode(found)), history=True)


def _query(name: str, about: str, parameters: type[Struct], answer: Any, handle: Any) -> Operation:
    path = f"/v1/sessions/{{id}}/query/{name}"
    return Operation(path, f"query_{name}", about, parameters, {JSON: answer}, handle, history=True)


OPERATIONS = (
    _query(
        "search",
        "Events by their text, type, time, seq and place on the surface",
        SearchParameters,
        Hits,
        search,
    ),
    _query("window", "The events around a seq, as logged", WindowParameters, Window, window),
    _query("trace", "What replaced an event, and what it replaced", AtParameters, Trace, trace),
    _query(
        "contexts",
        "Which injected context the model still sees",
        OneSession,
        Contexts,
        contexts,
    ),
    _query(
        "cuts",
        "Where a compaction would part no call from its result",
        OneSession,
        SurfaceCuts,
        cuts,
    ),
)
