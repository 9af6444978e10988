"""Dead letters as a set in which each may stand once, by their coordinates (streams.md §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import xxhash
from msgspec import Struct

from pipeline.ports import InRecord, OutRecord
from schemas.deadletter import DeadLetter, decode_dead_letter
from schemas.errors import ReadError

from . import records
from .records import Mismatch, mismatch, text
from .scratch import Scratch, full


class Judged(Struct, frozen=True):
    """Of one partition of events: the first offset kept, where the proof ends, where the topic
    ends. Letters of other offsets cannot be judged."""

    begin: int
    cut: int
    end: int


class Letters:
    """What the folds refuse, then what the topic has. ``sum`` and ``count`` are of the topic."""

    def __init__(self, scratch: Scratch, events: str, topic: str) -> None:
        self._db = scratch.db
        self._scratch = scratch
        self._events = events
        self._topic = topic
        self.count = 0
        self.sum = 0

    @property
    def expected(self) -> int:
        counted: int = self._db.execute("SELECT count(*) FROM letters").fetchone()[0]
        return counted

    def expect(self, record: OutRecord) -> None:
        letter = decode_dead_letter(record.value or b"")
        row = (
            records.of(record),
            letter.partition,
            letter.offset,
            (letter.session or "").encode("utf-8", "surrogatepass"),
            letter.key,
            letter.fault_seq,
            letter.reason,
        )
        with full():
            self._db.execute("REPLACE INTO letters VALUES (?, ?, ?, ?, ?, ?, ?, 0)", row)

    def meet(self, record: InRecord, judged: Mapping[int, Judged]) -> Mismatch | None:
        """One record of the topic: expected, of no fold that can be judged, or a difference."""
        try:
            letter = decode_dead_letter(record.value or b"")
        except ReadError as error:
            return mismatch(record, b"", f"no dead letter: {error}")
        self.count += 1
        self.sum += _summand(letter)
        if letter.offset < 0:
            return None  # refused by `ingest` before it was a record
        session = (letter.session or "").encode("utf-8", "surrogatepass")
        place = judged.get(letter.partition)
        if letter.topic != self._events or place is None or letter.offset >= place.end:
            return mismatch(record, session, f"there is no such record: {_place(letter)}")
        if not place.begin <= letter.offset < place.cut or self._unprovable(session):
            return None
        mark = records.of(record)
        row = self._db.execute("SELECT met FROM letters WHERE digest = ?", (mark,)).fetchone()
        if row is None:
            return mismatch(record, session, f"the fold refuses no such record ({_place(letter)})")
        if row[0]:
            return mismatch(record, session, f"twice the same dead letter ({_place(letter)})")
        self._db.execute("UPDATE letters SET met = 1 WHERE digest = ?", (mark,))
        return None

    def missing(self) -> Iterator[Mismatch]:
        """What the folds refuse and the topic does not have."""
        rows = self._db.execute(
            "SELECT partition, offset, session, key, seq, reason FROM letters WHERE NOT met "
            "ORDER BY partition, offset"
        )
        for partition, offset, session, key, seq, reason in rows.fetchall():
            if not self._unprovable(session):
                what = f"missing: {reason} of {self._events}[{partition}] at offset {offset}"
                whose = text(session)
                yield Mismatch(self._topic, 0, None, whose, text(key or b""), seq, what)

    def _unprovable(self, session: bytes) -> bool:
        return self._scratch.is_named("unprovable", session)


def _summand(letter: DeadLetter) -> int:
    """Without its coordinates, which no other cluster shares."""
    parts: list[bytes | str | int | None] = [
        *(letter.reason, letter.message, letter.session, letter.fault_seq),
        *(letter.key, letter.value),
    ]
    for header in letter.headers:
        parts += (header.key, header.value)
    return int.from_bytes(xxhash.xxh3_128_digest(repr(parts).encode("utf-8", "surrogatepass")))


def _place(letter: DeadLetter) -> str:
    return f"{letter.topic}[{letter.partition}] at offset {letter.offset}"
