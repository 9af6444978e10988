from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway.cursor import MAX_CHARACTERS, Malformed, Position, parse, to_text

POSITION = Position("log", {("transcript", 3): 17, ("overview", 3): 2}, {"s\u00e9ssion": 4})


def natural() -> st.SearchStrategy[int]:
    return st.integers(0, 2**63 - 1)


@given(
    st.builds(
        Position,
        st.text(max_size=9),
        st.dictionaries(st.tuples(st.text(max_size=9), natural()), natural(), max_size=5),
        st.dictionaries(st.text(max_size=9), natural(), max_size=5),
    )
)
def test_a_cursor_is_read_back(position: Position) -> None:
    text = to_text(position)
    assert parse(text) == position
    assert text.replace("-", "").replace("_", "").isalnum()  # it needs no escapes anywhere


def test_equal_positions_make_equal_text() -> None:
    other = Position("log", dict(reversed(list(POSITION.offsets.items()))), POSITION.epochs)
    assert to_text(other) == to_text(POSITION)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: urlsafe_b64encode(b).decode()))
def test_anything_else_is_malformed_and_never_raises(text: str) -> None:
    assert isinstance(parse(text), Malformed)


def written(document: str) -> str:
    return urlsafe_b64encode(document.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    [
        to_text(POSITION)[:-3],
        to_text(POSITION)[:8] + "+/" + to_text(POSITION)[10:],
        written('[1,"log",{"transcript":{"0":-1}},{}]'),
        written('[1,"log",{"transcript":{"x":1}},{}]'),
        written('[1,"log",{"transcript":{"0":1.5}},{}]'),
        written('[1,"log",{},{"s":9223372036854775808}]'),
        written('[1,"log",{}]'),
        written("[" * 5_000),
        "A" * (MAX_CHARACTERS + 1),
    ],
)
def test_a_cursor_that_was_damaged_or_made_up_is_malformed(text: str) -> None:
    assert isinstance(parse(text), Malformed)


def test_a_cursor_of_another_version_says_so() -> None:
    found = parse(written('[2,"log",{},{}]'))
    assert isinstance(found, Malformed)
    assert "version 2" in found.why
