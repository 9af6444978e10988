"""The questions of ``foldstream query`` about many sessions: lists, lineage, what they cost. They
know of no session that whoever asks may not see, not even that it is there."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, defstruct

from operators.readers.filters import session_filter
from operators.readers.lineage import Lineage
from pipeline.readers import costs, query
from pipeline.readers.costs import SessionCost
from pipeline.readers.parameters import SESSION_PARAMETERS, clauses
from pipeline.readers.query import LIMIT, Sessions
from pipeline.readers.sessions import of_overview

from . import families
from .jsonout import safe
from .operations import JSON, Answer, Operation
from .parameters import Id, checked, filters, given
from .problems import not_found
from .service import Asking

Most = Annotated[int, Meta(ge=1, le=LIMIT, description="sessions listed")]

SessionsParameters = defstruct(
    "SessionQueryParameters",
    [*filters(SESSION_PARAMETERS), ("limit", Most, LIMIT)],
    frozen=True,
)


def sessions(asking: Asking, asked: Any) -> Answer:
    wanted = given(asked, SESSION_PARAMETERS)
    checked(lambda: session_filter(clauses(SESSION_PARAMETERS, wanted)))
    with asking.read() as connection:
        records = families.records(families.overviews(connection, asking.visible))
        found = query.sessions(records, wanted, asked.limit)
    return _answer(found)


class OneSession(Struct, frozen=True):
    id: Id


def lineage(asking: Asking, asked: OneSession) -> Answer:
    with asking.read() as connection:
        session = asking.session(connection, asked.id).session
        kin = families.kin(connection, session, asking.visible)
        found = query.lineage(families.records(kin.values()), session)
    if found is None:
        raise not_found(f"the overview of session {session!r} has not come yet")
    return _answer(found)


class CostParameters(Struct, frozen=True):
    family: Annotated[Id, Meta(description="this one and all that come from it")] | None = None
    limit: Most = LIMIT


class Costs(Struct, frozen=True):
    """``total`` is of all of them, ``sessions`` lists the first; ``left_out`` says how many more
    there are. Parents come first in a family. Prices are the service's own (--rate-card)."""

    sessions: list[SessionCost]
    left_out: int
    total: SessionCost


def cost(asking: Asking, asked: CostParameters) -> Answer:
    card = asking.service.card
    with asking.read() as connection:
        if asked.family is None:
            wanted = list(families.overviews(connection, asking.visible))
        else:
            session = asking.session(connection, asked.family).session
            kin = families.kin(connection, session, asking.visible)
            line = query.lineage(families.records(kin.values()), session)
            below = () if line is None else line.descendants
            wanted = [kin[each] for each in (session, *(each.id for each in below)) if each in kin]
    made = [
        costs.cost(of_overview(each), each.as_of_seq, costs.published(each), card)
        for each in wanted
    ]
    listed = list(islice(made, asked.limit))
    return _answer(Costs(listed, len(made) - len(listed), costs.total(made, card)))


def _answer(found: Struct) -> Answer:
    return Answer(safe(msgspec.json.encode(found)))


OPERATIONS = (
    Operation(
        "/v1/query/sessions",
        "query_sessions",
        "Sessions by id, folder, parent and time, the newest first",
        SessionsParameters,
        {JSON: Sessions},
        sessions,
    ),
    Operation(
        "/v1/sessions/{id}/query/lineage",
        "query_lineage",
        "Whom a session comes from, and what comes from it: forks and subagents",
        OneSession,
        {JSON: Lineage},
        lineage,
    ),
    Operation(
        "/v1/query/cost",
        "query_cost",
        "What sessions used and what it costs: all, or one and those that come from it",
        CostParameters,
        {JSON: Costs},
        cost,
    ),
)
