from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from schemas.catalog import load
from schemas.deadletter import (
    DeadLetter,
    Header,
    bound_dead_letter,
    decode_dead_letter,
    encode_dead_letter,
)
from schemas.errors import ReadError
from schemas.outbound import encode
from tests.schemas import made
from tests.schemas.samples import SAMPLES

OPTIONAL_BYTES = st.none() | st.binary(max_size=30)


def letters(text: st.SearchStrategy[str] = made.TEXT) -> st.SearchStrategy[DeadLetter]:
    return st.builds(
        DeadLetter,
        reason=text,
        message=text,
        topic=text,
        partition=st.integers(-1, 2**31 - 1),
        offset=st.integers(-1, 2**63 - 1),
        timestamp=st.integers(-1, 2**63 - 1),
        session=st.none() | text,
        fault_seq=st.none() | st.integers(0, 2**53),
        key=OPTIONAL_BYTES,
        value=OPTIONAL_BYTES,
        headers=st.lists(st.builds(Header, text, OPTIONAL_BYTES), max_size=3).map(tuple),
    )


def by_fastavro(letter: DeadLetter) -> bytes:
    fields: dict[str, Any] = structs.asdict(letter)
    fields["headers"] = [structs.asdict(header) for header in letter.headers]
    stream = BytesIO()
    schemaless_writer(stream, load().latest("deadletter").parsed, fields)
    return stream.getvalue()


@given(letters())
def test_a_letter_comes_back_and_is_what_fastavro_writes(letter: DeadLetter) -> None:
    assert decode_dead_letter(encode_dead_letter(letter)) == letter
    assert encode_dead_letter(letter)[10:] == by_fastavro(letter)


@given(letters(made.WILD_TEXT))
def test_any_message_can_be_written(letter: DeadLetter) -> None:
    read = decode_dead_letter(encode_dead_letter(letter))
    assert (read.key, read.value, read.offset) == (letter.key, letter.value, letter.offset)


def test_a_record_of_another_subject_is_no_letter() -> None:
    with pytest.raises(ReadError, match="transcript record, not deadletter"):
        decode_dead_letter(encode(SAMPLES["transcript"][0]))
    with pytest.raises(ReadError, match="not-avro"):
        decode_dead_letter(b"{}")


# --- a letter too large ---------------------------------------------------------------------------

BIG = 20_000
WHOLE = DeadLetter(
    "not-json", "m" * BIG, "sessions.events", 3, 99, 7, "s", 12,
    b"k" * BIG, b"v" * BIG, (Header("epoch", b"h" * BIG), Header("n" * BIG, b"1")),
)  # fmt: skip
NO_HEADER_VALUES = (Header("epoch", None), Header("n" * BIG, None))


@pytest.mark.parametrize(
    ("limit", "changed"),
    [
        (6 * BIG, {}),
        (5 * BIG, {"value": None}),
        (4 * BIG, {"value": None, "headers": NO_HEADER_VALUES}),
        (3 * BIG - 1000, {"value": None, "headers": ()}),
        (2 * BIG - 1000, {"value": None, "headers": (), "key": None}),
        (5000, {"value": None, "headers": (), "key": None, "message": "m" * 4096}),
    ],
)
def test_only_what_must_go_is_dropped(limit: int, changed: dict[str, Any]) -> None:
    bounded = bound_dead_letter(WHOLE, limit)
    if limit == 3 * BIG - 1000:  # key and message are within it, header names are not
        assert len(encode_dead_letter(structs.replace(WHOLE, value=None))) > limit
    assert bounded == structs.replace(WHOLE, **changed)
    assert len(encode_dead_letter(bounded)) <= limit


def test_the_coordinates_stay_whatever_the_limit() -> None:
    bounded = bound_dead_letter(WHOLE, 1)
    assert (bounded.topic, bounded.partition, bounded.offset) == ("sessions.events", 3, 99)
    assert (bounded.reason, bounded.session, bounded.fault_seq) == ("not-json", "s", 12)
