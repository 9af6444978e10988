"""JSON as it may leave: read by a strict reader it says what the log said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway.jsonout import MAX_SAFE, safe

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=12)
    | st.sampled_from(["\ud83d", "\ude00\ud83d", '\\ud83d"', "\\\ud83d", "é\ud83dx"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
)


def expected(value: object) -> object:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE else str(value)
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [expected(each) for each in value]
    if isinstance(value, dict):
        return {name: expected(each) for name, each in value.items()}
    return value


@given(VALUES, st.booleans())
def test_a_strict_reader_reads_what_was_meant(value: object, indented: bool) -> None:
    text = json.dumps(value, indent=2 if indented else None).encode()
    left = safe(text)
    left.decode("utf-8")  # no raw halves
    assert json.loads(left) == expected(value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (b"9007199254740991", b"9007199254740991"),
        (b"9007199254740992", b'"9007199254740992"'),
        (b"[-9007199254740993,1]", b'["-9007199254740993",1]'),
        (b"1e400", b'"1e400"'),
        (b"1e30", b"1e30"),
        (b'{"a":0.1234567890123456789}', b'{"a":0.1234567890123456789}'),
        (b'"12345678901234567890"', b'"12345678901234567890"'),
        (rb'"\\ud83d"', rb'"\\ud83d"'),
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\ud83d!"', b'"\xef\xbf\xbd!"'),
        (rb'"\ude00\ud83d"', b'"\xef\xbf\xbd\xef\xbf\xbd"'),
        (b'"\xed\xa0\xbd"', b'"\xef\xbf\xbd"'),
    ],
)
def test_only_what_must_change_changes(text: bytes, left: bytes) -> None:
    assert safe(text) == left


def test_a_number_of_a_million_digits_costs_no_conversion() -> None:
    digits = b"9" * 1_000_000
    assert safe(digits) == b'"' + digits + b'"'
