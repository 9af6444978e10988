"""What one partition's output topics must hold, kept as digests, and the comparison with them.

Used by ``verify.py``: `Expected` is filled from a fresh fold, then held against each topic.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

import xxhash
from msgspec import Struct

from operators.changes import TranscriptRow
from schemas.codec import decode_change
from schemas.deadletter import DeadLetter, decode_dead_letter
from schemas.errors import ReadError
from schemas.outbound import KEY_SEPARATOR

from .ports import Headers, InRecord, OutRecord

SMALL = 2_048  #: a value longer than this and four times its key is no deleted row


class Mismatch(Struct, frozen=True):
    """Where a topic and the fresh fold part. ``offset`` None: a record that should be there and is
    not; ``seq`` is the event the record in question comes from, as far as it says."""

    topic: str
    partition: int
    offset: int | None
    session: str
    key: str
    seq: int | None
    what: str

    def __str__(self) -> str:
        at = "" if self.offset is None else f" at offset {self.offset}"
        seq = "" if self.seq is None else f", seq {self.seq}"
        return (
            f"{self.topic}[{self.partition}]{at}: session {self.session!r}, key {self.key!r}{seq}: "
            f"{self.what}"
        )


def digest(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """64 bits over key, value and headers, lengths included."""
    hashed = xxhash.xxh3_64()
    for part in (key, value, *(piece for name, text in headers for piece in (name.encode(), text))):
        hashed.update(b"-" if part is None else b"%d:" % len(part))
        hashed.update(part or b"")
    return hashed.intdigest()


class _Last(Struct):
    """The last record of a key; ``small`` its value if it may be a deleted row."""

    digest: int
    seq: int | None
    offset: int | None
    small: bytes | None

    @property
    def absent(self) -> bool:
        """Whether it says that the row is gone."""
        if self.small is None:
            return False
        try:
            change = decode_change(self.small)
        except ReadError:
            return False
        return isinstance(change, TranscriptRow) and change.deleted


class Expected:
    """The outputs of one partition as a fresh fold gives them."""

    def __init__(self) -> None:
        self.surfaces: dict[str, tuple[array[int], array[int]]] = {}
        self.lasts: dict[str, dict[bytes, _Last]] = {"transcript": {}, "overview": {}}

    def add(self, record: OutRecord) -> None:
        """One output of the fold; roles that are not proven are ignored."""
        assert record.key is not None, "outputs of the fold have keys"
        if record.role == "surface":
            session = record.key.decode()
            digests, seqs = self.surfaces.setdefault(session, (array("Q"), array("q")))
            digests.append(digest(record.key, record.value, record.headers))
            seqs.append(_seq(record.headers) or 0)
        elif record.role in self.lasts:
            self.lasts[record.role][record.key] = _last(record, None)

    # --- against a topic --------------------------------------------------------------------------

    def surface(
        self, records: Iterable[InRecord], topic: str, partition: int, skip: Callable[[str], bool]
    ) -> Mismatch | None:
        """The first record that differs, is too many or is missing; sessions of ``skip`` are not
        looked at."""
        done: dict[str, int] = {}
        for record in records:
            session = _session(record.key, "surface")
            if skip(session):
                continue
            n = done.get(session, 0)
            done[session] = n + 1
            digests, seqs = self.surfaces.get(session, _NOTHING)
            if n >= len(digests):
                what = f"a record too many: the fold gives {len(digests)} changes"
                return _mismatch(record, session, what)
            if digest(record.key, record.value, record.headers) != digests[n]:
                what = f"change {n + 1} of the session differs from the fold's, of seq {seqs[n]}"
                return _mismatch(record, session, what)
        for session, (digests, seqs) in self.surfaces.items():
            n = done.get(session, 0)
            if n < len(digests) and not skip(session):
                what = f"{len(digests) - n} of {len(digests)} changes are missing"
                return Mismatch(topic, partition, None, session, session, seqs[n], what)
        return None

    def last(
        self,
        records: Iterable[InRecord],
        role: str,
        at: tuple[str, int],
        skip: Callable[[str], bool],
    ) -> Mismatch | None:
        """The first key whose last record differs, is too many or is missing."""
        topic, partition = at
        actual = {record.key or b"": _last(record, record.offset) for record in records}
        wanted = self.lasts[role]
        for key, found in actual.items():
            session = _session(key, role)
            should = wanted.get(key)
            if skip(session) or (should is not None and should.digest == found.digest):
                continue
            if found.absent and (should is None or should.absent):
                continue
            what = "the fold gives no such key" if should is None else "differs from the fold's"
            return Mismatch(topic, partition, found.offset, session, _text(key), found.seq, what)
        for key, should in wanted.items():
            session = _session(key, role)
            if key not in actual and not skip(session) and not should.absent:
                return Mismatch(topic, partition, None, session, _text(key), should.seq, "missing")
        return None


_NOTHING: tuple[array[int], array[int]] = (array("Q"), array("q"))


def _last(record: InRecord | OutRecord, offset: int | None) -> _Last:
    value, key = record.value, record.key or b""
    small = value is not None and len(value) <= SMALL + 4 * len(key)
    return _Last(
        digest(record.key, value, record.headers),
        _seq(record.headers),
        offset,
        value if small else None,
    )


def _mismatch(record: InRecord, session: str, what: str) -> Mismatch:
    key, seq = _text(record.key or b""), _seq(record.headers)
    return Mismatch(record.topic, record.partition, record.offset, session, key, seq, what)


def _session(key: bytes | None, role: str) -> str:
    """The session a key names; a row's key is the session, 0x1F and the row's own."""
    if role == "transcript":
        return _text((key or b"").rpartition(KEY_SEPARATOR)[0])
    return _text(key or b"")


def _text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def _seq(headers: Headers) -> int | None:
    for name, text in headers:
        if name == "seq" and text is not None and text.lstrip(b"-").isdigit():
            return int(text)
    return None


class LetterSet:
    """The dead letters of all partitions, as a set in which each may stand once."""

    def __init__(self) -> None:
        self._expected: dict[int, bytes] = {}
        self._met: set[int] = set()

    @property
    def count(self) -> int:
        return len(self._expected)

    def expect(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        self._expected[digest(key, value, headers)] = value or b""

    def meet(self, record: InRecord, foreign: Callable[[DeadLetter], bool]) -> Mismatch | None:
        """One record of the topic: expected, foreign, or a difference."""
        mark = digest(record.key, record.value, record.headers)
        try:
            letter = decode_dead_letter(record.value or b"")
        except ReadError as error:
            return _mismatch(record, "", f"no dead letter: {error}")
        if foreign(letter):
            return None
        session = letter.session or ""
        if mark not in self._expected:
            return _mismatch(record, session, f"the fold refuses no such record ({_place(letter)})")
        if mark in self._met:
            return _mismatch(record, session, f"twice the same dead letter ({_place(letter)})")
        self._met.add(mark)
        return None

    def missing(self, topic: str, foreign: Callable[[DeadLetter], bool]) -> Mismatch | None:
        for mark, value in self._expected.items():
            letter = decode_dead_letter(value)
            if mark not in self._met and not foreign(letter):
                what = f"missing: {letter.reason} of {_place(letter)}"
                key = _text(letter.key or b"")
                return Mismatch(topic, 0, None, letter.session or "", key, letter.fault_seq, what)
        return None


def _place(letter: DeadLetter) -> str:
    return f"{letter.topic}[{letter.partition}] at offset {letter.offset}"
