"""What the model sees: now, at a seq, between two; what each seq is."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from . import surface_at
from .operations import JSON, Answer, Operation
from .parameters import Id, Seq
from .problems import bad_request
from .service import Asking
from .sessions import as_of, next_seq
from .surface_at import MOST_MARKS, Difference, SurfaceAt


class SurfaceParameters(Struct, frozen=True):
    id: Id
    at: Annotated[Seq, Meta(description="as it was after this seq; now without")] | None = None
    messages: Annotated[bool, Meta(description="with the messages that the nodes project to")] = (
        True
    )


def surface(asking: Asking, asked: SurfaceParameters) -> Answer:
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        generation, nodes = surface_at.surface_at(
            connection, held.session, asked.at, messages=asked.messages
        )
    found = SurfaceAt(held.session, held.epoch, as_of(held), asked.at, generation, nodes)
    return Answer(msgspec.json.encode(found), history=True)


class DiffParameters(Struct, frozen=True):
    id: Id
    from_: Annotated[Seq, Meta(description="the earlier seq")] = field(name="from")
    to: Annotated[Seq, Meta(description="the later seq")]


def diff(asking: Asking, asked: DiffParameters) -> Answer:
    if asked.from_ > asked.to:
        raise bad_request(f"from {asked.from_} is after to {asked.to}")
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        found = surface_at.difference(connection, held.session, asked.from_, asked.to)
    difference = Difference(held.session, held.epoch, asked.from_, asked.to, *found)
    return Answer(msgspec.json.encode(difference), history=True)


class MarksParameters(Struct, frozen=True):
    id: Id
    first: Annotated[Seq, Meta(description="the first seq")] = 0
    last: Annotated[Seq, Meta(description="the last seq, inclusive")] | None = None
    at: Annotated[Seq, Meta(description="as it was after this seq; now without")] | None = None


class Marks(Struct, frozen=True):
    """``marks``: one character per seq from ``first`` on: C a node of the surface, S it was one,
    ``-`` log-only, faulted, unseen or later. ``next``: the seq after the last, null at the end."""

    session: str
    epoch: int
    first: int
    next: int | None
    at: int | None
    marks: str


def classification(asking: Asking, asked: MarksParameters) -> Answer:
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        end = next_seq(held)
        wanted = end if asked.last is None else min(asked.last + 1, end)
        high = min(wanted, asked.first + MOST_MARKS)
        marks = surface_at.marks(connection, held.session, (asked.first, high), asked.at)
    more = high if high < wanted else None
    found = Marks(held.session, held.epoch, asked.first, more, asked.at, marks)
    return Answer(msgspec.json.encode(found), history=True)


OPERATIONS = (
    Operation(
        "/v1/sessions/{id}/surface",
        "surface",
        "What the model sees now, or saw at a seq: nodes in order, messages, what they shadowed",
        SurfaceParameters,
        {JSON: SurfaceAt},
        surface,
        history=True,
    ),
    Operation(
        "/v1/sessions/{id}/surface/diff",
        "surface_diff",
        "Nodes that came and went between two seqs",
        DiffParameters,
        {JSON: Difference},
        diff,
        history=True,
    ),
    Operation(
        "/v1/sessions/{id}/classification",
        "classification",
        "Which seqs are current, shadowed or log-only",
        MarksParameters,
        {JSON: Marks},
        classification,
        history=True,
    ),
)
