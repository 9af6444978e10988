"""The compiled writers against fastavro's generic one, byte for byte."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from operators import changes
from schemas.catalog import load
from schemas.encoder import INT_MAX, LONG_MAX, compile_encoder, long_bytes, utf8
from schemas.outbound import encode, subject_of
from tests.schemas import made
from tests.schemas.samples import SAMPLES

HEAD = 10  # of the single-object framing


def by_fastavro(change: Any) -> bytes:
    stream = BytesIO()
    schemaless_writer(stream, load().latest(subject_of(change)).parsed, made.plain(change))
    return stream.getvalue()


@given(made.every_change())
def test_bytes_are_those_of_fastavro(change: Any) -> None:
    assert encode(change)[HEAD:] == by_fastavro(change)


@pytest.mark.parametrize("subject", ["surface", "transcript", "partials", "overview"])
def test_every_kind_is_written_as_its_branch(subject: str) -> None:
    for change in SAMPLES[subject]:
        assert encode(change)[HEAD:] == by_fastavro(change)


@given(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**k for k in range(63)]))
def test_longs_are_zigzag_varints(number: int) -> None:
    stream = BytesIO()
    schemaless_writer(stream, "long", number)
    assert long_bytes(number) == stream.getvalue()
    assert schemaless_reader(BytesIO(long_bytes(number)), "long", None) == number


@given(made.WILD_TEXT)
def test_any_string_is_utf8(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    assert utf8(text) == units.decode("utf-16-be", "replace").encode()


def test_an_unpaired_half_is_replaced_and_a_pair_joined() -> None:
    assert utf8("a\ud83d\ude00b\ude00\ud83d") == "a\U0001f600b\ufffd\ufffd".encode()


NUMBERS = {
    "type": "record",
    "name": "Numbers",
    "fields": [
        {"name": "first", "type": ["null", "long"]},
        {"name": "last", "type": "long"},
    ],
}


@pytest.mark.parametrize("beyond", [LONG_MAX + 1, -LONG_MAX - 2, 10**400])
def test_a_number_too_big_for_avro(beyond: int) -> None:
    strict = compile_encoder(NUMBERS, {})
    lenient = compile_encoder(NUMBERS, {}, lenient=True)
    for first, last in ((beyond, 1), (1, beyond)):
        with pytest.raises(OverflowError):
            strict(changes.GapData(first, last))
    nearest = LONG_MAX if beyond > 0 else -LONG_MAX - 1
    expected = b"\x00" + long_bytes(nearest)
    assert lenient(changes.GapData(beyond, beyond)) == expected


def test_an_int_keeps_to_32_bits() -> None:
    schema = {"type": "record", "name": "N", "fields": [{"name": "count", "type": "int"}]}
    fits, beyond = (type("N", (), {"count": INT_MAX + more}) for more in (0, 1))
    assert compile_encoder(schema, {})(fits) == long_bytes(INT_MAX)
    with pytest.raises(OverflowError):
        compile_encoder(schema, {})(beyond)
    assert compile_encoder(schema, {}, lenient=True)(beyond) == long_bytes(INT_MAX)


def test_a_missing_number_is_not_written_as_zero() -> None:
    with pytest.raises(TypeError):
        compile_encoder(NUMBERS, {})(type("N", (), {"first": None, "last": None}))


@pytest.mark.parametrize(
    "kind", ["double", ["string", "null"], {"type": "fixed", "size": 2}, "Odd"]
)
def test_a_type_without_writer_is_refused_at_once(kind: Any) -> None:
    schema = {"type": "record", "name": "N", "fields": [{"name": "x", "type": kind}]}
    with pytest.raises(TypeError, match=r"no writer|begins with null"):
        compile_encoder(schema, {})


def test_memory_of_recent_numbers_is_bounded() -> None:
    write = compile_encoder(NUMBERS, {})
    for number in range(40_000):
        assert write(changes.GapData(0, number))[1:2]
    tables = [cell for cell in write.__globals__.values() if isinstance(cell, dict)]
    assert max(len(table) for table in tables) <= 1 << 14
