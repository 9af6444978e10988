"""Quoting sessions (readers.md §8): what the model of one sees now, within a number of bytes, and
the sessions that a message mentions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from sqlalchemy import Connection

from operators.readers.references import (
    BUDGET,
    AddressError,
    Stats,
    Subject,
    address,
    mention,
    mentions,
    reference,
)

from . import surface_at
from .jsonout import safe
from .operations import JSON, Answer, Operation
from .parameters import Id
from .problems import Problem, bad_request
from .service import Asking
from .sessions import Held, next_seq

Most = Annotated[
    int, Meta(ge=0, le=4 * 1024 * 1024, description="bytes that the quotation may take")
]
Label = Annotated[str, Meta(max_length=4_096, description="what it is called (its title, or id)")]


class Quoted(Struct, frozen=True):
    """``data``: the quotation as it is counted, ``<`` escaped; ``stats``: what it leaves out."""

    bytes: int
    data: Raw
    stats: Stats


class Quotation(Struct, frozen=True):
    """``reference``: null if not even the newest message and the checkpoints fit. ``mention``: what
    a message that quotes the session says."""

    session: str
    epoch: int
    address: str
    mention: str
    reference: Quoted | None


class ReferenceParameters(Struct, frozen=True):
    id: Id
    max_bytes: Most = BUDGET
    label: Label | None = None


def one(asking: Asking, asked: ReferenceParameters) -> Answer:
    with asking.read() as connection:
        held = asking.session(connection, asked.id)
        found = _quotation(connection, held, asked.label, asked.max_bytes)
    return Answer(safe(msgspec.json.encode(found)), history=True)


class MentionParameters(Struct, frozen=True):
    text: Annotated[
        str, Meta(max_length=20_000, description="a message: …@[label](dsh-session:…)…")
    ]
    own: (
        Annotated[Id, Meta(description="the session it is sent to, which is not quoted")] | None
    ) = None
    max_bytes: Most = BUDGET


class Mentioned(Struct, frozen=True):
    """The sessions that a message mentions, the first three; ``missing``: those that are not here,
    or not to be seen."""

    quotations: list[Quotation]
    missing: list[str]


def mentioned(asking: Asking, asked: MentionParameters) -> Answer:
    try:
        wanted = mentions(asked.text, asked.own)
    except AddressError as error:
        raise bad_request(f"text: {error}") from None
    found, missing = [], []
    with asking.read() as connection:
        for session, label in wanted:
            try:
                held = asking.session(connection, session)
            except Problem:
                missing.append(session)
                continue
            found.append(_quotation(connection, held, label or None, asked.max_bytes))
    return Answer(safe(msgspec.json.encode(Mentioned(found, missing))))


class _Told(Struct):
    title: str | None = None
    cwd: str | None = None


def _quotation(connection: Connection, held: Held, label: str | None, most: int) -> Quotation:
    told, after = msgspec.json.decode(held.overview or b"{}", type=_Told), next_seq(held)
    label = label or told.title or held.session
    subject = Subject(held.session, label, told.cwd, after - 1 if after else None)
    nodes = surface_at.messages(connection, held.session)
    made = reference(((type_, message) for _, type_, message in nodes), subject, most)
    quoted = None if made is None else Quoted(made.bytes, Raw(made.data.encode()), made.stats)
    session = held.session
    return Quotation(session, held.epoch, address(session), mention(session, label), quoted)


OPERATIONS = (
    Operation(
        "/v1/sessions/{id}/reference",
        "reference",
        "A session quoted for another one, within a number of bytes",
        ReferenceParameters,
        {JSON: Quotation},
        one,
        history=True,
    ),
    Operation(
        "/v1/references",
        "references",
        "The sessions that a message mentions, each quoted",
        MentionParameters,
        {JSON: Mentioned},
        mentioned,
    ),
)
