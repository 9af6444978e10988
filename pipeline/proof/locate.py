"""The first difference of each session that differs, with coordinates, by folding them once more.

The proof keeps digests alone; for the few sessions that differ the values are folded again and laid
beside the topic's, so that the record and the field can be named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from pipeline.batch import read
from pipeline.ports import Headers, InRecord, OutRecord
from pipeline.state import States
from schemas.codec import decode_change
from schemas.errors import ReadError

from .partition import RESIDENT
from .records import LASTS, Mismatch, digest, mismatch, of, seq_of, session_of, text
from .scope import Found, Scope
from .scratch import Last, Scratch, full
from .states import ScratchStates

SHOWN = 60  #: characters of a value that a difference shows
BATCH = 1_000

_SURFACES = (
    "CREATE TEMP TABLE changes (session BLOB, n INTEGER, digest BLOB, seq INTEGER, value BLOB, "
    "headers BLOB, PRIMARY KEY (session, n)) WITHOUT ROWID"
)


class Wanted(Struct):
    """One session that differs: the row that is its first to differ, if one is; how many surface
    changes the fold gave and the topic had. ``moving``: the topic may have more by right."""

    last: Last | None = None
    folded: int = 0
    met: int = 0
    moving: bool = False
    said: Mismatch | None = None
    record: OutRecord | None = None


def locate(
    scope: Scope, scratch: Scratch, partition: int, found: Found, most: int
) -> list[Mismatch]:
    """The first difference of at most ``most`` of the sessions, in the order of their names. The
    surface comes before the rows, and of several rows that with the lowest seq."""
    wanted = {session: Wanted() for session in sorted(found.differing)[:most]}
    if not wanted:
        return []
    for last in scratch.broken_lasts():
        session = session_of(last.key, last.role)
        one = wanted.get(session)
        at = (last.role, last.key)
        if one is None or at not in found.moving.get(session, {at}):
            continue
        if one.last is None or _order(last) < _order(one.last):
            one.last = last
    for session in found.moving.keys() & wanted.keys():
        wanted[session].moving = True
    location = _Location(scope, scratch, partition, wanted)
    location.fold(found.judged.begin, found.judged.cut)
    location.surfaces(found.ends["surface"])
    location.rows(found.ends)
    return [one.said for one in wanted.values() if one.said is not None]


def _order(last: Last) -> tuple[int, str]:
    return last.seq, last.role


class _Location:
    def __init__(
        self, scope: Scope, scratch: Scratch, partition: int, wanted: Mapping[bytes, Wanted]
    ) -> None:
        self._scope = scope
        self._db = scratch.db
        self._scratch = scratch
        self._partition = partition
        self._wanted = wanted
        self._db.execute("DROP TABLE IF EXISTS temp.changes")
        self._db.execute(_SURFACES)

    # --- what the fold gives ----------------------------------------------------------------------

    def fold(self, begin: int, cut: int) -> None:
        """The wanted sessions alone, their surface changes kept on disk."""
        ScratchStates(self._scratch).wipe(self._partition)
        states = States(ScratchStates(self._scratch), RESIDENT)
        at = self._partition
        batch: list[InRecord] = []
        for record in self._scope.records("events", at, begin, cut):
            if record.key in self._wanted:
                batch.append(record)
            if len(batch) == BATCH:
                self._take(batch, states)
                batch = []
        self._take(batch, states)

    def _take(self, batch: list[InRecord], states: States) -> None:
        for result in self._scope.fold(read(batch), states, self._partition):
            for record in result.outputs:
                self._keep(record)

    def _keep(self, record: OutRecord) -> None:
        key = record.key or b""
        if record.role == "surface":
            one = self._wanted[key]
            row = (key, one.folded, of(record), seq_of(record.headers), record.value)
            with full():
                self._db.execute(
                    "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
                    (*row, msgspec.msgpack.encode(record.headers)),
                )
            one.folded += 1
        elif record.role in LASTS:
            last = self._wanted[session_of(key, record.role)].last
            if last is not None and (last.role, last.key) == (record.role, key):
                self._wanted[session_of(key, record.role)].record = record

    # --- against the topics -----------------------------------------------------------------------

    def surfaces(self, end: int) -> None:
        """The first change of each session that is not the fold's."""
        begin = self._scope.reader.bounds(self._scope.names.of("surface"), self._partition)[0]
        for record in self._scope.records("surface", self._partition, begin, end):
            session = record.key or b""
            one = self._wanted.get(session)
            if one is not None and one.said is None:
                self._meet(record, session, one)
        topic = self._scope.names.of("surface")
        for session, one in self._wanted.items():
            if one.said is None and one.met < one.folded:
                name, seq = text(session), self._change(session, one.met)[1]
                what = f"{one.folded - one.met} of {one.folded} changes are missing"
                one.said = Mismatch(topic, self._partition, None, name, name, seq, what)

    def _meet(self, record: InRecord, session: bytes, one: Wanted) -> None:
        place, mark = one.met, of(record)
        one.met += 1
        if place < one.folded:
            wanted, seq, value, headers = self._change(session, place)
            if wanted == mark:
                return
            what = f"change {place + 1} of the session differs from the fold's, of seq {seq}"
            folded = OutRecord("surface", self._partition, session, value, headers)
        else:
            if one.moving:
                return
            what = f"a record too many: the fold gives {one.folded} changes"
            folded = None
        elsewhere = self._place_of(session, mark)
        if elsewhere is not None:
            done = "that was there already" if elsewhere < place else "that comes later"
            what += f"; it is change {elsewhere + 1}, {done}"
            folded = None
        one.said = _detailed(mismatch(record, session, what), record, folded)

    def _change(self, session: bytes, n: int) -> tuple[bytes, int | None, bytes, Any]:
        row = self._db.execute(
            "SELECT digest, seq, value, headers FROM changes WHERE session = ? AND n = ?",
            (session, n),
        ).fetchone()
        headers = msgspec.msgpack.decode(row[3], type=list[tuple[str, bytes]])
        return row[0], row[1], row[2], headers

    def _place_of(self, session: bytes, mark: bytes) -> int | None:
        row = self._db.execute(
            "SELECT n FROM changes WHERE session = ? AND digest = ?", (session, mark)
        ).fetchone()
        return None if row is None else int(row[0])

    def rows(self, ends: Mapping[str, int]) -> None:
        """The last records of keys that differ, of sessions whose surface is right."""
        left = {
            (one.last.role, one.last.key): one
            for one in self._wanted.values()
            if one.said is None and one.last is not None
        }
        held = self._topic_records(left, ends)
        for (role, key), one in left.items():
            last, record = one.last, held.get((role, key))
            assert last is not None, "they were chosen by it"
            session = session_of(key, role)
            if record is not None and last.topic is not None:
                known = last.fold is not None
                what = "differs from the fold's" if known else "the fold gives no such key"
                folded = one.record if known else None
                one.said = _detailed(mismatch(record, session, what), record, folded)
            else:
                what = "missing" if record is None else "deleted, where the fold gives a record"
                topic = self._scope.names.of(role)
                at = None if record is None else record.offset
                name = text(session)
                one.said = Mismatch(
                    topic, self._partition, at, name, text(key), last.fold_seq, what
                )

    def _topic_records(
        self, wanted: Iterable[tuple[str, bytes]], ends: Mapping[str, int]
    ) -> dict[tuple[str, bytes], InRecord]:
        """The last record of each key, read again."""
        held: dict[tuple[str, bytes], InRecord] = {}
        wanted = set(wanted)
        for role in {role for role, _ in wanted}:
            topic = self._scope.names.of(role)
            begin = self._scope.reader.bounds(topic, self._partition)[0]
            for record in self._scope.records(role, self._partition, begin, ends[role]):
                at = (role, record.key or b"")
                if at in wanted:
                    held[at] = record
        return held


# --- which field ----------------------------------------------------------------------------------


def _detailed(said: Mismatch, record: InRecord, folded: OutRecord | None) -> Mismatch:
    """With the first field in which the two records part."""
    if folded is None or digest(*_parts(record)) == digest(*_parts(folded)):
        return said
    field, found, expected = _field(record, folded)
    return msgspec.structs.replace(said, field=field, found=found, expected=expected)


def _parts(record: InRecord | OutRecord) -> tuple[bytes | None, bytes | None, Headers]:
    return record.key, record.value, record.headers


def _field(record: InRecord, folded: OutRecord) -> tuple[str, str, str]:
    """Its name, what the topic has and what the fold gives."""
    one, other = _decoded(record.value), _decoded(folded.value)
    if one is None or other is None:
        if record.value != folded.value:
            return "value", _bytes(record.value), _bytes(folded.value)
    else:
        for name in dict.fromkeys((*other, *one)):
            if one.get(name, _GONE) != other.get(name, _GONE):
                return name, *_beside(one.get(name, _GONE), other.get(name, _GONE))
        if record.value != folded.value:  # equal as decoded, yet written otherwise
            return "encoding", _bytes(record.value), _bytes(folded.value)
    return "headers", *_beside(_headers(record.headers), _headers(folded.headers))


_GONE = "nothing"


def _decoded(value: bytes | None) -> dict[str, Any] | None:
    """Its fields, those of inner records by their path; None for what is not ours."""
    try:
        change = decode_change(value or b"")
    except ReadError:
        return None
    flat: dict[str, Any] = {}
    _flatten(change, "", flat)
    return flat


def _flatten(value: Any, path: str, flat: dict[str, Any]) -> None:
    if isinstance(value, Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}" if path else str(name), flat)
    else:
        flat[path] = bytes(value).decode() if isinstance(value, msgspec.Raw) else value


def _headers(headers: Headers) -> list[str]:
    return [f"{name}={text(value) if value is not None else None}" for name, value in headers]


def _bytes(value: bytes | None) -> str:
    if value is None:
        return "null"
    return f"{len(value)} bytes {value[:16].hex()}…"


def _beside(found: Any, expected: Any) -> tuple[str, str]:
    """Both as text; of long ones the part around the first character that differs."""
    one, other = repr(found), repr(expected)
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(0, same - SHOWN // 3) if max(len(one), len(other)) > SHOWN else 0
    return _part(one, start), _part(other, start)


def _part(shown: str, start: int) -> str:
    end = start + SHOWN
    return ("…" if start else "") + shown[start:end] + ("…" if end < len(shown) else "")
