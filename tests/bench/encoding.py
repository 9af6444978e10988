"""Avro out: our compiled writers against fastavro, and fastavro's reading of the same values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

from fastavro import schemaless_writer
from msgspec import Raw, Struct, structs

from operators import changes as c
from operators.changes import Change
from schemas.catalog import load
from schemas.codec import decode, decode_change
from schemas.outbound import encode, subject_of

from . import corpus
from .measure import Figure, Options, figures, interleaved


def run(options: Options) -> Iterable[Figure]:
    made = corpus.changes(corpus.mixed(options))
    for name, kind in (
        ("row", c.TranscriptRow),
        ("surface", c.SurfaceChange),
        ("partial", c.PartialText),
        ("overview", c.SessionOverview),
    ):
        some = [change for change in made if isinstance(change, kind)]
        if some:
            count = options.scaled(4_000)
            yield from _of_kind(name, (some * (count // len(some) + 1))[:count], options)


def _of_kind(name: str, some: Sequence[Change], options: Options) -> Iterable[Figure]:
    schema = load().latest(subject_of(some[0])).parsed
    values = [encode(change) for change in some]
    ready = [_fields(change) for change in some]
    assert [_written(schema, fields) for fields in ready] == [value[10:] for value in values]
    seconds = interleaved(
        {
            f"{name}: our writer": lambda: [encode(change) for change in some],
            f"{name}: fastavro": lambda: [_written(schema, _fields(change)) for change in some],
            f"{name}: fastavro, dicts ready": lambda: [_written(schema, d) for d in ready],
            f"{name}: read to a dict": lambda: [decode(value) for value in values],
            f"{name}: read to a change": lambda: [decode_change(value) for value in values],
        },
        options.rounds,
    )
    return figures(seconds, len(some), f"{name}: fastavro")


def _written(schema: Any, fields: Any) -> bytes:
    stream = BytesIO()
    schemaless_writer(stream, schema, fields)
    return stream.getvalue()


# What fastavro is given: dicts, with the name of the branch where a union has several.
_PLAIN = frozenset((str, int, bool, type(None), dict))


def _fields(record: Struct) -> dict[str, Any]:
    fields = structs.asdict(record)
    for name, value in fields.items():
        if type(value) not in _PLAIN:
            fields[name] = _value(value, named=name == "data")
    return fields


def _value(value: Any, *, named: bool) -> Any:
    if isinstance(value, Raw):
        return str(value, "utf-8")
    if isinstance(value, tuple):
        return [_fields(item) if isinstance(item, Struct) else item for item in value]
    return (f"foldstream.{type(value).__name__}", _fields(value)) if named else _fields(value)
