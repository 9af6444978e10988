"""Saving structs that hold opaque JSON: each ``Raw`` becomes a JSON string of its text.

Opaque JSON may hold what a strict decoder refuses even where it only skips (escapes of half
characters), and ``Raw | None`` cannot be decoded at all. As a string it survives to the byte. Each
such struct gets a twin with ``str`` fields, and a way there and back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw

T = TypeVar("T")
Turn = Callable[[Any], Any]

_encode = msgspec.json.Encoder().encode


def writer_of(record: type[T]) -> Callable[[list[T]], bytes]:
    """A function that writes a list of such records."""
    _, there, _ = _twin(record)
    return lambda rows: _encode([there(row) for row in rows])


def reader_of(record: type[T]) -> Callable[[bytes], list[T]]:
    """A function that reads a list of such records."""
    twin, _, back = _twin(record)
    decode = msgspec.json.Decoder(list[twin]).decode  # type: ignore[valid-type]
    return lambda value: [back(row) for row in decode(value)]


def _twin(record: type) -> tuple[type, Turn, Turn]:
    """A struct that JSON can hold, the way to it and the way back."""
    hints = get_type_hints(record)
    config = record.__struct_config__  # type: ignore[attr-defined]
    fields: list[tuple[str, Any]] = []
    turns: list[tuple[int, Turn, Turn]] = []
    for at, name in enumerate(record.__struct_fields__):  # type: ignore[attr-defined]
        kind, there, back = _field(hints[name])
        fields.append((name, kind))
        if there is not None and back is not None:
            turns.append((at, there, back))
    if not turns:
        return record, _same, _same
    twin = msgspec.defstruct(f"{record.__name__}Twin", fields, array_like=config.array_like)

    def to_twin(row: Any) -> Any:
        values = list(msgspec.structs.astuple(row))
        for at, there, _ in turns:
            values[at] = there(values[at])
        return twin(*values)

    def from_twin(read: Any) -> Any:
        values = list(msgspec.structs.astuple(read))
        for at, _, back in turns:
            values[at] = back(values[at])
        return record(*values)

    return twin, to_twin, from_twin


def _field(kind: Any) -> tuple[Any, Turn | None, Turn | None]:
    """The saved type of a field, and the ways there and back where it is another."""
    args = get_args(kind)
    if kind is Raw:
        return str, text_of, _raw
    if set(args) == {Raw, type(None)}:
        return str | None, text_of, _raw
    inner = args[0] if get_origin(kind) in (list, tuple) and args else kind
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        twin, there, back = _twin(inner)
        if there is _same:
            return kind, None, None
        if inner is kind:
            return twin, there, back
        made = get_origin(kind)
        return (
            list[twin],  # type: ignore[valid-type]
            lambda rows: [there(row) for row in rows],
            lambda rows: made(back(row) for row in rows),
        )
    return kind, None, None


def text_of(raw: Raw | None) -> str | None:
    """What stands for opaque JSON in a saved struct."""
    return None if raw is None else bytes(raw).decode()


def _raw(text: str | None) -> Raw | None:
    return None if text is None else Raw(text.encode())


def _same(value: Any) -> Any:
    return value
