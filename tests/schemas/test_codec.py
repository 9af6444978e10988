from __future__ import annotations

import struct
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from operators import changes
from schemas.catalog import Schema, load, read_files
from schemas.codec import (
    Record,
    decode,
    decode_change,
    decode_session_line,
    decode_subject,
    read,
)
from schemas.errors import ReadError, Refusal
from schemas.outbound import encode
from schemas.wire import SINGLE_OBJECT, single_object_prefix
from tests.schemas import made
from tests.schemas.samples import SAMPLES

GAP = changes.TranscriptRow(
    "s", 0, 4, "gap:2", "gap", 2, 0, 4, "auxiliary", None, None, 9, False, (), changes.GapData(2, 3)
)


def written(schema: Schema, fields: dict[str, Any]) -> bytes:
    stream = BytesIO()
    schemaless_writer(stream, schema.parsed, fields)
    return stream.getvalue()


def single(schema: Schema, fields: dict[str, Any]) -> bytes:
    return single_object_prefix(schema.fingerprint) + written(schema, fields)


@given(made.every_change())
def test_what_is_encoded_comes_back(change: Any) -> None:
    assert decode_change(encode(change)) == change


@given(made.of(changes.TranscriptRow))
def test_a_row_of_any_kind_comes_back(row: Any) -> None:
    assert decode_change(encode(row)) == row


def test_a_decoded_row_has_the_names_of_the_contract() -> None:
    assert decode(encode(GAP)) == {
        "session": "s", "epoch": 0, "seq": 4, "key": "gap:2", "kind": "gap", "anchor_seq": 2,
        "anchor_rank": 0, "rev": 4, "visibility": "auxiliary", "turn": None, "step": None,
        "time": 9, "deleted": False, "truncated": [], "data": {"first": 2, "last": 3},
    }  # fmt: skip


# --- session lines --------------------------------------------------------------------------------


@given(st.binary())
def test_a_session_line_is_read_in_either_framing(line: bytes) -> None:
    schema = load().latest("session_line")
    body = written(schema, {"line": line})
    assert decode_session_line(single_object_prefix(schema.fingerprint) + body) == line
    registry = {77: schema}.get
    assert decode_session_line(b"\x00" + struct.pack(">I", 77) + body, registry) == line


@pytest.mark.parametrize(
    ("value", "reason", "says"),
    [
        (b"\x00\x00\x00\x00\x07\x02a", "unknown-schema", "registry id 7"),
        (SINGLE_OBJECT + bytes(8) + b"\x02a", "unknown-schema", "fingerprint 0000000000000000"),
        (encode(GAP), "unknown-schema", "a transcript record"),
        (b"hello", "not-avro", "68 65"),
        (single(load().latest("session_line"), {"line": b"abc"})[:-1], "not-avro", "body"),
        (
            single(load().latest("session_line"), {"line": b"a"}) + b"\x00",
            "not-avro",
            "1 bytes left",
        ),
    ],
)
def test_a_session_line_that_is_none(value: bytes, reason: str, says: str) -> None:
    refusal = decode_session_line(value)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert says in refusal.message


# --- totality and errors --------------------------------------------------------------------------


@given(st.sampled_from(load().subjects()), st.binary(max_size=60))
def test_any_body_is_a_record_or_a_refusal(subject: str, body: bytes) -> None:
    value = single_object_prefix(load().latest(subject).fingerprint) + body
    for found in (read(value), read(value, named=True)):
        assert isinstance(found, (Record, Refusal))


@given(made.every_change(), st.data())
def test_a_damaged_value_never_crashes_a_reader(change: Any, data: st.DataObject) -> None:
    value = bytearray(encode(change))
    place = data.draw(st.integers(10, len(value) - 1))
    value[place] = data.draw(st.integers(0, 255))
    with suppress(ReadError):
        assert isinstance(decode_change(bytes(value)), made.KINDS)


@pytest.mark.parametrize("subject", ["surface", "transcript", "partials", "overview"])
def test_every_cut_is_noticed(subject: str) -> None:
    for value in map(encode, SAMPLES[subject]):
        for length in range(len(value)):
            assert isinstance(read(value[:length]), Refusal)


def test_a_record_of_another_subject_is_refused() -> None:
    line = single(load().latest("session_line"), {"line": b"{}"})
    with pytest.raises(ReadError, match="a session_line record, not surface or"):
        decode_change(line)
    with pytest.raises(ReadError, match="not deadletter"):
        decode_subject(line, "deadletter")


def test_a_kind_added_later_is_a_dict_but_no_change() -> None:
    fields = made.plain(GAP) | {"kind": "poll", "data": ("foldstream.Other", {"body": '{"q":1}'})}
    value = single(load().latest("transcript"), fields)
    assert decode(value)["data"] == {"body": '{"q":1}'}
    with pytest.raises(ReadError, match="Other: of a newer version"):
        decode_change(value)


def test_another_version_is_read_as_the_newest_known() -> None:
    later = b"""{"type": "record", "name": "SessionLine", "namespace": "foldstream", "fields": [
        {"name": "origin", "type": ["null", "string"], "default": null},
        {"name": "line", "type": "bytes"}]}"""
    schema = read_files({"session_line.v1.avsc": later}).latest("session_line")
    value = b"\x00\x00\x00\x00\x05" + written(schema, {"origin": "a.jsonl", "line": b"{}"})
    assert decode(value, {5: schema}.get) == {"line": b"{}"}


def test_a_schema_of_a_subject_nobody_knows_is_unknown() -> None:
    foreign = read_files({"sonnets.v1.avsc": b'{"type": "record", "name": "Sonnet", "fields": []}'})
    found = read(b"\x00\x00\x00\x00\x05", {5: foreign.latest("sonnets")}.get)
    assert isinstance(found, Refusal)
    assert found.reason == "unknown-schema"


def test_a_schema_that_does_not_resolve_is_refused() -> None:
    other = read_files({"session_line.v1.avsc": b'{"type": "record", "name": "A", "fields": []}'})
    found = read(b"\x00\x00\x00\x00\x05", {5: other.latest("session_line")}.get)
    assert isinstance(found, Refusal)
    assert found.reason == "not-avro"


@pytest.mark.parametrize("content", [None, Raw(b"[1]"), Raw(b'"' + b"x" * 50 + b'"')])
def test_sub_calls_as_deep_as_the_fold_lets_them(content: Raw | None) -> None:
    call = changes.SubCall("c", None, None, "ok", content, None, 1, 2)
    for _ in range(255):
        call = structs.replace(call, sub_calls=(call,))
    tool = changes.ToolData("r", None, None, "ok", sub_calls=(call,))
    row = structs.replace(GAP, kind="tool", data=tool)
    assert decode_change(encode(row)) == row


def test_nesting_without_end_is_refused() -> None:
    fields = made.plain(GAP) | {"data": None}
    head = single(load().latest("transcript"), fields)[:-1]
    tool = bytes([6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])  # up to its sub-calls
    child = bytes([2, 0, 0, 0, 0, 0, 0, 0, 0])
    refusal = read(head + tool + child * 50_000)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "not-avro"
