"""Header names that are not UTF-8, which any C client can write and kafka-python cannot read.

Its consumer raises on such a record, then spins for ever, so one record would stop its partition.
`tolerate_header_names` has it read the record again with ``?`` for each bad byte of the name: no
header that we look at has one, and key, value and header values stay as they are. It replaces a
private method; a version without that method is left as it is.
"""

from __future__ import annotations

from typing import Any

from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

_MARK = "_foldstream_tolerates"


def tolerate_header_names() -> None:
    """Once per process; every consumer of it reads so from then on."""
    original: Any = getattr(DefaultRecordBatch, "_read_msg", None)
    if original is None or hasattr(DefaultRecordBatch, _MARK):
        return

    def read(batch: Any) -> Any:
        try:
            return original(batch)
        except UnicodeDecodeError:
            untouched = batch._buffer  # noqa: SLF001 - the position is still before the record
            batch._buffer = plain_names(untouched, batch._pos)  # noqa: SLF001
            try:
                return original(batch)
            finally:
                batch._buffer = untouched  # noqa: SLF001

    DefaultRecordBatch._read_msg = read  # noqa: SLF001
    setattr(DefaultRecordBatch, _MARK, True)


def plain_names(buffer: bytes | bytearray | memoryview, position: int) -> bytearray:
    """A copy of the batch in which the header names of the record at ``position`` decode: length,
    attributes, time and offset deltas, key, value, then (name, value) pairs, all as varints and
    bytes."""
    plain = bytearray(buffer)
    for _ in range(4):
        _, position = decode_varint(plain, position)
    for _ in range(2):  # key and value, -1 for null
        length, position = decode_varint(plain, position)
        position += max(length, 0)
    count, position = decode_varint(plain, position)
    for _ in range(count):
        length, position = decode_varint(plain, position)
        name = plain[position : position + length]
        plain[position : position + length] = _ascii(name)
        position += length
        length, position = decode_varint(plain, position)
        position += max(length, 0)
    return plain


def _ascii(name: bytearray) -> bytes:
    try:
        name.decode()
    except UnicodeDecodeError:
        return bytes(byte if byte < 128 else ord("?") for byte in name)
    return bytes(name)
