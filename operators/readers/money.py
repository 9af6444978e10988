"""What billed tokens cost, in integer micro-units of one currency, from a card of dated rates.

Never a float and never a guess: what the card has no price for is *unpriced*, with its tokens and
the reason. Each bucket is rated by itself, the sum of a route is rounded once, half to even, so the
lines of a report add up to its total.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from operators.events import Usage
from operators.totals import exchange

from .usage import Billed, Route

PER = 1_000_000  #: rates are for so many tokens

NO_ROUTE = "the log does not say whom it asked"
NO_RATE = "the card has no rate for this provider and model"
NOT_YET = "the card has no rate for that time"
UNDATED = "the samples have no time and the card's rate changes"
CHANGES = "the rate changes between the first and the last sample"
NEGATIVE = "a count is negative"


class Rate(Struct, frozen=True):
    """Micro-units for a million tokens; a price that is None is not known. Good from ``since`` to
    before ``until``, milliseconds since 1970; None: open."""

    provider: str
    model: str
    uncached_input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    since: int | None = None
    until: int | None = None

    def holds(self, since: int, through: int) -> bool:
        """Whether it is in force from ``since`` to ``through``."""
        begun = self.since is None or self.since <= since
        return begun and (self.until is None or through < self.until)

    def overlaps(self, other: Rate) -> bool:
        ends_before = self.until is not None and other.since is not None
        begins_after = self.since is not None and other.until is not None
        return not (
            (ends_before and self.until <= other.since)  # type: ignore[operator]
            or (begins_after and other.until <= self.since)  # type: ignore[operator]
        )


class Card(Struct, frozen=True):
    """``published``: the card's own date, as it says; rates of one provider and model never
    overlap."""

    currency: str
    published: str
    rates: tuple[Rate, ...] = ()


class Cost(Struct, frozen=True):
    """One route: ``micro`` units for what is priced; ``unpriced`` tokens and why they are."""

    provider: str | None
    model: str | None
    usage: Usage
    micro: int
    unpriced: int = 0
    reasons: tuple[str, ...] = ()


class Bill(Struct, frozen=True):
    """``micro`` and ``unpriced`` are the sums of the lines."""

    currency: str
    published: str
    micro: int
    unpriced: int
    lines: tuple[Cost, ...]


def bill(routes: Iterable[tuple[Route, Billed]], card: Card) -> Bill:
    """What the routes cost, their compactions included."""
    lines = tuple(_cost(route, billed, card) for route, billed in routes)
    micro, unpriced = sum(line.micro for line in lines), sum(line.unpriced for line in lines)
    return Bill(card.currency, card.published, micro, unpriced, lines)


def _cost(route: Route, billed: Billed, card: Card) -> Cost:
    usage = exchange(billed.usage, Usage(), billed.compaction)
    counts = (usage.uncached_input, usage.output, usage.cache_read, usage.cache_write)
    names = ("input", "output", "cache read", "cache write")
    rate = _rate(route, billed, card)
    if isinstance(rate, str) or min(counts) < 0:
        reason = rate if isinstance(rate, str) else NEGATIVE
        tokens = sum(max(0, count) for count in counts)
        reasons = (reason,) if any(counts) else ()
        return Cost(route.provider, route.model, usage, 0, tokens, reasons)
    prices = (rate.uncached_input, rate.output, rate.cache_read, rate.cache_write)
    sum_of, unpriced, reasons = 0, 0, ()
    for name, count, price in zip(names, counts, prices, strict=True):
        if price is not None:
            sum_of += count * price
        elif count:
            unpriced += count
            reasons = (*reasons, f"the card has no price for {name}")
    return Cost(route.provider, route.model, usage, _rounded(sum_of), unpriced, reasons)


def _rate(route: Route, billed: Billed, card: Card) -> Rate | str:
    """The one rate in force for all of it, or why there is none."""
    if route.provider is None or route.model is None:
        return NO_ROUTE
    names = (route.provider, route.model)
    known = [rate for rate in card.rates if (rate.provider, rate.model) == names]
    if not known:
        return NO_RATE
    since, through = billed.since, billed.through
    if since is None or through is None:
        only = known[0]
        always = len(known) == 1 and only.since is None and only.until is None
        return only if always else UNDATED
    whole = [rate for rate in known if rate.holds(since, through)]
    if whole:
        return whole[0]
    partly = any(rate.holds(since, since) or rate.holds(through, through) for rate in known)
    return CHANGES if partly else NOT_YET


def _rounded(micro_times_per: int) -> int:
    """Divided by ``PER``, half to even."""
    whole, rest = divmod(micro_times_per, PER)
    return whole + (2 * rest > PER or (2 * rest == PER and whole % 2 == 1))
