"""Input records as typed values: a strict decoder, a lenient reading of the same type behind it.

The wire types are private ``msgspec`` structs of what a log writes. Where msgspec accepts a text,
:func:`coerce` makes the same value of the exact reader's tree; where it does not, ``coerce`` gives
every field that is not what it should be its default; a wrong field makes its struct wrong
(:data:`BAD`) only where it is required or the struct is closed. Numbers are read by value:
``18.0`` is 18.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)

import msgspec
from msgspec import NODEFAULT, DecodeError, Meta, Raw, Struct, UnsetType

from operators.events import MAX_SEQ, NULL

from .jsontree import Node, Number, parse, whole

Seq: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SEQ)]
Safe: TypeAlias = Annotated[int, Meta(ge=-MAX_SEQ, le=MAX_SEQ)]
#: A piece of streamed text: an unpaired surrogate half is kept, its other half may come next.
Piece: TypeAlias = Annotated[str, Meta(extra={"halves": True})]


#: A `Raw` field that the text does not have. (`Raw | None` does not work: msgspec then takes null
#: alone.)
MISSING: Final = Raw(b"")


def given(raw: Raw) -> Raw | None:
    """``raw`` unless it is missing or ``null``."""
    return raw if (size := len(raw)) > 4 or (size and raw != NULL) else None


class Wire(Struct, gc=False):
    """Base of the wire structs. They live for one line, hold no cycles, and are never published."""


class _Bad:
    """The value is not what its type says."""


BAD: Final = _Bad()
_Reader: TypeAlias = Callable[[Node], Any]


def typed(type_: Any) -> Callable[[Raw], Any]:
    """A reader of one type from opaque JSON that is a part of an accepted line.

    It gives None when even the lenient reading finds no such value, or the text is empty.
    """
    decode = msgspec.json.Decoder(type_).decode

    def read(raw: Raw) -> Any:
        try:
            return decode(raw)
        except (DecodeError, RecursionError):
            return lenient(parse(str(raw, "utf-8")), type_) if len(raw) else None

    return read


def lenient(node: Node, type_: Any) -> Any:
    """``node`` as ``type_``, or None."""
    value = coerce(node, type_)
    return None if value is BAD else value


def coerce(node: Node, type_: Any) -> Any:
    """``node`` as ``type_``, or :data:`BAD`."""
    return _reader(type_)(node)


def integer(value: Any) -> int | None:
    """A number as an integer by value, None when it is none or beyond 2**53 - 1 either way."""
    if type(value) is not Number:
        return None
    double = float(value)
    return int(double) if double.is_integer() and abs(double) <= MAX_SEQ else None


@cache
def _reader(type_: Any) -> _Reader:
    """How to read ``type_``; one closure per type, made once."""
    origin = get_origin(type_)
    if origin is Annotated:
        base, meta = get_args(type_)
        return _bounded(meta.ge) if base is int else _piece
    if origin in (Union, types.UnionType):
        return _union(get_args(type_))
    if origin is list:
        return _list(get_args(type_)[0])
    if origin is Literal:
        return _literal(get_args(type_))
    if isinstance(type_, type) and issubclass(type_, Struct):
        return _struct(type_)
    return _SCALARS[type_]


def _raw(node: Node) -> Raw:
    return Raw(node.text.encode())


def _string(node: Node) -> Any:
    return whole(node.value) if type(node.value) is str else BAD


def _piece(node: Node) -> Any:
    return node.value if type(node.value) is str else BAD


def _bool(node: Node) -> Any:
    return node.value if type(node.value) is bool else BAD


def _float(node: Node) -> Any:
    return float(node.value) if type(node.value) is Number else BAD


def _null(node: Node) -> Any:
    return None if node.value is None else BAD


def _never(_: Node) -> Any:
    return BAD


_SCALARS: Final[dict[Any, _Reader]] = {
    Raw: _raw,
    str: _string,
    bool: _bool,
    float: _float,
    type(None): _null,
    UnsetType: _never,
}


def _bounded(lowest: int) -> _Reader:
    def read(node: Node) -> Any:
        value = integer(node.value)
        return BAD if value is None or value < lowest else value

    return read


def _literal(values: tuple[Any, ...]) -> _Reader:
    def read(node: Node) -> Any:
        value = _string(node)
        return value if value in values else BAD

    return read


def _list(item: Any) -> _Reader:
    read_item = _reader(item)
    wrong = None if type(None) in get_args(item) else BAD  # an optional element may be wrong

    def read(node: Node) -> Any:
        if type(node.value) is not list:
            return BAD
        values = [read_item(child) for child in node.items()]
        values = [wrong if value is BAD else value for value in values]
        return BAD if any(value is BAD for value in values) else values

    return read


def _union(members: tuple[Any, ...]) -> _Reader:
    tagged = {
        str(m.__struct_config__.tag): _reader(m)
        for m in members
        if isinstance(m, type) and issubclass(m, Struct) and m.__struct_config__.tag is not None
    }
    plain = [_reader(m) for m in members if not _is_tagged(m)]

    def read(node: Node) -> Any:
        if tagged and type(node.value) is dict:
            tag = node.value.get("type")
            known = tagged.get(tag) if type(tag) is str else None
            return BAD if known is None else known(node)
        for reader in plain:
            value = reader(node)
            if value is not BAD:
                return value
        return BAD

    return read


def _is_tagged(type_: Any) -> bool:
    return (
        isinstance(type_, type)
        and issubclass(type_, Struct)
        and type_.__struct_config__.tag is not None
    )


def _struct(type_: type[Struct]) -> _Reader:
    fields = [
        (f.encode_name, f.name, _reader(f.type), f.default) for f in msgspec.structs.fields(type_)
    ]
    names = {name for name, *_ in fields}
    if type_.__struct_config__.tag_field is not None:
        names.add(type_.__struct_config__.tag_field)
    closed = type_.__struct_config__.forbid_unknown_fields

    def read(node: Node) -> Any:
        if type(node.value) is not dict or (closed and not node.value.keys() <= names):
            return BAD
        values = {}
        for wire, name, reader, default in fields:
            child = node.member(wire)
            value = BAD if child is None else reader(child)
            if value is BAD:
                if default is NODEFAULT or (closed and child is not None):
                    return BAD
                value = default
            values[name] = value
        return type_(**values)

    return read
