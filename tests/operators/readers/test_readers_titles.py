"""Titles, fallbacks and list metadata (readers.md §6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.readers.text import clean, encoded, head, tail
from operators.readers.titles import BYTES, WORDS, Listing, TitleValue, eligible_seqs, fallback
from operators.text import JS_SPACE
from tests.operators.readers.playing import tell
from tests.operators.records import record, replacing, turn_start, user


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\x1b]0;evil\x07title", "title"),
        ("\x1b]0;evil\x1b\\title", "title"),
        ("a\x1b]0;never closed", "a"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1bMup", "up"),
        ("a\x85b", "ab"),
        ("a\u2029b\ufeffc\x1fd", "a bcd"),
        ("\u202eabc\u202c", "abc"),
        (" \t\r\n", ""),
    ],
)
def test_cleaning(text: str, line: str) -> None:
    assert clean(text) == line


@given(st.text())
def test_a_clean_line_stays_as_it_is(text: str) -> None:
    line = clean(text)
    assert clean(line) == line
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in line)
    assert line == line.strip(JS_SPACE)


@given(st.text())
def test_a_fallback_keeps_its_bounds(text: str) -> None:
    made = fallback(text)
    assert len(encoded(made)) <= BYTES
    assert len(made.split(" ")) <= WORDS
    assert clean(text).startswith(made)


@given(st.text(), st.integers(0, 40))
def test_cut_text_is_text(text: str, size: int) -> None:
    data = encoded(text)
    for part in (head(data, size), tail(data, size)):
        assert len(part) <= size
        assert part.decode() in data.decode()


def titled(title: object, **data: object) -> dict[str, object]:
    return record("session/title", {"title": title, **data})


def test_the_last_title_wins_over_a_users() -> None:
    played = tell(titled("A", source={"kind": "user"}), titled("B", messageSeqs=[1]))
    assert played.rooms["title"].value() == TitleValue("B", None)
    told = played.rooms["title"].reference()["snapshot"]
    assert told == {
        "title": "B",
        "messageSeqs": [1],
        "source": None,
        "eventSeq": 1,
        "updatedAt": 10,
    }


def test_a_title_that_is_none_keeps_the_last_good_one() -> None:
    played = tell(titled("A"), titled(7), titled(None))
    assert played.rooms["title"].value() == TitleValue("A", None)
    assert played.quality == {"reader:title": 2}


def test_no_title_is_none_and_the_offer_stands_beside_it() -> None:
    played = tell(user("\x1b[1m", source={"kind": "user"}), user("fix the bug now please ok"))
    assert played.rooms["title"].value() == TitleValue(None, "fix the bug now please")
    assert eligible_seqs(played.events) == [1]


def test_what_counts_as_input() -> None:
    injected = user("rules", source={"kind": "agent-instructions"})
    copy = replacing(user("again"), 1, 1)
    assert eligible_seqs(tell(injected, user("a"), copy).events) == [1, 2]


def test_blank_until_a_turn_and_times_go_back() -> None:
    played = tell(user("a", time=900), titled("A"), user("b", time=20))
    assert played.rooms["listing"].value() == Listing(True, 20)
    played = tell(user("a", time=900), turn_start())
    listing = played.rooms["listing"]
    assert listing.value() == Listing(False, 900)
    assert (listing.list_time(5), listing.list_time(None), listing.list_time(1000)) == (
        900,
        900,
        1000,
    )
