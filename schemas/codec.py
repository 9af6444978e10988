"""Avro values back into Python: framing, schema, body, with every bad byte a refusal.

A value is read by the schema it was written with and resolved to the newest version of its subject
that this installation knows, so old and new records read alike (streams.md §1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, TypeAlias

from fastavro import schemaless_reader
from fastavro.read import SchemaResolutionError
from msgspec import Raw, Struct

from operators import changes

from .catalog import Schema, load
from .errors import ReadError, Refusal
from .wire import SingleObject, unframe

Registry: TypeAlias = Callable[[int], Schema | None]
"""Schema of a registry id, None for one it does not know."""

CHANGE_SUBJECTS = ("surface", "transcript", "partials", "overview")

SHALLOW = 4096
"""Bytes of a body in which no record can nest deep enough to end fastavro's C stack."""

# What fastavro and the buffer raise on bytes that are not what the schema says.
_BAD_BODY = (
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    SchemaResolutionError,
    TypeError,
    ValueError,
)


class Record(Struct, frozen=True):
    """One decoded value: its writer's schema and its fields, opaque JSON as text."""

    schema: Schema
    fields: dict[str, Any]


def read(
    value: bytes, registry: Registry | None = None, *, named: bool = False
) -> Record | Refusal:
    """Decode any framed value. Total: ``not-avro`` or ``unknown-schema`` for what it cannot.

    ``named``: a record in a union of several is a (full name, fields) pair."""
    frame = unframe(value)
    if isinstance(frame, Refusal):
        return frame
    if isinstance(frame, SingleObject):
        schema = load().by_fingerprint(frame.fingerprint)
        name = f"fingerprint {frame.fingerprint:016x}"
    else:
        schema = registry(frame.schema_id) if registry else None
        name = f"registry id {frame.schema_id}"
    if schema is None or not load().versions(schema.subject):
        return Refusal("unknown-schema", f"no schema is known for {name}")
    return _body(frame.body, schema, named)


def _body(body: bytes, schema: Schema, named: bool) -> Record | Refusal:
    latest = load().latest(schema.subject)
    writer, reader = schema.parsed, latest.parsed
    if len(body) > SHALLOW:
        writer, reader = schema.guarded, latest.guarded
    stream = BytesIO(body)
    try:
        fields = schemaless_reader(
            stream,
            writer,
            None if writer is reader else reader,
            return_record_name=named,
            return_record_name_override=named,
        )
    except _BAD_BODY as error:
        return Refusal("not-avro", f"{schema.subject} body: {type(error).__name__}: {error}")
    if stream.tell() != len(body) or not isinstance(fields, dict):
        rest = len(body) - stream.tell()
        return Refusal("not-avro", f"{schema.subject} body: {rest} bytes left over")
    return Record(schema, fields)


def decode(value: bytes, registry: Registry | None = None) -> dict[str, Any]:
    """The fields of a framed value, names as in outputs.md §1. ReadError: it cannot be read."""
    return _expect(read(value, registry), ()).fields


def decode_subject(value: bytes, subject: str) -> dict[str, Any]:
    """The same, of this subject alone. ReadError: it cannot be read, or is another subject's."""
    return _expect(read(value), (subject,)).fields


def decode_change(value: bytes, registry: Registry | None = None) -> changes.Change:
    """The change a value of an output topic was made from. ReadError: it cannot be read, or is
    none (a dead letter, a row of a kind added later)."""
    record = _expect(read(value, registry, named=True), CHANGE_SUBJECTS)
    change: changes.Change = _builder(record.schema.subject)(record.fields)
    return change


def decode_session_line(value: bytes, registry: Registry | None = None) -> bytes | Refusal:
    """The JSON line inside an Avro ``SessionLine`` in either framing."""
    record = read(value, registry)
    if isinstance(record, Refusal):
        return record
    if record.schema.subject != "session_line":
        return Refusal("unknown-schema", f"a {record.schema.subject} record, not a session line")
    line: bytes = record.fields["line"]
    return line


def _expect(record: Record | Refusal, subjects: tuple[str, ...]) -> Record:
    if isinstance(record, Refusal):
        raise ReadError(record)
    if subjects and record.schema.subject not in subjects:
        wanted = " or ".join(subjects)
        raise ReadError(
            Refusal("unknown-schema", f"a {record.schema.subject} record, not {wanted}")
        )
    return record


# --- dicts into the structs of operators.changes --------------------------------------------------

_Build: TypeAlias = Callable[[Any], Any]


@cache
def _builder(subject: str) -> _Build:
    """Decoded fields of the newest schema of ``subject`` to its struct."""
    return _record_builder(load().latest(subject).source, {})


def _record_builder(schema: dict[str, Any], known: dict[str, _Build]) -> _Build:
    """A record to the struct of its name. ``known``: the builders of the records met before."""
    name = schema["name"]
    struct = getattr(changes, name, None)
    plan: list[tuple[str, _Build]] = []

    def build(fields: dict[str, Any]) -> Any:
        if struct is None:
            raise ReadError(Refusal("unknown-schema", f"{name}: of a newer version"))
        values = []
        for field, make in plan:  # no comprehension: 256 levels of nested calls are 256 frames less
            values.append(make(fields[field]))
        return struct(*values)

    known[name] = build  # before its fields: it may hold itself
    plan += [(f["name"], _value_builder(f["type"], "json" in f, known)) for f in schema["fields"]]
    return build


def _value_builder(kind: Any, opaque: bool, known: dict[str, _Build]) -> _Build:
    if isinstance(kind, list):
        branches = [_value_builder(branch, opaque, known) for branch in kind[1:]]
        if len(branches) == 1:
            some = branches[0]
            return lambda value: None if value is None else some(value)
        # A record in a union of several comes as (full name, fields).
        return lambda value: value and known[value[0].rpartition(".")[2]](value[1])
    if isinstance(kind, dict) and kind["type"] == "array":
        item = _value_builder(kind["items"], False, known)
        return lambda value: tuple(map(item, value))
    if isinstance(kind, dict) and kind["type"] == "record":
        return _record_builder(kind, known)
    if isinstance(kind, str) and kind in known:
        return known[kind]
    return _raw if opaque else _itself


def _raw(text: str) -> Raw:
    return Raw(text.encode())


def _itself(value: Any) -> Any:
    return value
