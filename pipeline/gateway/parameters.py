"""Types that several operations' parameters share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeAlias, TypeVar

from msgspec import Meta, Struct

from operators.history import MAX_BYTES, MAX_MESSAGES
from operators.readers.filters import FilterError
from pipeline.readers.parameters import Parameter
from pipeline.readers.query import Given

from .problems import bad_request

T = TypeVar("T")

MAX_SEQ = 2**53 - 1

Id: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1, max_length=8_192, description="a session's id, or its address (dsh-session:…)"
    ),
]
Seq: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SEQ)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=500, description="of one page")]
After: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=20_000, description="`next` of the page before")
]
Messages: TypeAlias = Annotated[
    int,
    Meta(
        ge=1,
        le=1_000,
        description=f"append-origin user and assistant messages of a page ({MAX_MESSAGES})",
    ),
]
Bytes: TypeAlias = Annotated[
    int, Meta(ge=1, le=16 * 1024 * 1024, description=f"JSON of a page's rows ({MAX_BYTES})")
]


def filters(parameters: Iterable[Parameter]) -> list[tuple[str, Any, Any]]:
    """Fields of a struct: the parameters that the command line has as options of the same names."""
    return [
        (each.name, Annotated[tuple[str, ...], Meta(description=each.about)] | None, None)
        for each in parameters
    ]


def given(asked: Struct, parameters: Iterable[Parameter]) -> Given:
    """What was asked of `filters`; None: not given."""
    return {each.name: getattr(asked, each.name) for each in parameters}


def checked(ask: Callable[[], T]) -> T:
    """What is wrong with a filter is a bad request."""
    try:
        return ask()
    except FilterError as error:
        raise bad_request(str(error)) from None
