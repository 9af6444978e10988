"""What a proof must remember, in a temporary SQLite file: memory stays flat however much it is.

Of the partition at hand: chains per session, last records per key, cold states. Over all
partitions: dead letters and named sessions. Nothing outlives the process, so nothing is synced.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from msgspec import Struct

from pipeline.errors import Fatal

from .records import NOTHING

KEPT_CHAINS = 20_000  #: in memory; about 10 MB
KEPT_LASTS = 20_000  #: gathered before they are written in the order of their keys
CACHE_KIB = 32 * 1024  #: of SQLite

#: What is known of a session. `WINDOW`: its first record left is not its first. `BROKEN`: surface
#: and fold parted where both had as many records.
KNOWN, WINDOW, BROKEN = 1, 2, 4

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE chains (
    session BLOB PRIMARY KEY, fold_count, fold, topic_count, topic, events_count, events, flags
) WITHOUT ROWID;
CREATE TABLE lasts (
    role TEXT, key BLOB, fold BLOB, fold_seq INTEGER, topic BLOB, topic_seq INTEGER, offset INTEGER,
    PRIMARY KEY (role, key)
) WITHOUT ROWID;
CREATE TABLE segments (
    partition INTEGER, session TEXT, segment TEXT, value BLOB,
    PRIMARY KEY (partition, session, segment)
) WITHOUT ROWID;
CREATE TABLE letters (
    digest BLOB PRIMARY KEY, partition INTEGER, offset INTEGER, session BLOB, key BLOB, seq INTEGER,
    reason TEXT, met INTEGER
) WITHOUT ROWID;
CREATE TABLE named (kind TEXT, session BLOB, PRIMARY KEY (kind, session)) WITHOUT ROWID;
"""


class Chain(Struct):
    """One session's sequences: what the fold gives for the surface, what the surface topic has, and
    its events."""

    fold_count: int = 0
    fold: bytes = NOTHING
    topic_count: int = 0
    topic: bytes = NOTHING
    events_count: int = 0
    events: bytes = NOTHING
    flags: int = 0

    def met(self) -> None:
        """One side grew: where both have as many, they must be equal."""
        if self.fold_count == self.topic_count and self.fold != self.topic:
            self.flags |= BROKEN


class Last(Struct, frozen=True):
    """A key whose last record is not what the fold gives (None: there is none, or it is deleted).
    Digests, each with the seq of the event it comes from."""

    role: str
    key: bytes
    fold: bytes | None
    fold_seq: int | None
    topic: bytes | None
    topic_seq: int | None
    offset: int | None

    @property
    def seq(self) -> int:
        """By which the first of several differences is found."""
        seqs = [seq for seq in (self.fold_seq, self.topic_seq) if seq is not None]
        return min(seqs, default=-1)


class Scratch:
    """A context manager over one temporary file. `Fatal` when its disk is full."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="foldstream-verify-")
        self.db = sqlite3.connect(Path(self._folder.name) / "proof.sqlite", isolation_level=None)
        self.db.executescript(f"PRAGMA cache_size = -{CACHE_KIB};{_TABLES}")
        self.db.execute("BEGIN")
        self._chains: OrderedDict[bytes, Chain] = OrderedDict()
        self._lasts: dict[str, dict[tuple[str, bytes], tuple[bytes | None, int | None, int]]] = {
            "fold": {},
            "topic": {},
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.db.close()
        self._folder.cleanup()

    def clear(self) -> None:
        """The next partition begins with nothing."""
        self._chains.clear()
        for table in ("chains", "lasts", "segments"):
            self.db.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names

    # --- chains -----------------------------------------------------------------------------------

    def chain(self, session: bytes) -> Chain:
        """The session's chain; what is changed in it stays."""
        found = self._chains.get(session)
        if found is not None:
            return found
        if len(self._chains) >= KEPT_CHAINS:
            self._write_chains(KEPT_CHAINS // 2)
        row = self.db.execute("SELECT * FROM chains WHERE session = ?", (session,)).fetchone()
        found = self._chains[session] = Chain() if row is None else Chain(*row[1:])
        return found

    def _write_chains(self, count: int) -> None:
        """The oldest ones. First in, first out: a touch costs nothing, and a busy session comes
        back with one read."""
        rows = []
        for _ in range(min(count, len(self._chains))):
            session, chain = self._chains.popitem(last=False)
            rows.append((session, *(getattr(chain, name) for name in Chain.__struct_fields__)))
        rows.sort(key=lambda row: row[0])
        with full():
            self.db.executemany("REPLACE INTO chains VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    # --- last records -----------------------------------------------------------------------------

    def expect(self, role: str, key: bytes, value: bytes | None, seq: int | None) -> None:
        """The fold's last record of ``key`` so far, by its digest (None: the row is gone)."""
        pending = self._lasts["fold"]
        pending[role, key] = (value, seq, 0)
        if len(pending) >= KEPT_LASTS:
            self._write_lasts()

    def find(
        self, role: str, key: bytes, value: bytes | None, seq: int | None, offset: int
    ) -> None:
        """The topic's last record of ``key`` so far."""
        pending = self._lasts["topic"]
        pending[role, key] = (value, seq, offset)
        if len(pending) >= KEPT_LASTS:
            self._write_lasts()

    def _write_lasts(self) -> None:
        fold, topic = self._lasts["fold"], self._lasts["topic"]
        with full():
            self.db.executemany(
                "INSERT INTO lasts (role, key, fold, fold_seq) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET fold = excluded.fold, fold_seq = excluded.fold_seq",
                ((*at, value, seq) for at, (value, seq, _) in sorted(fold.items(), key=_by_key)),
            )
            self.db.executemany(
                "INSERT INTO lasts (role, key, topic, topic_seq, offset) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET topic = excluded.topic, "
                "topic_seq = excluded.topic_seq, offset = excluded.offset",
                ((*at, *found) for at, found in sorted(topic.items(), key=_by_key)),
            )
        fold.clear()
        topic.clear()

    # --- what came of it --------------------------------------------------------------------------

    def settle(self) -> None:
        """Everything gathered is in the tables."""
        self._write_chains(len(self._chains))
        self._write_lasts()

    def broken_chains(self) -> Iterator[bytes]:
        """Sessions whose surface is not the fold's."""
        yield from _first(
            self.db.execute(
                "SELECT session FROM chains WHERE fold_count IS NOT topic_count "
                "OR fold IS NOT topic OR flags & ?",
                (BROKEN,),
            )
        )

    def broken_lasts(self) -> Iterator[Last]:
        """Keys whose last record is not the fold's, in the order of the keys."""
        for row in self.db.execute("SELECT * FROM lasts WHERE fold IS NOT topic"):
            yield Last(*row)

    def chains(self) -> Iterator[tuple[bytes, Chain]]:
        for session, *fields in self.db.execute("SELECT * FROM chains"):
            yield session, Chain(*fields)

    def topic_lasts(self) -> Iterator[tuple[str, bytes]]:
        """Role and digest of each key that is there."""
        yield from self.db.execute("SELECT role, topic FROM lasts WHERE topic IS NOT NULL")

    # --- sessions by name -------------------------------------------------------------------------

    def name(self, kind: str, sessions: Iterable[bytes]) -> None:
        with full():
            self.db.executemany(
                "INSERT OR IGNORE INTO named VALUES (?, ?)", ((kind, s) for s in sessions)
            )

    def names(self, kind: str, most: int) -> tuple[int, list[bytes]]:
        """How many sessions of the kind, and the first of them by name."""
        count = self.db.execute("SELECT count(*) FROM named WHERE kind = ?", (kind,)).fetchone()[0]
        rows = self.db.execute(
            "SELECT session FROM named WHERE kind = ? ORDER BY session LIMIT ?", (kind, most)
        )
        return count, list(_first(rows))

    def is_named(self, kind: str, session: bytes) -> bool:
        row = self.db.execute(
            "SELECT 1 FROM named WHERE kind = ? AND session = ?", (kind, session)
        ).fetchone()
        return row is not None


@contextmanager
def full() -> Iterator[None]:
    """A full disk in words."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Fatal(
            f"the temporary file of the proof cannot be written: {error}",
            "free space, or name another folder with TMPDIR (about 200 bytes per row and session)",
        ) from error


def _by_key(item: tuple[tuple[str, bytes], object]) -> tuple[str, bytes]:
    return item[0]


def _first(rows: Iterable[tuple[bytes, ...]]) -> Iterator[bytes]:
    return (row[0] for row in rows)
