"""Framings of an Avro value (streams.md §1): which schema, then the body. No IO.

Single-object encoding: ``C3 01``, the CRC-64-AVRO fingerprint of the schema's Parsing Canonical
Form (8 bytes, little-endian), the body. Registry framing: ``00``, the schema's id (4 bytes,
big-endian), the body.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from fastavro.schema import fingerprint as _digest
from fastavro.schema import to_parsing_canonical_form
from msgspec import Struct

from .errors import Refusal

SINGLE_OBJECT = b"\xc3\x01"
REGISTRY = b"\x00"


class SingleObject(Struct, frozen=True):
    """A body under the schema with this fingerprint, an unsigned 64-bit number."""

    fingerprint: int
    body: bytes


class Registered(Struct, frozen=True):
    """A body under the schema a registry knows by this id."""

    schema_id: int
    body: bytes


Framed: TypeAlias = SingleObject | Registered


def fingerprint(schema: dict[str, Any] | list[Any] | str) -> int:
    """CRC-64-AVRO (Rabin) of the schema's Parsing Canonical Form, as an unsigned number."""
    digest = _digest(to_parsing_canonical_form(schema), "CRC-64-AVRO")  # hex of its wire bytes
    return int.from_bytes(bytes.fromhex(digest), "little")


def single_object_prefix(schema_fingerprint: int) -> bytes:
    """The ten bytes in front of a single-object body."""
    return SINGLE_OBJECT + schema_fingerprint.to_bytes(8, "little")


def unframe(value: bytes) -> Framed | Refusal:
    """The frame of ``value``; ``not-avro`` when it is neither framing or ends inside its head."""
    if value[:2] == SINGLE_OBJECT:
        if len(value) < 10:
            return Refusal("not-avro", f"single-object head cut after {len(value)} of 10 bytes")
        return SingleObject(int.from_bytes(value[2:10], "little"), value[10:])
    if value[:1] == REGISTRY:
        if len(value) < 5:
            return Refusal("not-avro", f"registry head cut after {len(value)} of 5 bytes")
        return Registered(int.from_bytes(value[1:5], "big"), value[5:])
    if not value:
        return Refusal("not-avro", "empty value")
    return Refusal("not-avro", f"first bytes {value[:2].hex(' ')} are no Avro framing")
