"""JSON texts as a wire type would have them, now and then not quite: what both readers must agree
on."""

from __future__ import annotations

import json
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from msgspec import Raw, Struct, UnsetType

from operators.events import MAX_SEQ
from schemas import blocks, shapes, shapes_messages, shapes_results, shapes_turns, streams
from schemas import sources as message_sources

# What stands in the opaque fields of a wire type, by their names.
_INSIDE: dict[str, list[Any]] = {
    "content": [list[blocks.BlockWire], list[shapes_results.ResultBlock]],
    "message": [
        shapes_messages.AssistantWire,
        shapes_results.ResultMessage,
        shapes_results.OpenMessage,
    ],
    "source": [message_sources.SourceWire, shapes_results.CallSource],
    "provenance": [shapes_messages.RouteWire],
    "usage": [blocks.UsageWire],
    "stream": [streams.Records],
    "reason": [shapes_turns.ReasonWire],
    "block": [blocks.BlockWire],
    "dt": [list[int]],
    "texts": [list[str]],
    "args": [list[str]],
}
_DATA = [shapes_messages.UserData, shapes_results.ResultData]
_WORDS = (
    "",
    " ",
    "\u00a0\ufeff",
    "\u0085",
    "a",
    "Ω 👩‍💻",
    '"\\/\b\n',
    "user",
    "tool",
    "text",
    "reasoning",
    "tool-call",
    "tool-result",
    "plugin",
    "compact",
    "compact-checkpoint",
    "notice",
    "error",
    "success",
    "next-step",
    "canceled",
    "replace",
    "append",
)
_HALVES = ("\ud83d", "x\udc00", "\ud83d\ude80\ud83d")
words = st.integers(1, 60).flatmap(lambda n: st.sampled_from(_HALVES if n == 60 else _WORDS))
numbers = st.one_of(
    st.integers(-3, 40),
    st.sampled_from((0.5, 18.0, -0.0, 1e22, MAX_SEQ, MAX_SEQ + 1, 2**70, -(2**64), 1.5e-7)),
)
junk = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


def value_of(type_: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Mostly values of ``type_``; ``name`` is that of the field they stand in."""
    proper = _proper(type_, name)
    return st.integers(1, 60).flatmap(lambda n: junk if n == 60 else proper)


def _proper(type_: Any, name: str) -> st.SearchStrategy[Any]:
    origin = get_origin(type_)
    if origin is Annotated:
        base = get_args(type_)[0]
        return st.integers(0, 9) if base is int else words
    if origin in (Union, types.UnionType):
        members = [m for m in get_args(type_) if m is not UnsetType]
        return st.one_of(*(_proper(m, name) for m in members))
    if origin is list:
        return st.lists(value_of(get_args(type_)[0], name), max_size=4)
    if origin is Literal:
        return st.sampled_from(get_args(type_))
    if type_ is Raw:
        inside = _DATA if name == "data" else _INSIDE.get(name)
        return st.one_of(*(_proper(t, name) for t in inside)) if inside else junk
    if isinstance(type_, type) and issubclass(type_, Struct):
        return _struct(type_)
    plain = {str: words, bool: st.booleans(), int: st.integers(0, 9), type(None): st.none()}
    return plain[type_]


@st.composite
def _struct(draw: st.DrawFn, type_: type[Struct]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    config = type_.__struct_config__
    if config.tag_field is not None and draw(st.integers(0, 30)):
        found[config.tag_field] = config.tag
    for field in msgspec.structs.fields(type_):
        if field.required or draw(st.integers(0, 2)):
            found[field.encode_name] = draw(value_of(field.type, field.name))
    if not draw(st.integers(0, 25)):
        found[draw(words)] = draw(junk)
    return found


ROWS: tuple[type[Struct], ...] = (
    shapes.HeaderRow,
    *shapes.PACKED.values(),
    *shapes.EVENTS.values(),
)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """One row of any type, as plain values."""
    row = draw(_struct(draw(st.sampled_from(ROWS))))
    if not draw(st.integers(0, 15)):
        row["type"] = draw(words | st.just("plugin:a/b"))
    if draw(st.integers(0, 9)):
        row["seq0" if row.get("type") in shapes.PACKED else "seq"] = draw(st.integers(0, 99))
    return row


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Such a row as a line, in one of the ways there are to write it."""
    row = draw(rows())
    keys = draw(st.permutations(list(row))) if draw(st.booleans()) else list(row)
    row = {key: row[key] for key in keys}
    compact = (",", ":") if draw(st.booleans()) else (" , ", " : ")
    text = json.dumps(row, ensure_ascii=draw(st.booleans()), separators=compact)
    if not draw(st.integers(0, 9)):  # a repeated key
        again = json.dumps(draw(st.sampled_from(keys or ["seq"])))
        text = "{" + again + ":" + json.dumps(draw(junk)) + "," + text[1:] if keys else text
    # A half that json.dumps did not escape is not UTF-8: written as JavaScript's writers do.
    line = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)):
        line = "".join(
            f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text
        ).encode()
    return line + draw(st.sampled_from((b"", b" ", b"\r")))
