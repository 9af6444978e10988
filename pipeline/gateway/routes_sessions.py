"""The list of sessions, one session, how the service stands."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from . import sessions
from .operations import JSON, Answer, Operation
from .parameters import After, Id, Limit
from .problems import away, bad_request
from .service import Asking
from .sessions import TokenError
from .status import Status

State: TypeAlias = Literal["running", "idle", "compacting", "failed", "interrupted", "parked"]
Sort: TypeAlias = Literal["activity", "created", "title", "tokens", "errors", "compactions"]


class ListParameters(Struct, frozen=True):
    state: Annotated[tuple[State, ...], Meta(description="any of these (repeatable)")] = ()
    q: Annotated[
        str,
        Meta(max_length=1_000, description="words of title, id, folder, model or origin; all of"),
    ] = ""
    parent: Annotated[str, Meta(description="children of this session")] | None = None
    sort: Annotated[Sort, Meta(description="what it is sorted by")] = "activity"
    order: Literal["desc", "asc"] = "desc"
    after: After | None = None
    limit: Limit = 50


class SessionList(Struct, frozen=True):
    """``sessions``: overviews, each with ``stalled``; ``counts``: of all that may be seen, by
    state; ``next``: `after` of the next page."""

    sessions: list[Raw]
    next: str | None
    counts: dict[str, int]
    status: Status


def list_sessions(asking: Asking, asked: ListParameters) -> Answer:
    of = sessions.Asked(
        asked.state,
        asked.q,
        asked.parent,
        asked.sort,
        asked.order == "asc",
        asked.after,
        asked.limit,
    )
    now, visible = asking.service.now_ms(), asking.visible
    with asking.read() as connection:
        try:
            page = sessions.listed(connection, of, visible, now)
        except TokenError as error:
            raise bad_request(str(error)) from None
        counts = sessions.counted(connection, visible)
    found = SessionList(page.sessions, page.next, counts, asking.service.status)
    return Answer(msgspec.json.encode(found))


class OneSession(Struct, frozen=True):
    id: Id


def one_session(asking: Asking, asked: OneSession) -> Answer:
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
    if held.overview is None:
        raise away(f"the overview of session {asked.id!r} has not come yet")
    return Answer(bytes(sessions.with_stall(held.overview, asking.service.now_ms())))


class NoParameters(Struct, frozen=True):
    pass


def overview(asking: Asking, _: NoParameters) -> Answer:
    with asking.read() as connection:
        counts = sessions.counted(connection, asking.visible)
    figures = Totals(sum(counts.values()), counts, asking.service.status)
    return Answer(msgspec.json.encode(figures))


class Totals(Struct, frozen=True):
    """Of all sessions that may be seen."""

    sessions: int
    states: dict[str, int]
    status: Status


def status(asking: Asking, _: NoParameters) -> Answer:
    return Answer(msgspec.json.encode(asking.service.status))


Overview: TypeAlias = dict[str, Raw]
"""A `SessionOverview` as published, and ``stalled``."""

OPERATIONS = (
    Operation(
        "/v1/sessions",
        "sessions",
        "The sessions, keyset paged",
        ListParameters,
        {JSON: SessionList},
        list_sessions,
    ),
    Operation(
        "/v1/sessions/{id}",
        "session",
        "A session's overview and quality facts",
        OneSession,
        {JSON: Overview},
        one_session,
    ),
    Operation(
        "/v1/overview",
        "overview",
        "How many sessions there are, by state",
        NoParameters,
        {JSON: Totals},
        overview,
    ),
    Operation(
        "/v1/status",
        "status",
        "Whether what is served is all there is",
        NoParameters,
        {JSON: Status},
        status,
    ),
)
