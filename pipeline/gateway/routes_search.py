"""Full-text search over the rows of all sessions that may be seen."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from . import search as finding
from .operations import JSON, Answer, Operation
from .parameters import After, Limit
from .problems import bad_request
from .service import Asking
from .sessions import TokenError


class SearchParameters(Struct, frozen=True):
    q: Annotated[
        str,
        Meta(
            max_length=2_000,
            description='words, all of which a row holds, whatever their case; "…" is one word',
        ),
    ]
    session: Annotated[str, Meta(description="of this session alone")] | None = None
    kind: Annotated[tuple[str, ...], Meta(description="rows of this kind (repeatable)")] = ()
    after: After | None = None
    limit: Limit = 50


class Hit(finding.Hit, frozen=True):
    """``page``: where the row is shown with those around it."""

    page: str


class Hits(Struct, frozen=True):
    """Newest first; ``next``: `after` of the next page."""

    hits: list[Hit]
    next: str | None


def search(asking: Asking, asked: SearchParameters) -> Answer:
    if not finding.words(asked.q):
        raise bad_request("q: there is no word in it")
    of = finding.Asked(asked.q, asked.session, asked.kind, asked.after, asked.limit)
    with asking.read() as connection:
        try:
            found = finding.search(connection, of, asking.visible)
        except TokenError as error:
            raise bad_request(str(error)) from None
    hits = [Hit(**msgspec.structs.asdict(hit), page=_page(hit)) for hit in found.hits]
    return Answer(msgspec.json.encode(Hits(hits, found.next)))


def _page(hit: finding.Hit) -> str:
    return f"/v1/sessions/{quote(hit.session, safe='')}/transcript?around={hit.seq}"


OPERATIONS = (
    Operation(
        "/v1/search",
        "search",
        "Rows that hold some words, each with the seq it lands on",
        SearchParameters,
        {JSON: Hits},
        search,
    ),
)
