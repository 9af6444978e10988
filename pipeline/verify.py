"""Prove the topics: what stands on them equals a fresh fold of ``sessions.events`` (streams.md §5).

Per session the sequence on ``surface``; per key the last record on ``transcript`` and ``overview``,
where a key whose last record is deleted counts as absent; the dead letters as a set. Key, value
and headers byte for byte; up to the offsets that the workers have committed. A session whose first
records have expired cannot be proven: it is counted and named.

Works partition by partition (a session's records share one everywhere but on the dead letters) and
keeps digests, so memory grows with the records of one partition and not with their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from operators.events import Event, Header
from schemas.deadletter import DeadLetter

from . import limits
from .batch import BatchResult, fold_batch, read
from .errors import Fatal
from .expected import Expected, LetterSet, Mismatch
from .memory_ends import MemoryStore
from .ports import InRecord, Reader
from .state import States
from .topics import Names

Told = Callable[[str, int, int], None]
"""Progress: the topic being read, records done, records to read (as far as offsets tell)."""


class Verdict(Struct, frozen=True):
    """``mismatch`` None: all equal. ``behind``: input records beyond the cut, not folded yet."""

    mismatch: Mismatch | None
    sessions: int
    events: int
    surface: int
    rows: int
    dead_letters: int
    behind: int
    unprovable: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.mismatch is None


class _Totals(Struct):
    sessions: int = 0
    events: int = 0
    surface: int = 0
    rows: int = 0
    behind: int = 0
    unprovable: set[str] = set()


def verify(
    reader: Reader,
    names: Names,
    max_row_bytes: int = limits.MAX_ROW_BYTES,
    told: Told = lambda *_: None,
) -> Verdict:
    """Compare everything, or up to the first difference. The topics must be at rest: `Fatal` when
    workers commit meanwhile, or when a topic is missing."""
    count = reader.partitions(names.of("events"))
    if count == 0:
        raise Fatal(f"topic {names.of('events')} is missing", "run `foldstream topics create`")
    cut = reader.committed(names.application, names.of("events"))
    run = _Run(reader, names, max_row_bytes, told)
    mismatch = None
    for partition in range(count):
        mismatch = run.partition(partition, cut.get(partition))
        if mismatch is not None:
            break
    mismatch = mismatch or run.dead_letters()
    if reader.committed(names.application, names.of("events")) != cut:
        raise Fatal(
            "workers committed while the topics were read", "let them finish, then verify again"
        )
    totals = run.totals
    return Verdict(
        mismatch,
        totals.sessions,
        totals.events,
        totals.surface,
        totals.rows,
        run.letters.count,
        totals.behind,
        tuple(sorted(totals.unprovable)),
    )


class _Run:
    """One verification under way."""

    def __init__(self, reader: Reader, names: Names, max_row_bytes: int, told: Told) -> None:
        self._reader = reader
        self._names = names
        self._max_row_bytes = max_row_bytes
        self._told = told
        self.totals = _Totals()
        self.letters = LetterSet()
        self._begins: dict[int, int] = {}

    def partition(self, partition: int, cut: int | None) -> Mismatch | None:
        """Fold the partition's events up to ``cut`` and hold its topics against that."""
        expected = self._fold(partition, cut)
        expired = self._begins[partition] > 0
        known = expected.known

        def skip(session: str) -> bool:
            """Unprovable: its first records have expired, or all of them."""
            if expired and session not in known:
                self.totals.unprovable.add(session)
            return session in self.totals.unprovable

        surface, at = self._names.of("surface"), partition
        mismatch = expected.outputs.surface(self._read("surface", at), surface, at, skip)
        for role in ("transcript", "overview"):
            if mismatch is None:
                place = (self._names.of(role), partition)
                mismatch = expected.outputs.last(self._read(role, at), role, place, skip)
        self.totals.surface += sum(len(seqs) for _, seqs in expected.outputs.surfaces.values())
        self.totals.rows += len(expected.outputs.lasts["transcript"])
        self.totals.sessions += len(known)
        return mismatch

    def _fold(self, partition: int, cut: int | None) -> _Folded:
        topic = self._names.of("events")
        begin, end = self._reader.bounds(topic, partition)
        self._begins[partition] = begin
        stop = begin if cut is None else cut
        self.totals.behind += max(0, end - stop)
        folded = _Folded(Expected(), set())
        states = States(MemoryStore())
        for records in _batches(self._reader.read(topic, partition, begin, stop)):
            if begin > 0:
                self._find_windows(records, folded.known)
            result = fold_batch(records, states.of(partition), self._max_row_bytes)
            states.merge(partition, result.states, result.segments, 0)
            folded.known.update(result.states)
            self._gather(result, folded.outputs)
            self.totals.events += len(records)
            self._told(topic, records[-1].offset - begin, stop - begin)
        return folded

    def _gather(self, result: BatchResult, outputs: Expected) -> None:
        for record in result.outputs:
            if record.role == "deadletter":
                self.letters.expect(record.key, record.value, record.headers)
            elif record.role != "state":
                outputs.add(record)

    def _find_windows(self, records: list[InRecord], known: set[str]) -> None:
        """Sessions whose first record left is not their first."""
        seen: set[str] = set()
        for item in read(records):
            session = item.session
            if session is None or session in known or session in seen:
                continue
            seen.add(session)
            line = item.line
            whole = isinstance(line, Header) or (isinstance(line, Event) and line.seq == 0)
            if not whole or item.epoch > 0:
                self.totals.unprovable.add(session)

    def _read(self, role: str, partition: int) -> Iterator[InRecord]:
        topic = self._names.of(role)
        begin, end = self._reader.bounds(topic, partition)
        yield from self._reader.read(topic, partition, begin, end)
        self._told(topic, end - begin, end - begin)

    def dead_letters(self) -> Mismatch | None:
        """All partitions at once: dead letters are spread modulo their topic's number."""
        topic = self._names.of("deadletter")
        expired = False
        for partition in range(self._reader.partitions(topic)):
            expired |= self._reader.bounds(topic, partition)[0] > 0
            for record in self._read("deadletter", partition):
                mismatch = self.letters.meet(record, self._foreign)
                if mismatch is not None:
                    return mismatch
        return None if expired else self.letters.missing(topic, self._foreign)

    def _foreign(self, letter: DeadLetter) -> bool:
        """No letter of a fold that can be proven: refused by ``ingest`` before it was a record, or
        of a record or session that has expired."""
        return (
            letter.topic != self._names.of("events")
            or letter.offset < self._begins.get(letter.partition, 0)
            or letter.session in self.totals.unprovable
        )


class _Folded(Struct, frozen=True):
    outputs: Expected
    known: set[str]


def _batches(records: Iterator[InRecord]) -> Iterator[list[InRecord]]:
    while batch := list(islice(records, limits.BATCH_RECORDS)):
        yield batch
