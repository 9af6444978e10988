"""Money: integers, rounded once, and nothing guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.events import Usage
from operators.readers import money
from operators.readers.money import Card, Rate, bill
from operators.readers.usage import Billed, Route

ROUTE = Route("p", "m")
FULL = Rate("p", "m", 280_000, 420_000, 28_000, 0)
USED = Billed(Usage(1_000_000, 500_000, 2_000_000, 7), Usage(1_000_000), 10, 20)


def card(*rates: Rate) -> Card:
    return Card("USD", "2026-02-01", rates)


def test_buckets_are_rated_apart_and_compactions_are_paid() -> None:
    found = bill([(ROUTE, USED)], card(FULL))
    assert (found.micro, found.unpriced) == (280_000 * 2 + 210_000 + 56_000, 0)
    assert found.lines[0].reasons == ()
    assert (found.currency, found.published) == ("USD", "2026-02-01")


def test_a_missing_price_leaves_its_tokens_unpriced() -> None:
    found = bill([(ROUTE, USED)], card(Rate("p", "m", 280_000, 420_000)))
    assert found.unpriced == 2_000_007
    assert found.micro == 280_000 * 2 + 210_000
    assert len(found.lines[0].reasons) == 2


def test_a_missing_price_of_an_empty_bucket_is_no_matter() -> None:
    used = Billed(Usage(1_000_000), Usage(), 10, 20)
    assert bill([(ROUTE, used)], card(Rate("p", "m", 5))).lines[0].reasons == ()


@pytest.mark.parametrize(
    ("route", "used", "rates", "reason"),
    [
        (Route("p", None), USED, [FULL], money.NO_ROUTE),
        (Route("p", "m2"), USED, [FULL], money.NO_RATE),
        (Route("P", "m"), USED, [FULL], money.NO_RATE),
        (ROUTE, USED, [Rate("p", "m", 1, 1, 1, 1, since=30)], money.NOT_YET),
        (ROUTE, USED, [Rate("p", "m", 1, 1, 1, 1, until=10)], money.NOT_YET),
        (ROUTE, USED, [Rate("p", "m", 1, 1, 1, 1, since=15)], money.CHANGES),
        (ROUTE, USED, [Rate("p", "m", 1, until=15), Rate("p", "m", 2, since=15)], money.CHANGES),
        (ROUTE, Billed(Usage(5)), [Rate("p", "m", 1, since=0)], money.UNDATED),
        (ROUTE, Billed(Usage(5, -1), Usage(), 1, 1), [FULL], money.NEGATIVE),
    ],
)
def test_what_has_no_rate_is_unpriced_and_says_why(
    route: Route, used: Billed, rates: list[Rate], reason: str
) -> None:
    (line,) = bill([(route, used)], card(*rates)).lines
    assert (line.micro, line.reasons) == (0, (reason,))
    assert line.unpriced > 0


def test_the_rate_of_the_time_counts() -> None:
    rates = [Rate("p", "m", 1_000_000, until=10), Rate("p", "m", 3_000_000, since=10)]
    for since, through, micro in ((1, 9, 15), (10, 99, 45)):
        used = Billed(Usage(15), Usage(), since, through)
        assert bill([(ROUTE, used)], card(*rates)).micro == micro


@pytest.mark.parametrize(("tokens", "micro"), [(1, 0), (3, 2), (5, 2), (7, 4)])
def test_half_a_unit_goes_to_even(tokens: int, micro: int) -> None:
    used = Billed(Usage(tokens), Usage(), 1, 1)
    assert bill([(ROUTE, used)], card(Rate("p", "m", 500_000))).micro == micro


counts = st.integers(0, 2**40)
routes = st.lists(
    st.tuples(
        st.builds(Route, st.sampled_from("pq"), st.sampled_from("mn")),
        st.builds(
            Billed,
            st.builds(Usage, counts, counts, counts, counts),
            st.just(Usage()),
            st.just(1),
            st.just(2),
        ),
    ),
    max_size=6,
)
prices = st.none() | st.integers(0, 10**9)
rates = st.builds(Rate, st.just("p"), st.sampled_from("mn"), prices, prices, prices, prices)


@given(routes, st.lists(rates, max_size=2, unique_by=lambda rate: rate.model))
def test_lines_add_up_and_no_token_is_lost(
    used: list[tuple[Route, Billed]], told: list[Rate]
) -> None:
    found = bill(used, card(*told))
    assert found.micro == sum(line.micro for line in found.lines)
    assert found.unpriced == sum(line.unpriced for line in found.lines)
    for (_, billed), line in zip(used, found.lines, strict=True):
        u = billed.usage
        every = u.uncached_input + u.output + u.cache_read + u.cache_write
        assert 0 <= line.unpriced <= every
        assert bool(line.unpriced) == bool(line.reasons)
        assert line.micro >= 0
