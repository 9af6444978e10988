"""The exact reader's parts: values that know their text, lenient types, canonical JSON."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from msgspec import UNSET, Raw, UnsetType

from schemas.identity import canonical_raw, canonical_value
from schemas.jsontree import JsonError, Number, parse
from schemas.shapes import EVENTS
from schemas.typed import BAD, MISSING, Piece, Safe, Seq, Wire, coerce
from tests.schemas.wire_json import ROWS, junk, lines

texts = junk.map(lambda v: json.dumps(v, separators=(" ,", ": ")))


def plain(value: Any) -> Any:
    """Values as ``json.loads`` makes them."""
    if isinstance(value, Number):
        return json.loads(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


# --- jsontree -------------------------------------------------------------------------------------


@given(texts)
def test_values_are_those_of_json(text: str) -> None:
    assert plain(parse(f" {text}\r\n").value) == json.loads(text)


@given(texts)
def test_every_part_knows_its_own_text(text: str) -> None:
    todo = [parse(f"\t{text} ")]
    assert todo[0].text == text
    while todo:
        node = todo.pop()
        assert plain(node.value) == json.loads(node.text)
        assert node.text == node.text.strip()
        if isinstance(node.value, dict):
            todo += [m for key in node.value if (m := node.member(key)) is not None]
        elif isinstance(node.value, list):
            todo += node.items()


def test_the_last_of_a_repeated_key_counts_in_value_and_text() -> None:
    node = parse('{"a":[1],"b":2, "a" : {"c" : 3} }')
    member = node.member("a")
    assert member is not None
    assert (plain(member.value), member.text) == ({"c": 3}, '{"c" : 3}')
    assert node.member("z") is None


@pytest.mark.parametrize(
    "text", ["", "[1,]", "{'a':1}", "01", "1 2", '"\t"', "Infinity", "[" * 600]
)
def test_what_is_no_json_says_where(text: str) -> None:
    with pytest.raises(JsonError, match=r"character \d|no JSON"):
        parse(text)


# --- typed ----------------------------------------------------------------------------------------


class Inner(Wire, tag_field="type", tag="inner"):
    n: Seq


class Other(Wire, tag_field="type", tag="other"):
    pass


class Sample(Wire):
    seq: Seq | UnsetType = UNSET
    safe: Safe | None = None
    text: str | None = None
    piece: Piece = ""
    flag: bool | None = None
    word: Literal["a", "b"] | UnsetType = UNSET
    raw: Raw = MISSING
    one: Inner | Other | None = None
    many: list[Inner | None] | None = None
    strict: list[Seq] | None = None


def sample(text: str) -> Sample:
    value: Sample = coerce(parse(text), Sample)
    return value


def test_numbers_are_read_by_value() -> None:
    assert sample('{"seq":18.0,"safe":-1.8e1}') == Sample(seq=18, safe=-18)
    assert sample('{"seq":-1,"safe":1e16}') == Sample()
    assert sample('{"seq":true,"safe":"1"}') == Sample()


def test_a_wrong_field_is_its_default_and_leaves_the_others() -> None:
    wrong = '{"text":1,"piece":null,"flag":"true","word":"c","one":{"type":"x"},"raw":[ 1 ]}'
    assert sample(wrong) == Sample(raw=Raw(b"[ 1 ]"))


def test_a_wrong_required_field_makes_its_struct_wrong() -> None:
    assert coerce(parse('{"type":"inner"}'), Inner) is BAD
    assert coerce(parse('{"type":"inner","n":-1}'), Inner) is BAD
    assert coerce(parse("[]"), Inner) is BAD


def test_an_optional_element_may_be_wrong_any_other_spoils_the_list() -> None:
    assert sample('{"many":[{"type":"inner","n":1},{"n":"x"},7]}').many == [Inner(1), None, None]
    assert sample('{"strict":[1,2.0]}').strict == [1, 2]
    assert sample('{"strict":[1,"x"]}').strict is None


def test_halves_are_kept_in_streamed_text_alone() -> None:
    assert sample('{"text":"a\\ud83d","piece":"a\\ud83d"}') == Sample(
        text="a\ufffd", piece="a\ud83d"
    )


@given(lines())
def test_lenient_is_strict_where_strict_says_anything(line: bytes) -> None:
    try:
        node = parse(line.decode())
    except (UnicodeDecodeError, JsonError):
        return
    for type_ in ROWS:
        try:
            strict = msgspec.json.decode(line, type=type_)
        except msgspec.DecodeError:
            continue
        assert coerce(node, type_) == strict


def test_every_row_type_can_be_read_from_an_empty_object() -> None:
    for type_, kind in EVENTS.items():
        row = coerce(parse(json.dumps({"type": type_})), kind)
        row.seq = 1
        assert row.read()[0]


# --- canonical JSON -------------------------------------------------------------------------------


@given(junk)
def test_both_ways_to_canonical_json_agree(value: Any) -> None:
    text = json.dumps(value)
    canonical = canonical_raw(Raw(text.encode()))
    assert canonical == canonical_value(parse(text).value)
    shuffled = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1)
    with contextlib.suppress(UnicodeEncodeError):  # a half can only be escaped
        assert canonical == canonical_raw(Raw(shuffled.encode()))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("1", "1.0", True),
        ("100", "1e2", True),
        ("-0", "0", True),
        ("9007199254740993", "9007199254740992", True),
        ("1e400", "2e400", True),
        ("1e400", "-1e400", False),
        ("1e400", "null", False),
        ("1", "true", False),
        ("0", "false", False),
        ("null", "false", False),
        ('{"a":1,"b":2}', '{ "b":2.0, "a":1 }', True),
        ('{"a":null}', "{}", False),
        ("[1,2]", "[2,1]", False),
        ("[]", "{}", False),
        ('"\\u00e9"', '"é"', True),
        ('"é"', '"e\\u0301"', False),
        ('"\\ud83d"', '"\\ud83e"', False),
        ('"\\ud83d"', '"\\ufffd"', False),
        ('{"a":9,"a":1}', '{"a":1}', True),
    ],
)
def test_equality_is_that_of_json_values(left: str, right: str, same: bool) -> None:
    pair = [canonical_raw(Raw(text.encode())) for text in (left, right)]
    assert (pair[0] == pair[1]) is same
    assert pair == [canonical_value(parse(text).value) for text in (left, right)]


def test_a_deep_value_is_written_without_recursion() -> None:
    deep = "[" * 500 + "]" * 500
    assert canonical_value(parse(deep).value) == deep.encode()
