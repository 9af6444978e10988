"""Decoding structs with ``Raw | None`` fields, which msgspec writes but cannot read.

Each such struct gets a twin whose fields are plain ``Raw``; ``null`` is made None again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Raw

T = TypeVar("T")
_NULL = b"null"


def reader_of(record: type[T]) -> Callable[[bytes], list[T]]:
    """A function that reads a JSON list of such records."""
    twin, restore = _twin(record)
    decode = msgspec.json.Decoder(list[twin]).decode  # type: ignore[valid-type]

    def read(value: bytes) -> list[T]:
        return [restore(item) for item in decode(value)]

    return read


def _twin(record: type[T]) -> tuple[type, Callable[[Any], T]]:
    """A type msgspec can decode in place of ``record``, and the way back from it."""
    hints = get_type_hints(record)
    config = record.__struct_config__  # type: ignore[attr-defined]
    fields: list[tuple[str, Any]] = []
    back: dict[int, Callable[[Any], Any]] = {}
    for at, name in enumerate(record.__struct_fields__):  # type: ignore[attr-defined]
        kind = hints[name]
        if set(get_args(kind)) == {Raw, type(None)}:
            kind, back[at] = Raw, _none_if_null
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            kind, back[at] = _twin(kind)
        fields.append((name, kind))
    if not back:
        return record, _same
    twin = msgspec.defstruct(f"{record.__name__}Twin", fields, array_like=config.array_like)

    def restore(read: Any) -> T:
        values = list(msgspec.structs.astuple(read))
        for at, mend in back.items():
            values[at] = mend(values[at])
        return record(*values)

    return twin, restore


def _none_if_null(raw: Raw) -> Raw | None:
    return None if bytes(raw) == _NULL else raw


def _same(value: Any) -> Any:
    return value
