"""Tokens as providers counted them: the reference's figure, and what is billed (readers.md §3).

``billed`` is the overview's own usage (``Rooms.account``: the last sample of each turn, step and
attempt, of messages appended alone), divided by the route that was asked. The reference's figure
stands beside it for comparison: it loses a retried attempt and counts a copied message again.
"""

from __future__ import annotations

from typing import TypeAlias

from immutables import Map
from msgspec import Struct

from operators.events import AssistantAttempt, AssistantChunk, AssistantMessage, RetryStarted, Usage
from operators.rooms import Rooms
from operators.totals import NO_USAGE, exchange

MOST_ROUTES = 32  #: what a session names beyond them is billed to no route


class Route(Struct, frozen=True, array_like=True, gc=False):
    """Whom a request went to; None: the log does not say."""

    provider: str | None = None
    model: str | None = None


NO_ROUTE = Route()


Amounts: TypeAlias = tuple[int, int, int, int, int]  #: a usage as it is saved


def amounts(usage: Usage) -> Amounts:
    """Uncached input, output, cache read, cache write, reasoning."""
    return (
        usage.uncached_input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
        usage.reasoning,
    )


class Billed(Struct, frozen=True, array_like=True, gc=False):
    """Tokens of one route. ``since`` and ``through``: times of its first and last sample."""

    usage: Usage = NO_USAGE
    compaction: Usage = NO_USAGE
    since: int | None = None
    through: int | None = None


NOTHING = Billed()


class Saved(Struct, array_like=True, gc=False):
    total: Amounts
    sample: Amounts
    slot: tuple[int | None, int | None] | None
    embedded: bool


class TokenUsage:
    """The reference's figure: one slot for the newest (turn, step), whose samples replace one
    another; every other pair starts a new one, that of a message logged again, too."""

    __slots__ = ("embedded", "sample", "slot", "total")

    def __init__(self) -> None:
        self.total = NO_USAGE
        self.sample = NO_USAGE
        self.slot: tuple[int | None, int | None] | None = None
        self.embedded = False  # of a log with embedded streams: a retry closes its slot

    def fork(self) -> TokenUsage:
        twin = TokenUsage.__new__(TokenUsage)
        twin.total, twin.sample = self.total, self.sample
        twin.slot, twin.embedded = self.slot, self.embedded
        return twin

    def saved(self) -> Saved:
        return Saved(amounts(self.total), amounts(self.sample), self.slot, self.embedded)

    @classmethod
    def restored(cls, saved: Saved) -> TokenUsage:
        made = cls()
        made.total, made.sample = Usage(*saved.total), Usage(*saved.sample)
        made.slot, made.embedded = saved.slot, saved.embedded
        return made

    def take(self, turn: int | None, step: int | None, sample: Usage, embedded: bool) -> None:
        slot = (turn, step)
        old = self.sample if self.slot == slot else NO_USAGE
        self.total = exchange(self.total, old, sample)
        self.slot, self.sample, self.embedded = slot, sample, embedded

    def retry_started(self, body: RetryStarted) -> None:
        if self.embedded and self.slot == (body.turn, body.step):
            self.slot = None


def sample_of(body: AssistantMessage | AssistantAttempt) -> Usage | None:
    """The usage a message or an attempt brings: its own, else the last of its stream."""
    if isinstance(body, AssistantMessage) and body.usage is not None:
        return body.usage
    return None if body.stream is None else body.stream.usage


class SavedRoute(Struct, array_like=True, gc=False):
    route: Route
    usage: Amounts
    compaction: Amounts | None
    since: int | None
    through: int | None


class SavedBilling(Struct, array_like=True, gc=False):
    """``slot``: turn, step and the place of its route among ``routes``."""

    routes: list[SavedRoute]
    slot: tuple[int | None, int | None, int] | None


class Billing:
    """What is billed, by route. Two totals of the session are watched, and what is added to them
    goes to the route in force; the sum over the routes is the total, always."""

    __slots__ = ("compaction", "routes", "slot", "usage")

    def __init__(self) -> None:
        self.routes: Map[Route, Billed] = Map()
        self.slot: tuple[int | None, int | None, Route] | None = None  # of the newest sample
        self.usage = NO_USAGE  # the totals as they were seen last
        self.compaction = NO_USAGE

    def fork(self) -> Billing:
        twin = Billing.__new__(Billing)
        twin.routes, twin.slot = self.routes, self.slot
        twin.usage, twin.compaction = self.usage, self.compaction
        return twin

    def saved(self) -> SavedBilling:
        table = self.table()
        rows = [
            SavedRoute(
                route,
                amounts(row.usage),
                None if row.compaction == NO_USAGE else amounts(row.compaction),
                row.since,
                row.through,
            )
            for route, row in table
        ]
        if self.slot is None:
            return SavedBilling(rows, None)
        turn, step, route = self.slot
        at = next(at for at, row in enumerate(table) if row[0] == route)
        return SavedBilling(rows, (turn, step, at))

    @classmethod
    def restored(cls, saved: SavedBilling, rooms: Rooms) -> Billing:
        made = cls()
        for row in saved.routes:
            spent = NO_USAGE if row.compaction is None else Usage(*row.compaction)
            billed = Billed(Usage(*row.usage), spent, row.since, row.through)
            made.routes = made.routes.set(row.route, billed)
        if saved.slot is not None:
            turn, step, at = saved.slot
            made.slot = (turn, step, saved.routes[at].route)
        made.usage, made.compaction = rooms.totals.usage, rooms.totals.compaction_usage
        return made

    def table(self) -> list[tuple[Route, Billed]]:
        """The routes by provider and model."""
        return sorted(self.routes.items(), key=_by_name)

    def take(
        self,
        rooms: Rooms,
        time: int | None,
        body: AssistantMessage | AssistantAttempt | AssistantChunk,
        sample: Usage,
    ) -> None:
        """After the session accounted for ``sample``; it may have had reason not to."""
        total = rooms.totals.usage
        if total is self.usage:
            return
        route, turn, step, slot = self._route(rooms), body.turn, body.step, self.slot
        seen, self.usage = self.usage, total
        if slot is not None and slot[2] != route and slot[0] == turn and slot[1] == step:
            # what this sample stands in the place of was billed to another route
            old = exchange(sample, exchange(total, seen, NO_USAGE), NO_USAGE)
            self._add(slot[2], old, NO_USAGE, time)
            seen, total = NO_USAGE, sample
        self._add(route, seen, total, time)
        self.slot = (turn, step, route)

    def take_compaction(self, rooms: Rooms, time: int | None, asked: Route | None) -> None:
        """After a summary: what was asked for it is billed, too, and kept apart; ``asked`` is the
        route it names itself."""
        total = rooms.totals.compaction_usage
        if total is self.compaction:
            return
        seen, self.compaction = self.compaction, total
        self._add(self._route(rooms, asked), seen, total, time, compaction=True)

    def _route(self, rooms: Rooms, asked: Route | None = None) -> Route:
        route = asked or Route(rooms.provider, rooms.model)
        known = route in self.routes or len(self.routes) < MOST_ROUTES
        return route if known else NO_ROUTE

    def _add(
        self, route: Route, old: Usage, new: Usage, time: int | None, *, compaction: bool = False
    ) -> None:
        """To a route's figures, ``new`` in place of ``old``."""
        held = self.routes.get(route) or NOTHING
        usage, spent, since, through = held.usage, held.compaction, held.since, held.through
        if compaction:
            spent = exchange(spent, old, new)
        else:
            usage = exchange(usage, old, new)
        if time is not None:
            since = time if since is None or time < since else since
            through = time if through is None or time > through else through
        self.routes = self.routes.set(route, Billed(usage, spent, since, through))


def _by_name(row: tuple[Route, Billed]) -> tuple[str, str]:
    return row[0].provider or "", row[0].model or ""
