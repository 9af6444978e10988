"""Tokens as providers counted them: the reference's figure, and what is billed (readers.md §3).

``billed`` is the overview's own usage (``Rooms.account``: the last sample of each turn, step and
attempt, of messages appended alone), divided by the route that was asked. The reference's figure
stands beside it for comparison: it loses a retried attempt and counts a copied message again.
"""

from __future__ import annotations

from typing import TypeAlias

from immutables import Map
from msgspec import Struct

from operators.events import AssistantAttempt, AssistantMessage, RetryStarted, Usage
from operators.totals import NO_USAGE, exchange

MOST_ROUTES = 32  #: what a session names beyond them is billed to no route
LONGEST_NAME = 256  #: characters of a provider or a model; neither are longer ones routes


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
    settled: Amounts
    sample: Amounts
    slot: tuple[int | None, int | None] | None
    embedded: bool


class TokenUsage:
    """The reference's figure: one slot for the newest (turn, step), whose samples replace one
    another; every other pair starts a new one, that of a message logged again, too."""

    __slots__ = ("embedded", "sample", "settled", "slot")

    def __init__(self) -> None:
        self.settled = NO_USAGE  # all slots but the newest
        self.sample = NO_USAGE
        self.slot: tuple[int | None, int | None] | None = None
        self.embedded = False  # of a log with embedded streams: a retry closes its slot

    def fork(self) -> TokenUsage:
        twin = TokenUsage.__new__(TokenUsage)
        twin.settled, twin.sample = self.settled, self.sample
        twin.slot, twin.embedded = self.slot, self.embedded
        return twin

    def saved(self) -> Saved:
        return Saved(amounts(self.settled), amounts(self.sample), self.slot, self.embedded)

    @classmethod
    def restored(cls, saved: Saved) -> TokenUsage:
        made = cls()
        made.settled, made.sample = Usage(*saved.settled), Usage(*saved.sample)
        made.slot, made.embedded = saved.slot, saved.embedded
        return made

    @property
    def total(self) -> Usage:
        return exchange(self.settled, NO_USAGE, self.sample)

    def take(self, turn: int | None, step: int | None, sample: Usage, embedded: bool) -> None:
        slot = (turn, step)
        if slot != self.slot:
            self.settled, self.slot = self.total, slot
        self.sample, self.embedded = sample, embedded

    def retry_started(self, body: RetryStarted) -> None:
        if self.embedded and self.slot == (body.turn, body.step):
            self.slot = None


def sample_of(body: AssistantMessage | AssistantAttempt) -> Usage | None:
    """The usage a message or an attempt brings: its own, else the last of its stream."""
    if isinstance(body, AssistantMessage) and body.usage is not None:
        return body.usage
    return None if body.stream is None else body.stream.usage


#: Turn and step of a sample, the time of its event, and what it says.
Sample: TypeAlias = tuple[int | None, int | None, int | None, Usage]


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
    """What is billed, by route: the session's two totals are watched, and what was added to them
    goes to the route in force. The sum over the routes is the total, always."""

    __slots__ = ("routes", "seen", "seen_compaction", "since", "slot", "through", "usage")

    def __init__(self) -> None:
        self.routes: Map[Route, Billed] = Map()
        self.slot: tuple[int | None, int | None, Route] | None = None  # of the newest sample
        self.usage = NO_USAGE  # the session's total as it is
        self.seen = NO_USAGE  # and as it was when it was last divided
        self.seen_compaction = NO_USAGE
        self.since: int | None = None  # times of the samples after that
        self.through: int | None = None

    def fork(self) -> Billing:
        twin = Billing.__new__(Billing)
        twin.routes, twin.slot = self.routes, self.slot
        twin.usage, twin.seen = self.usage, self.seen
        twin.seen_compaction = self.seen_compaction
        twin.since, twin.through = self.since, self.through
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
    def restored(cls, saved: SavedBilling, usage: Usage, compaction: Usage) -> Billing:
        """``usage`` and ``compaction``: the session's totals, restored before."""
        made = cls()
        made.usage = made.seen = usage
        made.seen_compaction = compaction
        for row in saved.routes:
            spent = NO_USAGE if row.compaction is None else Usage(*row.compaction)
            billed = Billed(Usage(*row.usage), spent, row.since, row.through)
            made.routes = made.routes.set(row.route, billed)
        if saved.slot is not None:
            turn, step, at = saved.slot
            made.slot = (turn, step, saved.routes[at].route)
        return made

    @classmethod
    def unrouted(cls, usage: Usage, compaction: Usage) -> Billing:
        """Totals of which nobody knows whom they were asked of."""
        made = cls()
        made.usage = made.seen = usage
        made.seen_compaction = compaction
        if (usage, compaction) != (NO_USAGE, NO_USAGE):
            made.routes = made.routes.set(NO_ROUTE, Billed(usage, compaction))
        return made

    def table(self) -> list[tuple[Route, Billed]]:
        """The routes by provider and model."""
        return sorted(self._divided().items(), key=_by_name)

    def take(self, told: Sample, total: Usage, provider: str | None, model: str | None) -> None:
        """After the session accounted for the sample, which made its usage ``total``; it may have
        had reason not to. Nothing is divided while the route stays the same."""
        if total is self.usage:
            return
        (turn, step, time, sample), slot = told, self.slot
        route = None if slot is None else slot[2]
        if route is None or route.provider != provider or route.model != model:
            self._divide()
            route = self._route(provider, model)
            again = slot is not None and slot[0] == turn and slot[1] == step
            if slot is not None and again and slot[2] != route:
                self._move(slot[2], sample, total)
        if time is not None:
            if self.since is None or time < self.since:
                self.since = time
            if self.through is None or time > self.through:
                self.through = time
        self.usage, self.slot = total, (turn, step, route)

    def take_compaction(self, total: Usage, time: int | None, asked: Route) -> None:
        """After a summary, with the session's total of what compactions cost: what was asked for
        it is billed, too, and kept apart."""
        seen = self.seen_compaction
        if total is seen:
            return
        self._divide()
        route = self._route(asked.provider, asked.model)
        held = self.routes.get(route) or NOTHING
        spent = exchange(held.compaction, seen, total)
        row = Billed(held.usage, spent, *_span(held, time, time))
        self.routes, self.seen_compaction = self.routes.set(route, row), total

    def _move(self, before: Route, sample: Usage, total: Usage) -> None:
        """What a sample stands in the place of was billed to another route: it leaves that."""
        old = exchange(sample, exchange(total, self.usage, NO_USAGE), NO_USAGE)
        held = self.routes.get(before) or NOTHING
        usage = exchange(held.usage, old, NO_USAGE)
        row = Billed(usage, held.compaction, held.since, held.through)
        self.routes = self.routes.set(before, row)
        self.seen = exchange(self.seen, old, NO_USAGE)

    def _divide(self) -> None:
        """Put to the newest route what was added since."""
        self.routes, self.seen = self._divided(), self.usage
        self.since = self.through = None

    def _divided(self) -> Map[Route, Billed]:
        """The routes with what was added since to the newest."""
        if self.slot is None:
            return self.routes
        route = self.slot[2]
        held = self.routes.get(route) or NOTHING
        usage = exchange(held.usage, self.seen, self.usage)
        row = Billed(usage, held.compaction, *_span(held, self.since, self.through))
        return self.routes.set(route, row)

    def _route(self, provider: str | None, model: str | None) -> Route:
        route = Route(provider, model)
        if route in self.routes:
            return route
        too_long = max(len(provider or ""), len(model or "")) > LONGEST_NAME
        return NO_ROUTE if too_long or len(self.routes) >= MOST_ROUTES else route


def _span(held: Billed, since: int | None, through: int | None) -> tuple[int | None, int | None]:
    """From the first to the last of what is held and what is added."""
    firsts = [time for time in (held.since, since) if time is not None]
    lasts = [time for time in (held.through, through) if time is not None]
    return min(firsts, default=None), max(lasts, default=None)


def _by_name(row: tuple[Route, Billed]) -> tuple[str, str]:
    return row[0].provider or "", row[0].model or ""
