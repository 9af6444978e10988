"""The rate card: what is read of it, and what is refused with place and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators.readers.money import Card, Rate
from pipeline.errors import Fatal
from pipeline.readers.ratecard import read_card

GOOD = """
currency = "USD"
published = 2026-02-01
per = 1_000_000

[[rate]]
provider = "p"
model = "m"
until = 2026-01-01
input = "0.28"
output = 1

[[rate]]
provider = "p"
model = "m"
since = "2026-01-01"
input = 0.30
cache_read = "0.028"
cache_write = "0"
"""
JANUARY = 1_767_225_600_000


def written(folder: Path, text: str, name: str = "card.toml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_card(tmp_path: Path) -> None:
    assert read_card(written(tmp_path, GOOD)) == Card(
        "USD",
        "2026-02-01",
        (
            Rate("p", "m", 280_000, 1_000_000, until=JANUARY),
            Rate("p", "m", 300_000, None, 28_000, 0, since=JANUARY),
        ),
    )


def test_a_card_in_json(tmp_path: Path) -> None:
    rate = '{"provider":"p","model":"m","input":0.1}'
    text = f'{{"currency":"EUR","published":"2026-02-01","rate":[{rate}]}}'
    found = read_card(written(tmp_path, text, "card.json"))
    assert found == Card("EUR", "2026-02-01", (Rate("p", "m", 100_000),))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('currency = "USD"', "", "currency"),
        ("published = 2026-02-01", "", "published"),
        ("published = 2026-02-01", 'published = "soon"', "published"),
        ("per = 1_000_000", "per = 1000", "per"),
        ('provider = "p"', "", "rate 1: provider"),
        ('input = "0.28"', 'input = "cheap"', "rate 1: input"),
        ('input = "0.28"', 'input = "-1"', "rate 1: input"),
        ('input = "0.28"', 'input = "nan"', "rate 1: input"),
        ('input = "0.28"', "input = true", "rate 1: input"),
        ('input = "0.28"', 'input = "0.0000001"', "six decimals"),
        ('input = "0.28"', 'in = "0.28"', "rate 1: in "),
        ("until = 2026-01-01", "until = 2026-01-02", "rate 1 is for the same time"),
        ("until = 2026-01-01", "", "rate 1 is for the same time"),
        ("until = 2026-01-01", "until = 2026-01-01T00:00:00", "rate 1: until"),
        ("until = 2026-01-01", "since = 2026-01-01\nuntil = 2026-01-01", "ends before it begins"),
        ('currency = "USD"', "currency = ", "is no TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, place: str) -> None:
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(Fatal) as refused:
        read_card(path)
    assert place in str(refused.value)
    assert str(path) in str(refused.value)
    assert refused.value.remedy


def test_a_card_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match="cannot be read"):
        read_card(tmp_path / "none.toml")
    with pytest.raises(Fatal, match="is no JSON"):
        read_card(written(tmp_path, "{", "card.json"))
    with pytest.raises(Fatal, match="is no table"):
        read_card(written(tmp_path, "[]", "card.json"))
    with pytest.raises(Fatal, match="is no list"):
        read_card(written(tmp_path, '{"currency":"x","rate":5}', "card.json"))
