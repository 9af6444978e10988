"""What waits for a replay: the records of a parked session, each as it stood first.

The dead letters hold all that the workers have put aside, and the events topic what they have not
come to yet; what was dead-lettered twice, since an earlier replay parked again at it, is one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from operators.events import Event, Fault
from schemas.deadletter import DeadLetter
from schemas.inbound import read_value

from .batch import CURRENT, read
from .deadletter import Listed, letter_of
from .envelope import Place, first_place, original
from .errors import Fatal
from .ports import InRecord, Reader

IN_MEMORY = 64 * 1024 * 1024  #: bytes of records kept in memory; more of them lie on disk


class _Held(Struct, frozen=True):
    """Where a record is kept, and what its order needs: ``seq`` None if the line says none."""

    first: int
    seq: int | None
    epoch: int
    begin: int
    size: int


class Waiting:
    """Records by the offset at which each stood first; those added first count."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - lives with us
        self._held: dict[int, _Held] = {}

    def add(self, record: InRecord) -> None:
        """A record at its first place, with the headers it had there."""
        if record.offset in self._held:
            return
        (item,) = read([record])
        line = item.line if item.epoch == CURRENT else read_value(record.value)
        seq = line.seq if isinstance(line, Event | Fault) else None
        data = _encode(record)
        begin = self._file.seek(0, 2)
        self._file.write(data)
        self._held[record.offset] = _Held(record.offset, seq, item.epoch, begin, len(data))

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, first: int) -> bool:
        return first in self._held

    def get(self, first: int) -> InRecord:
        held = self._held[first]
        self._file.seek(held.begin)
        return _decode(self._file.read(held.size))

    def in_log_order(self, since: int, epoch: int) -> list[int]:
        """First places from ``since`` on, of that epoch's records: ascending by seq. A record
        without one stays behind the greatest seq before it, so those keep their order."""
        keys: list[tuple[int, int]] = []
        greatest = -1
        for first in sorted(self._held):
            held = self._held[first]
            if first < since or held.epoch not in (CURRENT, epoch):
                continue
            greatest = max(greatest, -1 if held.seq is None else held.seq)
            keys.append((greatest if held.seq is None else held.seq, first))
        return [first for _, first in sorted(keys)]

    def close(self) -> None:
        self._file.close()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(InRecord).decode


def letters_of(reader: Reader, topic: str, session: str) -> Iterator[Listed]:
    """The session's letters on the dead-letter topic, in the order they were written."""
    key = session.encode()
    for partition in range(reader.partitions(topic)):
        for record in reader.read(topic, partition):
            if record.key == key:
                listed = Listed(record, letter_of(record))
                if listed.letter is not None and listed.letter.session == session:
                    yield listed


def as_received(letter: DeadLetter) -> InRecord:
    """The record that was refused, at the place where it was refused."""
    headers = tuple((header.key, header.value) for header in letter.headers)
    return InRecord(
        *(letter.topic, letter.partition, letter.offset, letter.timestamp),
        *(letter.key, letter.value, headers),
    )


def at_first(record: InRecord) -> InRecord:
    """The same record where it stood first, without what a replay put on it."""
    return replace(
        record, offset=first_place(record).offset, headers=tuple(original(record.headers))
    )


def whole(record: InRecord, reader: Reader) -> InRecord:
    """The record with its value: a letter too large has dropped it, but the topic has it."""
    if record.value is not None:
        return record
    for found in reader.read(record.topic, record.partition, record.offset, record.offset + 1):
        return found
    place = Place(record.topic, record.partition, record.offset)
    raise Fatal(
        f"the record at {place} was too large for its dead letter and has expired from its topic",
        "ingest the session again as a new epoch",
    )


def sent_since(reader: Reader, place: Place, end: int, session: str) -> Iterator[InRecord]:
    """The session's records on the events topic from a place on, replayed ones too."""
    key = session.encode()
    for record in reader.read(place.topic, place.partition, place.offset, end):
        if record.key == key:
            yield record


def is_replayed(record: InRecord) -> bool:
    return first_place(record).offset != record.offset


def add_all(waiting: Waiting, records: Iterable[InRecord]) -> int:
    """Those that are not replayed; how many there were."""
    count = 0
    for record in records:
        if not is_replayed(record):
            waiting.add(record)
            count += 1
    return count
