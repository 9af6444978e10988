"""Avro values back into Python: framing, schema, body, with every bad byte a refusal.

A value is read by the schema it was written with and resolved to the newest version of its subject
that this installation knows, so old and new records read alike (streams.md §1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    stream = BytesIO(body)
    try:
        fields = schemaless_reader(
            stream,
            schema.parsed,
            None if schema is latest else latest.parsed,
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
    change: changes.Change = _struct(load().latest(record.schema.subject).source, record.fields)
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


def _struct(schema: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    """A record as the struct of its name: opaque JSON as Raw, arrays as tuples."""
    struct = getattr(changes, schema["name"], None)
    if struct is None:
        raise ReadError(Refusal("unknown-schema", f"{schema['name']}: of a newer version"))
    return struct(
        **{
            field["name"]: _value(field["type"], fields[field["name"]], "json" in field)
            for field in schema["fields"]
        }
    )


def _value(kind: Any, value: Any, opaque: bool) -> Any:
    if value is None:
        return None
    if isinstance(kind, list):  # a record in a union of several comes with its name
        if isinstance(value, tuple):
            name, fields = value
            return _struct(_records()[name.rpartition(".")[2]], fields)
        return _value(kind[1], value, opaque)
    if isinstance(kind, dict):
        if kind["type"] == "array":
            return tuple([_value(kind["items"], item, False) for item in value])
        return _struct(kind, value) if kind["type"] == "record" else value
    if kind in _records():
        return _struct(_records()[kind], value)
    return Raw(value.encode()) if opaque else value


@cache
def _records() -> dict[str, dict[str, Any]]:
    """The named records inside the newest schemas of the change subjects."""
    found: dict[str, dict[str, Any]] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, list):
            for branch in kind:
                visit(branch)
        elif isinstance(kind, dict) and kind["type"] == "record":
            found[kind["name"]] = kind
            for field in kind["fields"]:
                visit(field["type"])
        elif isinstance(kind, dict):
            visit(kind.get("items"))

    for subject in CHANGE_SUBJECTS:
        visit(load().latest(subject).source)
    return found
