"""What can be asked over HTTP, as data: each operation's parameters and answer are structs, which
read the request and describe it (`openapi.py`) at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, get_origin

import msgspec
from msgspec import Struct
from starlette.datastructures import QueryParams
from xxhash import xxh3_128_hexdigest

from .problems import bad_request
from .security import Principal

JSON = "application/json"


class Answer(Struct, frozen=True):
    """``body`` whole, or ``stream`` piece by piece. ``etag``: it is history, which a client may
    keep and ask about."""

    body: bytes = b""
    media: str = JSON
    stream: Iterator[bytes] | None = None
    headers: Mapping[str, str] = {}
    history: bool = False

    @property
    def etag(self) -> str:
        return f'"{xxh3_128_hexdigest(self.body)}"'


class Ask(Protocol):
    """Who asks, beside the parameters."""

    @property
    def principal(self) -> Principal: ...


Handler: TypeAlias = Callable[[Any, Any], Answer]
"""Of the asking and the parameters' struct; raises `Problem`."""


class Operation(Struct, frozen=True):
    """``path`` with ``{names}``, which are parameters like those of the query. ``answers``: what
    the answer is, by its media type (a struct, or None for what is no JSON)."""

    path: str
    name: str
    about: str
    parameters: type[Struct]
    answers: Mapping[str, Any]
    handle: Handler
    history: bool = False

    @property
    def in_path(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)


def read_parameters(operation: Operation, in_path: Mapping[str, str], query: QueryParams) -> Any:
    """The parameters as their struct. `Problem` 400 that names what is wrong."""
    fields = {each.encode_name: each for each in msgspec.structs.fields(operation.parameters)}
    known = sorted(set(fields) - set(operation.in_path))
    values: dict[str, Any] = dict(in_path)
    for name in dict.fromkeys(query.keys()):
        if name not in known:
            raise bad_request(f"no parameter {name!r} here; known: {', '.join(known) or 'none'}")
        given = query.getlist(name)
        many = get_origin(fields[name].type) is tuple or "tuple[" in str(fields[name].type)
        if not many and len(given) > 1:
            raise bad_request(f"{name} is given {len(given)} times")
        values[name] = given if many else given[0]
    try:
        return msgspec.convert(values, operation.parameters, strict=False)
    except msgspec.ValidationError as error:
        raise bad_request(_said(str(error))) from None


def _said(text: str) -> str:
    """``Expected `int` >= 1 - at `$.limit``` as ``limit: expected …``."""
    what, _, where = text.partition(" - at `$.")
    return f"{where.rstrip('`')}: {what[0].lower()}{what[1:]}" if where else what
