"""Search documents and the filters over them (readers.md §11)."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.readers.documents import Document, documents
from operators.readers.filters import FilterError, event_filter, session_filter
from operators.readers.text import folded
from tests.operators.readers.playing import tell
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    record,
    result,
    say,
    summary,
    system,
    turn_end,
    user,
)
from tests.strategies import json_values


def found(*log: Json) -> list[tuple[int, str, str]]:
    played = tell(*log)
    return [(d.seq, d.surface, d.text) for d in documents(played.events, played.mark)]


def test_what_is_searched() -> None:
    todo = {"content": " b ", "status": "pending"}
    failed = result("c", "out", failed=True)
    failed["data"]["error"] = {"name": "E", "code": "C", "reason": "no"}
    log = [
        user("  q  "),
        say("a", {"type": "reasoning", "text": "hidden"}, calls=("c",)),
        call("c"),
        failed,
        record("todo/write", {"todos": [todo, {"content": 5}, None]}),
        turn_end(reason={"kind": "error", "error": {"message": " boom ", "code": "X"}}),
        turn_end(reason="interrupted"),
        turn_end(reason="completed"),
        record("session/title", {"title": "T"}),
        summary("s"),
        system("sys"),
        user("\ufeff \u3000"),
    ]
    assert found(*log) == [
        (0, "C", "q"),
        (1, "C", "a\nread\n{}"),
        (2, "-", "read\n{}"),
        (3, "C", "out\nE\nC"),
        (4, "-", "pending\nb"),
        (5, "-", "error\nboom"),
        (6, "-", "interrupted"),
    ]


def test_a_replacement_and_what_it_replaced_are_both_found() -> None:
    assert found(user("one"), checkpoint(0, 0)) == [(0, "S", "one"), (1, "C", "framed")]


def hits(text: str, wanted: str) -> bool:
    return event_filter([{"kind": "text", "text": wanted}])(Document(0, "t", 0, "C", text))


@pytest.mark.parametrize(
    ("text", "wanted", "hit"),
    [
        ("Straße", "STRASSE", False),
        ("Straße", "straẞe", True),
        ("a\n\t b", "A B", True),
        ("ab", "a b", False),
        ("Σίσυφος", "σίσυφοσ", True),
        ("café", "cafe", False),
        ("\u212a", "k", True),
        ("İ", "i", False),
        ("ﬀ", "ff", False),
        ("ᾈ", "ᾀ", True),
        ("a.b", ".*", False),
    ],
)
def test_text_folds_character_by_character(text: str, wanted: str, hit: bool) -> None:
    assert hits(text, wanted) is hit


def test_no_character_becomes_two() -> None:
    every = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if not "\ud800" <= c <= "\udfff")
    assert len(folded(every)) == len(every)


@given(st.text(), st.text(), st.text())
def test_a_text_is_found_in_what_holds_it(before: str, wanted: str, after: str) -> None:
    assert hits(f"{before} x{wanted}x {after}", f"X{wanted}X")


@pytest.mark.parametrize(
    "clause",
    [
        {"kind": "nope"},
        {"kind": ["seq"]},
        {},
        5,
        {"kind": "seq", "from": "1"},
        {"kind": "seq", "from": None},
        {"kind": "seq", "from": True},
        {"kind": "seq", "to": float("inf")},
        {"kind": "time", "from": float("nan")},
        {"kind": "seq", "from": 3, "to": 2},
        {"kind": "surface", "values": ["live"]},
        {"kind": "surface", "values": [None]},
        {"kind": "type", "values": "user/message"},
        {"kind": "type"},
        {"kind": "type", "values": [{}]},
        {"kind": "text", "text": " \u3000"},
        {"kind": "text"},
    ],
)
def test_what_means_nothing_is_an_error(clause: Any) -> None:
    with pytest.raises(FilterError):
        event_filter([clause])


@given(st.lists(json_values | st.fixed_dictionaries({"kind": st.sampled_from(["seq", "text"])})))
def test_no_filter_raises_anything_else(clauses: list[Any]) -> None:
    for make in (event_filter, session_filter):
        with contextlib.suppress(FilterError):
            make(clauses)


def test_clauses_are_anded_values_ored_and_an_open_range_takes_no_time_too() -> None:
    document = Document(5, "user/message", None, "C", "x")
    types = {"kind": "type", "values": ["tool/call", "user/message", "unheard/of"]}
    assert event_filter([])(document)
    assert event_filter([types, {"kind": "time"}])(document)
    assert not event_filter([types, {"kind": "seq", "from": 6}])(document)
    assert not event_filter([{"kind": "time", "from": 0}])(document)
    assert not event_filter([{"kind": "type", "values": []}])(document)
