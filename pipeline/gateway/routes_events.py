"""Raw events of a session, as logged: pages backwards, cut as the reference cuts its history."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta, Raw, Struct

from operators.history import MAX_MESSAGES

from . import pages
from .jsonout import safe
from .operations import JSON, Answer, Operation
from .pages import MOST_EVENTS_BYTES, Budget
from .parameters import Id, Messages, Seq
from .service import Asking


class EventsParameters(Struct, frozen=True):
    id: Id
    before: Annotated[Seq, Meta(description="events below this seq")] | None = None
    max_messages: Messages = MAX_MESSAGES
    max_bytes: Annotated[
        int, Meta(ge=1, le=64 * 1024 * 1024, description="of lines; a page holds one at least")
    ] = MOST_EVENTS_BYTES


class EventsPage(Struct, frozen=True):
    """One contiguous range of the log, as logged; packed rows whole. A line that is no JSON is a
    string. Fields as `foldstream pages --json` has them."""

    session: str
    epoch: int
    before: int | None
    first: int | None
    last: int | None
    count: int
    append_messages: int
    has_more: bool
    older: str | None
    events: list[Raw]


def events(asking: Asking, asked: EventsParameters) -> Answer:
    asking.needs_raw()
    budget = Budget(asked.max_messages, asked.max_bytes)
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        page = pages.events_before(connection, held.session, held.epoch, asked.before, budget)
    older = None
    if page.has_more and page.first is not None:
        more = {"before": page.first, "max_messages": asked.max_messages}
        more["max_bytes"] = asked.max_bytes
        older = f"/v1/sessions/{quote(held.session, safe='')}/events?" + urlencode(more)
    found = EventsPage(
        held.session,
        held.epoch,
        page.before,
        page.first,
        page.last,
        page.count,
        page.append_messages,
        page.has_more,
        older,
        [as_json(line) for line in page.events],
    )
    return Answer(msgspec.json.encode(found), history=True)


def as_json(line: bytes) -> Raw:
    """A line as logged; bytes that are no UTF-8 are replaced."""
    text = line.strip().decode("utf-8", "replace").encode()
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        try:
            safe_text = safe(text)
            msgspec.json.decode(safe_text)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return Raw(msgspec.json.encode(text.decode()))
        return Raw(safe_text)
    return Raw(safe(text))


OPERATIONS = (
    Operation(
        "/v1/sessions/{id}/events",
        "events",
        "A page of the log's raw events, backwards",
        EventsParameters,
        {JSON: EventsPage},
        events,
        history=True,
    ),
)
