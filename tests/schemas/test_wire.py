from __future__ import annotations

from typing import Any

import avro.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.catalog import load
from schemas.errors import Refusal
from schemas.wire import Registered, SingleObject, fingerprint, single_object_prefix, unframe

# Test vectors of the Avro project (share/test/data/schema-tests.txt), signed as printed there.
VECTORS: list[tuple[Any, int]] = [
    ("null", 7195948357588979594),
    ("boolean", -6970731678124411036),
    ("int", 8247732601305521295),
    ({"type": "long"}, -3434872931120570953),
    ("bytes", 5746618253357095269),
    ("string", -8142146995180207161),
    (["int", {"type": "boolean"}], 5392556393470105090),
    ({"fields": [], "type": "record", "name": "foo"}, -4824392279771201922),
    ({"fields": [], "type": "record", "name": "foo", "namespace": "x.y"}, 5916914534497305771),
    ({"fields": [], "type": "record", "name": "foo", "doc": "Useful info"}, -4824392279771201922),
    ({"type": "enum", "name": "foo", "symbols": ["A1"]}, -6342190197741309591),
    ({"items": {"type": "null"}, "type": "array"}, -589620603366471059),
    ({"values": "string", "type": "map"}, -8732877298790414990),
    (
        {
            "name": "PigValue",
            "type": "record",
            "fields": [{"name": "value", "type": ["null", "int", "long", "PigValue"]}],
        },
        -1759257747318642341,
    ),
]


@pytest.mark.parametrize(("schema", "expected"), VECTORS)
def test_fingerprints_are_those_of_the_avro_project(schema: Any, expected: int) -> None:
    assert fingerprint(schema) == expected % 2**64


def test_our_fingerprints_are_those_of_the_avro_package() -> None:
    for subject in load().subjects():
        for schema in load().versions(subject):
            other = avro.schema.make_avsc_object(schema.source)
            assert schema.fingerprint == int.from_bytes(other.fingerprint(), "little")


def test_the_fingerprint_travels_little_endian() -> None:
    assert single_object_prefix(0x0102030405060708) == bytes.fromhex("c301 0807060504030201")


@given(st.integers(0, 2**64 - 1), st.binary())
def test_a_single_object_frame_is_taken_apart(number: int, body: bytes) -> None:
    assert unframe(single_object_prefix(number) + body) == SingleObject(number, body)


def test_a_registry_frame_is_taken_apart() -> None:
    assert unframe(b"\x00\x00\x00\x01\x02body") == Registered(258, b"body")
    assert unframe(b"\x00\xff\xff\xff\xff") == Registered(2**32 - 1, b"")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"", "empty"),
        (b"{}", "7b 7d"),
        (b"\xc3", "first bytes c3"),
        (b"\xc3\x02" + bytes(9), "c3 02"),
        (b"\xc3\x01" + bytes(7), "after 9 of 10"),
        (b"\x00\x00\x00\x01", "after 4 of 5"),
    ],
)
def test_what_is_no_frame_is_refused(value: bytes, says: str) -> None:
    refusal = unframe(value)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "not-avro"
    assert says in refusal.message


@given(st.binary(max_size=16) | st.binary(max_size=16).map(lambda b: b"\xc3\x01" + b))
def test_any_bytes_are_a_frame_or_a_refusal(value: bytes) -> None:
    assert isinstance(unframe(value), (SingleObject, Registered, Refusal))
