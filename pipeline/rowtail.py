"""The rows of one session on the topics as they are published, from the present on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from operators.changes import TranscriptRow
from schemas.codec import decode_change
from schemas.errors import ReadError
from schemas.outbound import KEY_SEPARATOR

from . import published
from .errors import PipelineError, Retriable
from .ports import Cursor, InRecord, Reader
from .topics import Names

TAKE_S = 0.2  #: one try at what an open transaction may hold


class RowTail:
    """``began``: how often the rows began anew: with another epoch, or when the topic was made
    again. ``stale``: why nothing could be read when it was last tried; what was missed meanwhile
    comes as soon as it can be."""

    def __init__(self, connect: Callable[[], Reader], names: Names, session: str) -> None:
        self._connect = connect
        self._names = names
        self._session = session
        key = session.encode("utf-8", "replace")
        self._named, self._prefix = key.decode(), key + KEY_SEPARATOR
        self._reader: Reader | None = None
        self._cursor: Cursor | None = None
        self._partition = -1
        self._position = 0
        self.epoch = 0
        self.began = 0
        self.stale: str | None = None

    def present(self) -> list[TranscriptRow] | None:
        """The rows as they stand, in order, and from here on `more`; None if there is no such
        session."""
        reader, topic = self._open(), self._names.of("transcript")
        ends = [reader.bounds(topic, at)[1] for at in range(reader.partitions(topic))]
        found = published.session(reader, self._names, self._session)
        if found is None:
            return None
        self._partition, self._position = found.partition, ends[found.partition]
        self.epoch = found.overview.epoch
        self.began += 1
        return found.rows

    def more(self) -> Iterator[list[TranscriptRow]]:
        """What was published since, as far as it is there."""
        try:
            for records in self._records():
                rows = self._rows(records)
                if rows:
                    yield rows
        except Retriable as error:
            self.stale = error.message
            self.close()
        else:
            self.stale = None

    def running(self) -> list[TranscriptRow]:
        """The rows of now, for what still runs: with their open text."""
        with suppress(PipelineError):
            found = published.session(self._open(), self._names, self._session)
            if found is not None and found.overview.epoch == self.epoch:
                return [row for row in found.rows if published.running(row)]
        return []

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
        if self._reader is not None:
            self._reader.close()
        self._reader = self._cursor = None

    def _open(self) -> Reader:
        if self._reader is None:
            self._reader = self._connect()
        return self._reader

    def _records(self) -> Iterator[list[InRecord]]:
        if self._cursor is None:
            reader, topic = self._open(), self._names.of("transcript")
            end = reader.bounds(topic, self._partition)[1]
            if end < self._position:  # the topic was made again
                self._position, self.epoch = 0, -1
            if end == self._position:
                return
            self._cursor = reader.cursor(topic, self._partition, self._position, end)
        while not self._cursor.done:
            records = list(self._cursor.take(TAKE_S))
            self._position = self._cursor.position
            if not records and not self._cursor.done:
                return  # an open transaction holds it
            yield records
        self._cursor.close()
        self._cursor = None

    def _rows(self, records: list[InRecord]) -> list[TranscriptRow]:
        found: list[TranscriptRow] = []
        for record in records:
            if record.value is None or not (record.key or b"").startswith(self._prefix):
                continue
            try:
                row = decode_change(record.value)
            except ReadError:
                continue
            if not isinstance(row, TranscriptRow) or row.epoch < self.epoch:
                continue
            if row.session != self._named:  # an id may hold the separator
                continue
            if row.epoch > self.epoch:
                self.epoch = row.epoch
                self.began += 1
                found.clear()
            found.append(row)
        return found
