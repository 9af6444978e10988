"""Structs with opaque JSON there and back, to the byte."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw, Struct

from operators.changes import Attempt
from operators.events import Dispatch, Event
from operators.nested import Waiting
from operators.retries import Chain
from operators.tool import Tool
from schemas.opaque import reader_of, writer_of
from tests.operators.build import lines_of
from tests.operators.records import (
    nested,
)

HARD = [
    b"null",
    b'{"a":1e400,"a":2}',
    b'"\\ud83d"',
    b'["\\ud83d",{"b" : 18.0}]',
    '"é\u2028🙂"'.encode(),
    b"123456789012345678901234567890",
    b" [ ] ",
]


class Inner(Struct, frozen=True):
    raw: Raw
    n: int = 0


class Named(Struct, frozen=True):
    """A record that is an object in JSON, with every place a Raw can have."""

    raw: Raw
    maybe: Raw | None
    inner: Inner
    inners: tuple[Inner, ...]
    listed: list[Inner]
    plain: str = ""


def there_and_back(row: Any) -> Any:
    kind = type(row)
    (back,) = reader_of(kind)(writer_of(kind)([row]))
    return back


@pytest.mark.parametrize("json", HARD)
def test_every_place_keeps_the_bytes(json: bytes) -> None:
    raw = Raw(json)
    row = Named(raw, raw, Inner(raw, 1), (Inner(raw, 2), Inner(raw)), [Inner(raw, 3)], "p")
    back = there_and_back(row)
    assert back == row
    assert bytes(back.maybe) == json
    assert isinstance(back.inners, tuple)


def test_null_is_not_absent() -> None:
    inner = Inner(Raw(b"null"))
    assert there_and_back(Named(Raw(b"null"), Raw(b"null"), inner, (), [])).maybe == Raw(b"null")
    assert there_and_back(Named(Raw(b"null"), None, inner, (), [])).maybe is None


@pytest.mark.parametrize("json", HARD)
def test_the_records_of_a_session(json: bytes) -> None:
    raw = Raw(json)
    attempts = (Attempt(1, 2, 3, None, 5, raw), Attempt(2, None, None, None, None))
    (event,) = lines_of(nested(settled=True))
    assert isinstance(event, Event)
    assert isinstance(event.body, Dispatch)
    for row in (
        Tool(1, 1, 1, "a", content=raw, error=raw, meta=None),
        Chain(1, 1, 1, 5, "r", None, "normal", "started", attempts),
        Waiting(7, event.body),
    ):
        assert there_and_back(row) == row


def test_a_struct_without_opaque_parts_is_written_as_it_is() -> None:
    class Plain(Struct, frozen=True, array_like=True):
        a: int
        b: str

    assert writer_of(Plain)([Plain(1, "x")]) == b'[[1,"x"]]'
    assert reader_of(Plain)(b'[[1,"x"],[2,"y"]]') == [Plain(1, "x"), Plain(2, "y")]


def test_what_is_no_such_list_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        reader_of(Tool)(b'[["not a key"]]')
