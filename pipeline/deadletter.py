"""Refused records: out to the dead-letter topic with their coordinates, and back as a list.

The value is `schemas.deadletter.DeadLetter`; the record's key is the one received (streams.md §1).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from schemas.deadletter import (
    DeadLetter,
    Header,
    bound_dead_letter,
    decode_dead_letter,
    encode_dead_letter,
)
from schemas.errors import ReadError

from . import limits
from .ports import InRecord, OutRecord, Reader

MAX_LETTER_BYTES = limits.MAX_OUTPUT_RECORD_BYTES - limits.RECORD_OVERHEAD_BYTES


class Refusal(Struct, frozen=True):
    """Why a record was not taken: reason code of outputs.md §1, in words, and what is known."""

    reason: str
    message: str
    session: str | None = None
    seq: int | None = None


def dead_letter(record: InRecord, refusal: Refusal) -> OutRecord:
    """The record for the dead-letter topic; one too large drops its value, never its place."""
    letter = DeadLetter(
        reason=refusal.reason,
        message=refusal.message,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        session=refusal.session,
        fault_seq=refusal.seq,
        key=record.key,
        value=record.value,
        headers=tuple(Header(key, value) for key, value in record.headers),
    )
    value = encode_dead_letter(letter)
    key = record.key
    if len(value) + len(key or b"") > MAX_LETTER_BYTES:
        value = encode_dead_letter(bound_dead_letter(letter, MAX_LETTER_BYTES // 2))
        key = key if len(key or b"") <= MAX_LETTER_BYTES // 2 else None
    return OutRecord("deadletter", record.partition, key, value, [])


class Listed(Struct, frozen=True):
    """One record of the dead-letter topic and what it holds; ``letter`` None: not one of ours."""

    record: InRecord
    letter: DeadLetter | None


def read_letters(reader: Reader, topic: str) -> Iterator[Listed]:
    """The dead letters of every partition, oldest first within each."""
    for partition in range(reader.partitions(topic)):
        for record in reader.read(topic, partition):
            yield Listed(record, letter_of(record))


def letter_of(record: InRecord) -> DeadLetter | None:
    """The letter in a record of the dead-letter topic, None if it is none of ours."""
    try:
        return decode_dead_letter(record.value or b"")
    except ReadError:
        return None
