"""The record of what was refused: coordinates, reason, the original as it came (outputs.md §1)."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import Struct, structs

from .catalog import load
from .codec import decode_subject
from .encoder import Encoder, compile_encoder
from .wire import single_object_prefix

MESSAGE_CODE_POINTS = 4096


class Header(Struct, frozen=True):
    key: str
    value: bytes | None


class DeadLetter(Struct, frozen=True):
    """``reason`` is a code of outputs.md §1; ``offset`` and ``partition`` are -1 for a line that
    was never a record (refused by ``ingest``); ``timestamp`` in epoch milliseconds, -1 unknown."""

    reason: str
    message: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    session: str | None
    fault_seq: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def encode_dead_letter(letter: DeadLetter) -> bytes:
    """Avro in single-object encoding. Any string goes: an unpaired surrogate half is U+FFFD."""
    return _writer()(letter)


def decode_dead_letter(value: bytes) -> DeadLetter:
    """The dead letter in a value of the dead-letter topic. ReadError: it is none."""
    fields = decode_subject(value, "deadletter")
    fields["headers"] = tuple(Header(**header) for header in fields["headers"])
    return DeadLetter(**fields)


def bound_dead_letter(letter: DeadLetter, max_bytes: int) -> DeadLetter:
    """The letter so that it encodes to at most ``max_bytes``; its coordinates always stay.

    Dropped, each only if still needed: the value, the values of the headers, the headers, the key,
    and of the message what is beyond 4096 code points (streams.md §2)."""
    cuts: list[dict[str, Any]] = [
        {},
        {"value": None},
        {"headers": tuple(Header(header.key, None) for header in letter.headers)},
        {"headers": ()},
        {"key": None},
        {"message": letter.message[:MESSAGE_CODE_POINTS]},
    ]
    for cut in cuts:
        letter = structs.replace(letter, **cut)
        if len(encode_dead_letter(letter)) <= max_bytes:
            break
    return letter


@cache
def _writer() -> Encoder:
    schema = load().latest("deadletter")
    prefix = single_object_prefix(schema.fingerprint)
    return compile_encoder(schema.source, {}, prefix=prefix, lenient=True)
