"""Pages of a session's transcript."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from operators.history import MAX_BYTES, MAX_MESSAGES

from . import pages
from .operations import JSON, Answer, Operation
from .pages import Budget, RowsPage
from .parameters import Bytes, Id, Messages, Seq
from .problems import bad_request
from .service import Asking
from .sessions import Held, as_of, with_stall
from .store import offsets

_WAYS = ("before", "after", "around")
STREAMED = ("transcript", "partials", "overview")  #: roles of what a transcript's stream tells


class TranscriptParameters(Struct, frozen=True):
    id: Id
    before: Annotated[Seq, Meta(description="rows anchored below this seq")] | None = None
    after: Annotated[Seq, Meta(description="rows anchored above this seq")] | None = None
    around: Annotated[Seq, Meta(description="rows on both sides of this seq")] | None = None
    max_messages: Messages = MAX_MESSAGES
    max_bytes: Bytes = MAX_BYTES


class TranscriptPage(Struct, frozen=True):
    """The rows anchored at ``first`` ≤ seq < ``before`` in order (null: to the end), large bodies
    by reference. ``older``, ``newer``: where the pages beside it are. The tail page, which reaches
    the end, has the overview of the same moment, and the cursor that a stream goes on from."""

    session: str
    epoch: int
    as_of_seq: int | None
    first: int
    before: int | None
    has_more: bool
    has_newer: bool
    older: str | None
    newer: str | None
    rows: tuple[Raw, ...]
    overview: Raw | None
    cursor: str | None = None


def transcript(asking: Asking, asked: TranscriptParameters) -> Answer:
    given = [name for name in _WAYS if getattr(asked, name) is not None]
    if len(given) > 1:
        raise bad_request(f"{' and '.join(given)} at once: say one of them")
    budget = Budget(asked.max_messages, asked.max_bytes)
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        of = (connection, held.session, held.epoch)
        if asked.after is not None:
            page = pages.rows_after(*of, asked.after, budget)
        elif asked.around is not None:
            page = pages.rows_around(*of, asked.around, budget)
        else:
            page = pages.rows_before(*of, asked.before, budget)
        tail = page.before is None
        cursor = _cursor(asking, connection, held) if tail else None
    found = _page(asking, asked, held, page)
    return Answer(msgspec.json.encode(replace(found, cursor=cursor)), history=True)


def _page(
    asking: Asking, asked: TranscriptParameters, held: Held, page: RowsPage
) -> TranscriptPage:
    budget = {"max_messages": asked.max_messages, "max_bytes": asked.max_bytes}
    base = f"/v1/sessions/{quote(held.session, safe='')}/transcript?"
    older = base + urlencode({"before": page.first, **budget}) if page.has_more else None
    newer = None
    if page.has_newer and page.before is not None:
        newer = base + urlencode({"after": page.before - 1, **budget})
    overview = None
    if page.before is None and held.overview is not None:
        overview = with_stall(held.overview, asking.service.now_ms())
    return TranscriptPage(
        held.session,
        held.epoch,
        as_of(held),
        page.first,
        page.before,
        page.has_more,
        page.has_newer,
        older,
        newer,
        page.rows,
        overview,
    )


def _cursor(asking: Asking, connection: Connection, held: Held) -> str | None:
    make = asking.service.cursor
    if make is None:
        return None
    at = {
        place: offset
        for place, offset in offsets(connection).items()
        if place[0] in STREAMED and place[1] == held.partition
    }
    return make(asking.service.status.log, at, {held.session: held.epoch})


OPERATIONS = (
    Operation(
        "/v1/sessions/{id}/transcript",
        "transcript",
        "A page of the transcript: the newest rows, or those before, after or around a seq",
        TranscriptParameters,
        {JSON: TranscriptPage},
        transcript,
        history=True,
    ),
)
