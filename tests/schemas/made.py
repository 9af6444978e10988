"""Arbitrary changes of every kind, and what a generic Avro writer is given for them."""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec import Raw, Struct

from operators import changes

INT_FIELDS = {"epoch", "position", "generation", "anchor_rank", "block", "result_rank", "images"}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WILD_TEXT = st.text(st.characters() | st.sampled_from("\ud800\udc00\udfff"), max_size=12)
NUMBERS = (
    st.integers(-2, 300) | st.integers(-(2**62), 2**62) | st.sampled_from([2**63 - 1, -(2**63)])
)
SHORT_NUMBERS = st.integers(-2, 300) | st.sampled_from([2**31 - 1, -(2**31)])
OPAQUE = st.sampled_from(
    [b"null", b"[]", b'{"a":1e400,"a":2}', b'"\\ud800"', '["é\u2028\U0001f600"]'.encode(), b"18.0"]
).map(Raw)

ROW_DATA = get_args(changes.RowData)
KINDS = (changes.SurfaceChange, changes.TranscriptRow, changes.PartialText, changes.SessionOverview)


@cache  # a struct may hold itself: one strategy each
def of(kind: type[Struct], text: st.SearchStrategy[str] = TEXT) -> st.SearchStrategy[Any]:
    """Structs of this class, every field drawn, nested ones too."""
    hints = get_type_hints(kind)
    fields = {name: _of(hints[name], name, text) for name in kind.__struct_fields__}
    if "session" in fields:
        fields["session"] = text
    return st.builds(kind, **fields)


def every_change(text: st.SearchStrategy[str] = TEXT) -> st.SearchStrategy[Any]:
    return st.one_of([of(kind, text) for kind in KINDS])


def _of(hint: Any, name: str, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    if hint is str:
        return text
    if hint is bool:
        return st.booleans()
    if hint is int:
        return SHORT_NUMBERS if name in INT_FIELDS else NUMBERS
    if hint is Raw:
        return OPAQUE
    if hint is NoneType:
        return st.none()
    if hint == dict[str, int]:
        return st.dictionaries(text, NUMBERS, max_size=3)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        members = st.deferred(lambda: _of(item, name, text))
        return st.just(()) | st.lists(members, max_size=2).map(tuple)
    if get_origin(hint) is UnionType or not isinstance(hint, type):
        return st.one_of([_of(arm, name, text) for arm in get_args(hint)])
    return of(hint, text)


def plain(value: Any, *, union: bool = False) -> Any:
    """What fastavro's own writer is given: dicts, JSON as text, row data named for its union."""
    if isinstance(value, Struct):
        fields = {
            name: plain(getattr(value, name), union=name == "data")
            for name in value.__struct_fields__
        }
        return (f"foldstream.{type(value).__name__}", fields) if union else fields
    if isinstance(value, Raw):
        return bytes(value).decode()
    if isinstance(value, tuple):
        return [plain(member) for member in value]
    return value
