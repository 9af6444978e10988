"""What sessions used and what it costs: each its own part, so that a family's sum is that of its
members and nothing inherited is paid twice (readers.md §3, projection.md §6).

Answers are structs whose JSON stays as it is: fields are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from operators.changes import BilledData, SessionOverview, UsageData
from operators.events import Usage
from operators.readers.lineage import SessionRecord
from operators.readers.money import Card, Cost, bill
from operators.readers.usage import Billed, Route
from operators.readers.values import own_part
from operators.session import Session
from operators.totals import usage_data

NO_CARD = "no rate card was given"
_BUCKETS: tuple[str, ...] = UsageData.__struct_fields__


class RouteCost(Struct, frozen=True):
    """What went to one provider and model (None: the log does not say), compactions included.
    ``micro``: millionths of the currency, for what is priced; ``unpriced``: tokens that are not."""

    provider: str | None
    model: str | None
    usage: UsageData
    micro: int
    unpriced: int
    reasons: tuple[str, ...]


class SessionCost(Struct, frozen=True):
    """One session's own part through ``as_of_seq``; without ``session`` the sum of so many
    ``sessions``. ``link``: what ties it to its parent. ``tokens``: all that were used;
    reasoning is inside the output, a negative count is none. ``published``: the day of the rate
    card."""

    session: str | None
    parent: str | None
    link: str | None
    as_of_seq: int | None
    sessions: int
    tokens: int
    currency: str | None
    published: str | None
    micro: int
    unpriced: int
    routes: tuple[RouteCost, ...]


Routes: TypeAlias = Iterable[tuple[Route, Billed]]


def folded(session: Session) -> Routes:
    """What a folded session is billed for."""
    return own_part(session).billing.table()


def published(overview: SessionOverview) -> Routes:
    """The same, as its overview says it. One that a worker wrote before routes were published has
    its usage alone, which went to nobody knows whom."""
    billed = overview.billed or (
        BilledData(None, None, overview.usage, overview.compaction_usage, None, None),
    )
    return [
        (
            Route(each.provider, each.model),
            Billed(_usage(each.usage), _usage(each.compaction_usage), each.since, each.through),
        )
        for each in billed
    ]


def _usage(data: UsageData) -> Usage:
    return Usage(*(getattr(data, name) for name in _BUCKETS))


def cost(
    record: SessionRecord, as_of_seq: int | None, routes: Routes, card: Card | None
) -> SessionCost:
    """A session's own part. Without a card everything is unpriced, and says so."""
    made = bill(routes, card or Card("", ""))
    lines = tuple(_route(line, card) for line in made.lines if any(_counts(line)))
    return SessionCost(
        record.id,
        record.parent,
        record.link,
        as_of_seq,
        1,
        sum(max(0, count) for line in made.lines for count in _counts(line)),
        None if card is None else card.currency,
        None if card is None else card.published,
        made.micro,
        made.unpriced,
        lines,
    )


def _counts(line: Cost) -> tuple[int, int, int, int]:
    usage = line.usage
    return usage.uncached_input, usage.output, usage.cache_read, usage.cache_write


def _route(line: Cost, card: Card | None) -> RouteCost:
    reasons = (NO_CARD,) if card is None and line.reasons else line.reasons
    usage = usage_data(line.usage)
    return RouteCost(line.provider, line.model, usage, line.micro, line.unpriced, reasons)


def total(costs: Iterable[SessionCost], card: Card | None) -> SessionCost:
    """The sum of all, route by route: lines that were rounded once are added as they are."""
    found: dict[tuple[str | None, str | None], RouteCost] = {}
    sessions = tokens = micro = unpriced = 0
    for each in costs:
        sessions, tokens = sessions + each.sessions, tokens + each.tokens
        micro, unpriced = micro + each.micro, unpriced + each.unpriced
        for route in each.routes:
            name = (route.provider, route.model)
            found[name] = _sum(found[name], route) if name in found else route
    currency, day = (None, None) if card is None else (card.currency, card.published)
    routes = tuple(sorted(found.values(), key=lambda r: (r.provider or "", r.model or "")))
    none = None, None, None, None
    return SessionCost(*none, sessions, tokens, currency, day, micro, unpriced, routes)


def _sum(one: RouteCost, other: RouteCost) -> RouteCost:
    usage = UsageData(*(getattr(one.usage, name) + getattr(other.usage, name) for name in _BUCKETS))
    reasons = tuple(dict.fromkeys((*one.reasons, *other.reasons)))
    micro, unpriced = one.micro + other.micro, one.unpriced + other.unpriced
    return RouteCost(one.provider, one.model, usage, micro, unpriced, reasons)


def as_json(cost: SessionCost) -> bytes:
    return msgspec.json.encode(cost)
