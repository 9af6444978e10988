"""The door in: which lines are what, that both readers agree, and that nothing raises."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from xxhash import xxh3_64_intdigest

from operators.events import (
    APPEND,
    MAX_SEQ,
    AssistantChunk,
    BadMarker,
    BadSources,
    Event,
    Fault,
    Header,
    Line,
    LogOnly,
    Replace,
    Run,
    Shape,
    Sources,
    TextDelta,
    TurnStart,
    Unknown,
    UserMessage,
)
from schemas import exact, fast
from schemas.catalog import load
from schemas.encoder import long_bytes
from schemas.inbound import read_line, read_value
from schemas.wire import single_object_prefix
from tests.schemas.wire_json import lines


def event(line: bytes, seq: int | None = None) -> Event:
    read = read_line(line, seq)
    assert isinstance(read, Event)
    return read


def row(type_: str = "turn/start", **keys: Any) -> bytes:
    return json.dumps({"type": type_, "seq": 3, "time": 5} | keys).encode()


def session_line(line: bytes) -> bytes:
    """An Avro SessionLine in single-object framing."""
    prefix = single_object_prefix(load().latest("session_line").fingerprint)
    return prefix + long_bytes(len(line)) + line


# --- both readers are one -------------------------------------------------------------------------


@given(lines(), st.none() | st.integers(0, 9))
def test_what_the_fast_reader_accepts_is_what_the_exact_one_says(
    line: bytes, implicit: int | None
) -> None:
    found = fast.read(line, implicit)
    assert found is None or found == exact.read(line, implicit)


@given(st.binary(max_size=60) | lines())
def test_no_bytes_raise(line: bytes) -> None:
    for read in (read_line(line), read_line(line, 4), read_value(line)):
        assert isinstance(read, Event | Header | Fault)


@given(lines(), st.data())
def test_a_flipped_bit_is_a_line_or_a_fault(line: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(line) - 1))
    torn = line[:at] + bytes((line[at] ^ 1 << data.draw(st.integers(0, 7)),)) + line[at + 1 :]
    found = fast.read(torn, None)
    assert found is None or found == exact.read(torn, None)


def test_the_fast_reader_takes_the_plain_case_of_every_kind() -> None:
    for type_ in ("turn/start", "assistant/chunk", "user/message", "todo/write", "plugin:x"):
        assert fast.read(row(type_), None) is not None, type_
    assert fast.read(b'{"type":"session","id":"s"}', None) is not None


def test_the_decoders_survive_the_garbage_collector() -> None:
    # msgspec 0.23 crashes on some types here (schemas/markers.py says which).
    gc.collect()


# --- the envelope ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("literal", "seq"),
    [
        ("18", 18),
        ("18.0", 18),
        ("1.8e1", 18),
        ("180e-1", 18),
        ("-0", 0),
        ("-0.0", 0),
        (str(MAX_SEQ), MAX_SEQ),
        ("9.007199254740991e15", MAX_SEQ),
    ],
)
def test_a_seq_is_a_seq_by_value(literal: str, seq: int) -> None:
    assert event(b'{"type":"turn/start","seq":%b}' % literal.encode()).seq == seq


@pytest.mark.parametrize(
    "literal",
    ["-1", "0.5", "9007199254740992", "1e400", "true", "false", '"3"', "null", "[3]", "{}"],
)
def test_what_is_no_seq_is_seq_invalid(literal: str) -> None:
    fault = read_line(b'{"type":"turn/start","seq":%b}' % literal.encode())
    assert isinstance(fault, Fault)
    assert (fault.reason, fault.seq) == ("seq-invalid", None)


@pytest.mark.parametrize(
    ("line", "reason", "seq"),
    [
        (b"", "not-json", None),
        (b"\0\0\0", "not-json", None),
        (b'{"type":"turn/start","seq":1', "not-json", None),
        (b'{"type":"turn/start","seq":1} {}', "not-json", None),
        (b'{"type":"turn/start","seq":1,"data":"\x01"}', "not-json", None),
        (b'{"type":"turn/start","seq":1,"data":NaN}', "not-json", None),
        (b'\xef\xbb\xbf{"type":"turn/start","seq":1}', "not-json", None),
        (b'{"type":"turn/start\xff', "not-utf8", None),
        (b"[1]", "bad-envelope", None),
        (b"7", "bad-envelope", None),
        (b'{"seq":1,"data":{}}', "type-invalid", 1),
        (b"{}", "seq-invalid", None),
        (b'{"type":5,"seq":2}', "type-invalid", 2),
        (b'{"type":"","seq":2}', "type-invalid", 2),
        (b'{"type":null,"seq":2}', "type-invalid", 2),
        (b'{"type":"turn/start","data":{"turn":1}}', "seq-invalid", None),
    ],
)
def test_faults_have_their_reason_and_the_seq_that_is_readable(
    line: bytes, reason: str, seq: int | None
) -> None:
    fault = read_line(line)
    assert isinstance(fault, Fault)
    assert (fault.reason, fault.seq) == (reason, seq)
    assert fault.digest == xxh3_64_intdigest(line)
    assert fault.message


def test_depth_ends_at_512_levels() -> None:
    def nested(levels: int) -> bytes:
        return b'{"type":"x/y","seq":1,"data":' + b"[" * levels + b"]" * levels + b"}"

    assert event(nested(511)).type == "x/y"
    for levels in (512, 5_000, 200_000):
        fault = read_line(nested(levels))
        assert isinstance(fault, Fault)
        assert fault.reason == "not-json"
    # Brackets in strings and side by side are no depth.
    assert event(row("x/y", data=["[" * 600, [[]] * 600])).type == "x/y"


@pytest.mark.parametrize(
    ("literal", "time"),
    [("5", 5), ("-5", -5), ("5.0", 5), ("0", 0), ("0.5", None), ('"5"', None), ("1e30", None)],
)
def test_a_time_that_is_no_safe_integer_is_null(literal: str, time: int | None) -> None:
    assert event(b'{"type":"turn/start","seq":1,"time":%b}' % literal.encode()).time == time


def test_unknown_keys_missing_data_and_the_last_of_a_repeated_key_are_no_faults() -> None:
    line = b' {"zzz":[1],"data":{"turn":7},"seq":1,"seq":2,"type":"x","type":"turn/start"}\r'
    assert event(line).body == TurnStart(7)
    assert event(line).seq == 2
    for data in ({}, {"data": None}, {"data": "text"}, {"data": {"turn": 1.5}}):
        assert event(row(**data)).body == TurnStart(None)


def test_bad_bytes_read_as_the_replacement_character() -> None:
    data = b'{"content":[{"type":"text","text":"a\xff\xed\xa0\x80b"}],"role":"user","id":"\xc3"}'
    line = b'{"type":"user/message","seq":1,"surfaceOp":"append","data":' + data + b"}"
    read = event(line)
    assert isinstance(read.body, UserMessage)
    assert read.quality == ("replaced_utf8",)
    assert read.body.id == "\ufffd"
    # Each faulty sequence is one: an encoded surrogate half is three of them.
    text = '[{"type":"text","text":"a\ufffd\ufffd\ufffd\ufffdb"}]'
    assert read.body.content == Raw(text.encode())
    assert read.digest == xxh3_64_intdigest(line)


# --- markers and sources --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "marker"),
    [
        ("append", APPEND),
        ({"op": "replace", "start": 5, "end": 2}, Replace(5, 2)),
        ({"endSeq": 2.0, "startSeq": 5, "op": "replace"}, Replace(5, 2)),
        (None, "surfaceop-invalid"),
        ("Append", "surfaceop-invalid"),
        ("replace", "surfaceop-invalid"),
        ("", "surfaceop-invalid"),
        (1, "surfaceop-invalid"),
        (False, "surfaceop-invalid"),
        ([], "surfaceop-invalid"),
        (["append"], "surfaceop-invalid"),
        ({}, "surfaceop-invalid-replace"),
        ({"op": "append"}, "surfaceop-invalid-replace"),
        ({"op": "Replace", "start": 1, "end": 2}, "surfaceop-invalid-replace"),
        ({"op": None, "start": 1, "end": 2}, "surfaceop-invalid-replace"),
        ({"op": "replace"}, "surfaceop-invalid-replace"),
        ({"op": "replace", "start": 1}, "surfaceop-invalid-replace"),
        ({"op": "replace", "start": 1, "endSeq": 2}, "surfaceop-invalid-replace"),
        ({"op": "replace", "start": 1, "end": 2, "why": 1}, "surfaceop-invalid-replace"),
        (
            {"op": "replace", "start": 1, "end": 2, "startSeq": 1, "endSeq": 2},
            "surfaceop-invalid-replace",
        ),
        ({"op": "replace", "start": True, "end": 2}, "surfaceop-invalid-replace"),
        ({"op": "replace", "start": -1, "end": 2}, "surfaceop-invalid-replace"),
        ({"op": "replace", "start": 1.5, "end": 2}, "surfaceop-invalid-replace"),
        ({"op": "replace", "start": "1", "end": 2}, "surfaceop-invalid-replace"),
        ({"op": "replace", "start": 1, "end": None}, "surfaceop-invalid-replace"),
    ],
)
@pytest.mark.parametrize("type_", ["user/message", "turn/end", "plugin:a/b"])
def test_markers(type_: str, op: Any, marker: Any) -> None:
    found = event(row(type_, surfaceOp=op)).marker
    if isinstance(marker, str):
        assert isinstance(found, BadMarker)
        assert found.reason == marker
    else:
        assert found == marker


@pytest.mark.parametrize(
    ("listed", "sources"),
    [
        ([], Sources((), 0, 0, -1)),
        ([4], Sources(((4, 4),), 1, 4, 4)),
        ([9, 2, 7], Sources(((9, 9), (2, 2), (7, 7)), 3, 2, 9)),
        ([3, 4, 5], Sources(((3, 5),), 3, 3, 5)),
        ([5, 4, 3], Sources(((5, 5), (4, 4), (3, 3)), 3, 3, 5)),
        ([[1, 3], 9, [5, 5]], Sources(((1, 3), (9, 9), (5, 5)), 5, 1, 9)),
        ([9.0, [1, 3.0]], Sources(((9, 9), (1, 3)), 4, 1, 9)),
        ([[0, MAX_SEQ]], Sources(((0, MAX_SEQ),), MAX_SEQ + 1, 0, MAX_SEQ)),
        (None, "sources-not-array"),
        (2, "sources-not-array"),
        ({}, "sources-not-array"),
        ([3, "x"], "sources-element"),
        ([3, 3, "x"], "sources-element"),
        ([True], "sources-element"),
        ([None], "sources-element"),
        ([-1], "sources-element"),
        ([MAX_SEQ + 1], "sources-element"),
        ([[1]], "sources-element"),
        ([[]], "sources-element"),
        ([[1, 2, 3]], "sources-element"),
        ([[3, 1]], "sources-element"),
        ([[1, [2]]], "sources-element"),
        ([3, 3], "sources-duplicate"),
        ([3, 3.0], "sources-duplicate"),
        ([0, -0.0], "sources-duplicate"),
        ([2, 3, 4, 3], "sources-duplicate"),
        ([3, 5, 5], "sources-duplicate"),
        ([[1, 5], 3], "sources-duplicate"),
        ([[4, 9], [1, 4]], "sources-duplicate"),
    ],
)
def test_sources(listed: Any, sources: Any) -> None:
    read = event(row("user/message", surfaceOp="append", sourceEventSeqs=listed))
    if isinstance(sources, str):
        assert isinstance(read.sources, BadSources)
        assert read.sources.reason == sources
        assert read.shapes == 0
    else:
        assert read.sources == sources
        ranges = any(isinstance(element, list) for element in listed)
        assert bool(read.shapes & Shape.SOURCES_RANGES) is ranges


def test_absent_is_not_null() -> None:
    assert event(row()).marker is None
    assert event(row()).sources is None


def test_both_spellings_leave_their_shape() -> None:
    old = event(row(surfaceOp={"op": "replace", "start": 1, "end": 2}))
    new = event(row(surfaceOp={"op": "replace", "startSeq": 1, "endSeq": 2}))
    assert (old.shapes, new.shapes) == (Shape.REPLACE_START, Shape.REPLACE_START_SEQ)


# --- unknown types, fixtures, headers -------------------------------------------------------------


def test_an_ignorable_unknown_type_is_opaque() -> None:
    keys = {"surfaceOp": {"op": "x"}, "sourceEventSeqs": [99, 99]}
    read = event(row("plugin:a/b", ignorable=True, **keys))
    assert (read.body, read.marker, read.sources) == (Unknown(True), None, None)
    assert (read.type, read.quality) == ("plugin:a/b", ())


@pytest.mark.parametrize("flag", [False, None, 1, "true"])
def test_ignorable_other_than_true_counts_as_absent(flag: Any) -> None:
    unknown = event(row("plugin:a/b", ignorable=flag, surfaceOp="append"))
    assert (unknown.body, unknown.marker) == (Unknown(False), APPEND)
    assert unknown.quality == event(row(ignorable=flag)).quality == ("malformed",)


def test_a_known_type_is_interpreted_whatever_it_says_of_itself() -> None:
    assert event(row(ignorable=True, data={"turn": 2})).body == TurnStart(2)
    assert event(row("todo/write", ignorable=True, surfaceOp="append")).marker == APPEND


def test_known_log_only_types_of_every_version() -> None:
    for type_ in ("mode/set", "job/settled", "automation/start"):
        assert event(row(type_)).body == LogOnly()


def test_a_fixture_row_takes_the_seq_it_is_given_and_time_0() -> None:
    line = b'{"type":"turn/start","data":{"turn":1}}'
    bare = Event(7, 0, "turn/start", TurnStart(1), digest=xxh3_64_intdigest(line))
    assert event(line, 7) == bare
    assert event(b'{"type":"turn/start","time":9}', 7).time == 9
    assert event(b'{"type":"turn/start","seq":2}', 7).seq == 2
    run = event(
        b'{"type":"text-chunks","data":{"turn":1,"step":1,"index":0,"dt":[4],"texts":["a","b"]}}', 7
    )
    assert (run.seq, run.time, run.count) == (7, 0, 2)
    assert isinstance(run.body, AssistantChunk)
    assert run.body.chunk == Run(0, "text", ("a", "b"), (0, 4))
    flat = event(b'{"type":"user/message","surfaceOp":"append","data":{"content":[]}}', 7)
    assert isinstance(flat.body, UserMessage)
    assert flat.body.id == "legacy:7"


def test_the_header() -> None:
    line = (
        b'{"type":"session","version":4,"id":"s-1","createdAt":17,"delegationDepth":2,'
        b'"cwd":"/w","parentSession":"p","origin":"subagent","seedLength":3,"ownerUserId":"u"}'
    )
    header = read_line(line + b" ")
    assert isinstance(header, Header)
    assert header == Header(
        "s-1", Raw(line), 4, 17, "/w", "p", "subagent", 2, 3, xxh3_64_intdigest(line + b" ")
    )
    nameless = read_line(b'{"type":"session","id":5,"version":"4"}')
    assert isinstance(nameless, Header)
    assert (nameless.session, nameless.version) == (None, None)


# --- opaque JSON ----------------------------------------------------------------------------------


@pytest.mark.parametrize("envelope", [{}, {"seq": 3.0}])
def test_opaque_json_is_the_inputs_own_bytes(envelope: dict[str, Any]) -> None:
    content = (
        b'[{"type":"x", "n":123456789012345678901234567890,"m":1e400,"k":1,"k":2.50,'
        b'"s":"\\u00e9\\/"}]'
    )
    head = json.dumps({"type": "user/message", "seq": 3} | envelope).encode()[:-1]
    line = head + b',"data":{"id":"a","role":"user","content": ' + content + b" }}"
    read = event(line)
    assert isinstance(read.body, UserMessage)
    assert read.body.content == Raw(content)
    assert read.body.message == Raw(b'{"id":"a","role":"user","content": ' + content + b" }")


def test_an_unpaired_half_stays_an_escape_in_opaque_json_and_is_replaced_in_a_string() -> None:
    data = b'{"id":"\\ud83d","role":"user","content":[{"type":"text","text":"\\udc00x"}]}'
    read = event(b'{"type":"user/message","seq":1,"surfaceOp":"append","data":' + data + b"}")
    assert isinstance(read.body, UserMessage)
    assert read.body.id == "\ufffd"
    assert read.body.message == Raw(data)


def test_a_half_in_streamed_text_waits_for_the_other() -> None:
    chunk = b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a\\ud83d"}}'
    read = event(b'{"type":"assistant/chunk","seq":1,"data":' + chunk + b"}")
    assert isinstance(read.body, AssistantChunk)
    assert read.body.chunk == TextDelta(0, "text", "a\ud83d")


# --- values of records ----------------------------------------------------------------------------


def test_a_value_is_a_line_or_an_avro_session_line() -> None:
    line = row(data={"turn": 1})
    assert read_value(line) == read_value(session_line(line)) == read_line(line)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "not-json"),
        (b"", "not-json"),
        (b"[1]", "not-avro"),
        (b"\xc3\x01", "not-avro"),
        (b"\xc3\x01" + b"\x07" * 12, "unknown-schema"),
        (b"\0\0\0\0\5abc", "unknown-schema"),
        (b"{", "not-json"),
    ],
)
def test_values_that_are_neither(value: bytes | None, reason: str) -> None:
    fault = read_value(value)
    assert isinstance(fault, Fault)
    assert fault.reason == reason


def test_a_session_line_holds_any_line() -> None:
    inner: Line = read_value(session_line(b"no json"))
    assert isinstance(inner, Fault)
    assert inner.reason == "not-json"
