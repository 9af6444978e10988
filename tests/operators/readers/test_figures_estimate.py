"""Prices and lengths as the reference counts them (readers.md §1, §4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from operators.readers import estimate, javascript
from operators.readers.request import read_header


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


TEXT = {"type": "text", "text": "abcde"}


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (TEXT, 2 + 4),
        ({"type": "reasoning", "text": "abcd"}, 1 + 4),
        ({"type": "text", "text": ""}, 4),
        ({"type": "text", "text": "\U0001f600" * 3}, 2 + 4),  # a supplementary character is two
        ({"type": "text", "text": "\ud83d"}, 1 + 4),
        ({"type": "text", "text": "漢字漢字漢"}, 2 + 4),
        ({"type": "tool-call", "id": "x" * 99, "name": "abcde", "arguments": "{}"}, 2 + 1 + 4),
        ({"type": "tool-call", "name": 5, "arguments": None}, 4),
        ({"type": "tool-result", "content": [TEXT, TEXT]}, 6 + 6 + 4),
        ({"type": "tool-result", "content": "no list"}, 4),
        ({"type": "image", "a": 1}, 6 + 4),  # {"type":"image","a":1} is 22 characters
        ({"type": "image", "a": 1, "offloaded": True}, 6 + 4),
        ({"type": "text", "text": 5}, 6 + 4),
        (None, 1 + 4),
        ("ab", 1 + 4),
    ],
)
def test_a_block(block: Any, tokens: int) -> None:
    assert estimate.content_price(raw([block])) == tokens
    assert estimate.content_price(raw([block, TEXT])) == tokens + 6
    assert estimate.block_price(raw(block)) == tokens


def test_rounding_is_by_block() -> None:
    assert estimate.content_price(raw([TEXT, TEXT])) == 12


@pytest.mark.parametrize("content", [b"null", b"5", b'"text"', b"{}", b""])
def test_what_is_no_list_costs_nothing(content: bytes) -> None:
    assert estimate.content_price(Raw(content)) == 0
    if content:
        assert estimate.system_price(Raw(content)) == 0


def test_a_system_message_is_priced_by_all_its_characters() -> None:
    assert estimate.system_price(raw([TEXT, TEXT])) == 3 + 4
    assert estimate.system_price(raw([{"type": "text", "text": ""}])) == 0
    assert estimate.system_price(raw([{"type": "text", "text": "\ud83d"}])) == 1 + 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (-12.5, "-12.5"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (float("inf"), "null"),
    ],
)
def test_numbers_are_written_as_javascript_writes_them(value: float, text: str) -> None:
    assert javascript.number(value) == text


@pytest.mark.parametrize(
    ("told", "length"),
    [
        (b' { "a" : [ 1.0 , 1e3, "\\u00e9" ] } ', len('{"a":[1,1000,"x"]}')),
        (b'"\\ud83d"', 8),  # an unpaired half is written as an escape
        (b'"\\ud83d\\ude00"', 4),
        (b'"\\u0001\\n\\"/"', 2 + 6 + 2 + 2 + 1),
        (b'{"a":1,"a":22}', 8),  # the last of a repeated key counts
        (b"[]", 2),
        (b"{}", 2),
        (b"[null,true,false,[],{}]", 23),
        (b"1e400", 4),
    ],
)
def test_json_lengths(told: bytes, length: int) -> None:
    assert javascript.json_units(Raw(told)) == length
    assert javascript.value_units(javascript.json_value(Raw(told))) == length


def test_json_too_deep_is_said() -> None:
    with pytest.raises(javascript.UnreadableError):
        javascript.json_value(Raw(b"[" * 100_000 + b"]" * 100_000))


def test_headers_are_equal_in_what_makes_a_request() -> None:
    base = {"config": {"provider": "p", "model": "m", "temperature": 1.0}}
    told = read_header(raw(base | {"system": "abcde", "tools": [{"name": "x"}]}))
    assert (told.system, told.tools) == (2 + 4, 4 + 4)  # [{"name":"x"}] is 14 characters
    same = {"config": {"temperature": 1, "model": "m", "provider": "p", "other": 5}}
    more = {"system": "abcde", "tools": [{"name": "x"}], "adapterDefaults": {}, "reason": "x"}
    assert read_header(raw(same | more)) == told
    empty = read_header(raw(base | {"system": "", "tools": []}))
    assert empty == read_header(raw(base))
    assert empty.tokens == 0
    warm = read_header(raw({"config": base["config"] | {"temperature": 0.5}}))
    assert warm.identity != empty.identity
    assert warm.prompt == empty.prompt  # a cache does not mind
    flags = {"adapterDefaults": {"maxTokens": True}}
    assert read_header(raw(base | flags)).identity != empty.identity


@pytest.mark.parametrize("told", [b"null", b"[]", b'"x"', b'{"config":5,"system":7,"tools":1}'])
def test_a_header_of_another_form_costs_its_text(told: bytes) -> None:
    assert read_header(Raw(told)).system == 0


def test_half_characters_in_a_header() -> None:
    told = read_header(raw({"system": "\ud83d", "tools": ["\ud83d"]}))
    assert told.system == 1 + 4
    assert told.identity != read_header(raw({"system": "\ud83e", "tools": ["\ud83d"]})).identity
