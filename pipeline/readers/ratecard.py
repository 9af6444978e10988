"""The rate card: a TOML or JSON file of dated prices, given by the user.

    currency = "USD"
    published = 2026-02-01            # the day the card was made
    per = 1_000_000                   # tokens a price is for; the default, and the only value

    [[rate]]
    provider = "deepseek"
    model = "deepseek-chat"
    since = 2025-09-05                # the first day (UTC); absent: always
    until = 2026-02-01                # the first day it holds no more; absent: still
    input = "0.28"                    # a price is a decimal string, or an integer
    output = "0.42"
    cache_read = "0.028"
    cache_write = "0"                 # absent: not known, such tokens are unpriced

A price is kept in millionths of the currency and may have six digits behind its point. Nothing is
guessed: an unknown key, a float, a date that is none or two rates for one time are refused.
"""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NoReturn

from operators.readers.money import Card, Rate
from operators.text import well_formed
from pipeline.errors import Fatal

_CARD: Final = {"currency", "published", "per", "rate"}
_PRICES: Final = {
    "input": "uncached_input",
    "output": "output",
    "cache_read": "cache_read",
    "cache_write": "cache_write",
}
_RATE: Final = {"provider", "model", "since", "until", *_PRICES}
_MICRO: Final = 1_000_000
_MOST: Final = 1_000_000_000  #: a price above it is a slip of the pen
_DIGITS: Final = 40  #: behind the point, before anything is reckoned with them


def read_card(path: Path) -> Card:
    """The card in that file; :class:`~pipeline.errors.Fatal` says what is wrong and where."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _refuse(path, "", f"cannot be read: {error}", "name a readable TOML or JSON file")
    try:
        if path.suffix == ".json":
            told = json.loads(text, parse_float=Decimal)
        else:
            told = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        _refuse(path, "", f"is no {kind}: {error}", "a name that ends in .json is read as JSON")
    return parse_card(told, path)


def parse_card(told: Any, path: Path) -> Card:
    """The card that a parsed file holds; ``path`` is for what is said of a wrong one."""
    if not isinstance(told, dict):
        _refuse(path, "", "is no table", "see the example in the documentation of rate cards")
    _known(path, "", told, _CARD)
    if told.get("per", _MICRO) != _MICRO:
        _refuse(path, "per", "is not 1000000", "give prices for a million tokens")
    rows = told.get("rate", [])
    if not isinstance(rows, list):
        _refuse(path, "rate", "is no list", "write each rate as [[rate]]")
    rates = tuple(_rate(path, f"rate {at}", row) for at, row in enumerate(rows, 1))
    for (one, first), (two, second) in combinations(enumerate(rates, 1), 2):
        names = (first.provider, first.model)
        if names == (second.provider, second.model) and first.overlaps(second):
            what = f"is for the same time, provider and model as rate {two}"
            _refuse(path, f"rate {one}", what, "end one with until where the other begins")
    published = _day(path, "published", told.get("published"))
    if published is None:
        _refuse(path, "published", "is missing", 'say the day of the card, as "2026-02-01"')
    return Card(_text(path, "currency", told.get("currency")), published.isoformat(), rates)


def _rate(path: Path, where: str, row: Any) -> Rate:
    if not isinstance(row, dict):
        _refuse(path, where, "is no table", "write each rate as [[rate]]")
    _known(path, where, row, _RATE)
    prices = {
        field: _price(path, f"{where}: {key}", row[key])
        for key, field in _PRICES.items()
        if key in row
    }
    since = _start(_day(path, f"{where}: since", row.get("since")))
    until = _start(_day(path, f"{where}: until", row.get("until")))
    if since is not None and until is not None and until <= since:
        _refuse(path, where, "ends before it begins", "until is the first day it holds no more")
    provider = _text(path, f"{where}: provider", row.get("provider"))
    model = _text(path, f"{where}: model", row.get("model"))
    return Rate(provider, model, **prices, since=since, until=until)


def _known(path: Path, where: str, row: dict[str, Any], keys: set[str]) -> None:
    for key in row:
        if key not in keys:
            place = f"{where}: {key}" if where else key
            _refuse(path, place, "is not known", f"known are {', '.join(sorted(keys))}")


def _price(path: Path, where: str, value: Any) -> int:
    """Millionths, of a price in whole units."""
    try:
        price = Decimal(value) if isinstance(value, str | int | Decimal) else None
    except InvalidOperation:
        price = None
    if price is None or isinstance(value, bool) or not price.is_finite() or price < 0:
        _refuse(path, where, f"is no price: {value!r}", 'write a decimal of 0 or more, as "0.28"')
    if price > _MOST:
        _refuse(path, where, f"is above {_MOST}", "prices are for a million tokens")
    exponent = price.as_tuple().exponent
    micro = Fraction(price) * _MICRO if isinstance(exponent, int) and exponent > -_DIGITS else None
    if micro is None or micro.denominator != 1:
        _refuse(path, where, "has more than six decimals", "round it as your bill does")
    return int(micro)


def _text(path: Path, where: str, value: Any) -> str:
    if not isinstance(value, str) or not value or value != well_formed(value):
        _refuse(path, where, "is missing or no text", 'write it in quotes, as "deepseek"')
    return value


def _day(path: Path, where: str, value: Any) -> date | None:
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        _refuse(path, where, f"is no day: {value}", 'write a day (UTC), as "2026-02-01"')


def _start(day: date | None) -> int | None:
    """The day's first millisecond since 1970, UTC."""
    if day is None:
        return None
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _refuse(path: Path, where: str, what: str, remedy: str) -> NoReturn:
    raise Fatal(f"rate card {path}: {where + ' ' if where else ''}{what}", remedy)
