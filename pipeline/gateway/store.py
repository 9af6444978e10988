"""The read model: one database, SQLite or PostgreSQL, that can be deleted at any time.

It is opened for certain topics (`Identity`); over others, or of another version, it is begun anew.
Writing is the feed's alone. A read sees one moment of the whole database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from pipeline.config import ConfigError
from pipeline.errors import Fatal, Retriable

from . import store_tables as t
from .statements import run, upsert

GONE = -1  #: inode of a file that is not there
BUSY_MS = 5_000  #: a database that another program holds is waited for so long
_VERSION, _IDENTITY, _GOOD = "version", "identity", "good"  #: names in ``meta``
WAIT_S = 10.0  #: for one of the connections
READERS = 16  #: connections at once: as many requests as are worth answering together on few cores


class Held(Struct, frozen=True):
    """Of which topics, and when it was last read on, in epoch ms."""

    identity: str
    good_ms: int


class Store:
    """``url`` as SQLAlchemy's, ``sqlite:///FILE`` or ``postgresql://…``. Nothing is connected to
    before `open`."""

    def __init__(self, url: str) -> None:
        self.url = _url(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self._engine = _engine(self.url, READERS)
        self._writer = _engine(self.url, 1)  # readers that are slow keep nobody from writing
        self._inode: int | None = None  # of SQLite's file, once it is opened

    # --- opening ----------------------------------------------------------------------------------

    def open(self, identity: str) -> bool:
        """Make ready for the topics of ``identity`` (any text that names them); whether what was
        held is gone, as there was nothing yet or it was of other topics. `Retriable` while the
        database is away or locked."""
        self.close()  # a connection from before may still see a file that was taken away
        if self.sqlite and self.url.database:
            with suppress(OSError):  # opening the file says what is the matter
                Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
        with self._ours():
            with self._writer.connect() as connection:
                told = _meta(connection)
            anew = (told.get(_VERSION), told.get(_IDENTITY)) != (t.VERSION, identity)
            if anew:
                self._begin_anew(identity)
            self._inode = self._file()
            return anew

    def _begin_anew(self, identity: str) -> None:
        with self._writer.begin() as connection:
            if self.sqlite:
                for statement in t.DROP_SQLITE:
                    connection.execute(text(statement))
            t.metadata.drop_all(connection)
            t.metadata.create_all(connection)
            for statement in t.FULL_TEXT_SQLITE if self.sqlite else t.FULL_TEXT_POSTGRES:
                connection.execute(text(statement))
            told = [(_VERSION, t.VERSION), (_IDENTITY, identity)]
            connection.execute(t.meta.insert(), [{"name": n, "value": v} for n, v in told])

    def held(self) -> Held | None:
        """What there is to serve, whoever's it is; None for a database without."""
        with self._ours(), self._engine.connect() as connection:
            told = _meta(connection)
        if told.get(_VERSION) != t.VERSION or _IDENTITY not in told or _GOOD not in told:
            return None
        return Held(told[_IDENTITY], int(told[_GOOD]))

    def forget(self) -> None:
        """What is held is not to be believed: the next `open` begins anew."""
        with self.write() as connection:
            connection.execute(delete(t.meta))

    # --- working with it --------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one moment. `Retriable` while the database is away."""
        with self._ours(), self._engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction, all or nothing."""
        with self._ours(), self._writer.connect() as connection:
            if self.sqlite:
                connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    def moved(self) -> bool:
        """Whether the file that was opened is no longer where it was; then all connections are
        closed, and the next `open` makes a new one."""
        if self._inode is None or self._inode == self._file() != GONE:
            return False
        self.close()
        return True

    def _file(self) -> int | None:
        path = self.url.database
        try:
            return Path(path).stat().st_ino if self.sqlite and path else None
        except FileNotFoundError:
            return GONE

    def close(self) -> None:
        self._inode = None
        self._engine.dispose()
        self._writer.dispose()

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """The database's errors by their remedy."""
        try:
            yield
        except OperationalError as error:
            raise Retriable(*explained(self.url, error)) from error
        except DBAPIError as error:
            raise Fatal(*explained(self.url, error)) from error
        except PoolTimeout as error:
            raise Retriable(
                f"database {_shown(self.url)}: {READERS + 1} requests read it and none has ended",
                "ask for less at once; it passes when they end",
            ) from error


def write_good(connection: Connection, now_ms: int) -> None:
    """What is held was all there is at this time."""
    row = [{"name": _GOOD, "value": str(now_ms)}]
    run(connection, upsert(connection, t.meta, (t.meta.c.name,)), row)


def offsets(connection: Connection, *, to_write: bool = False) -> dict[tuple[str, int], int]:
    """Per role and partition, the next record to read. ``to_write``: nobody else moves them before
    this transaction ends."""
    wanted = select(t.positions.c.role, t.positions.c.partition, _OFFSET)
    found = connection.execute(wanted.with_for_update() if to_write else wanted)
    return {(role, partition): offset for role, partition, offset in found}


_OFFSET = t.positions.c.offset


def explained(url: URL, error: DBAPIError) -> tuple[str, str]:
    """What is the matter with the database, and what to do."""
    what = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
    remedies: Mapping[str, str] = {
        "locked": "another program holds it: end that, or name another --database",
        "full": "free some space where it stands",
        "readonly": "make it writable for this user",
        "unable to open": "make its folder, writable for this user",
        "malformed": "delete it: it is rebuilt from the topics",
        "not a database": "delete it: it is rebuilt from the topics",
        "password": "check user and password in --database",
    }
    remedy = next((say for word, say in remedies.items() if word in what), "")
    return f"database {_shown(url)}: {what}", remedy or "start it, or name another --database"


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _meta(connection: Connection) -> dict[str, str]:
    """Empty for a database without our tables."""
    if not inspect(connection).has_table(t.meta.name):
        return {}
    return {each.name: each.value for each in connection.execute(select(t.meta))}


def _url(text: str) -> URL:
    try:
        url = make_url(text)
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise ConfigError(
                f"--database {url.render_as_string()!r} is neither SQLite nor PostgreSQL",
                "say sqlite:///FILE or postgresql://USER@HOST/NAME",
            )
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigError(
            f"--database {text!r} is no address of a database ({error})",
            "say sqlite:///FILE or postgresql://USER@HOST/NAME",
        ) from error
    return url


def _engine(url: URL, connections: int) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(
                url,
                pool_size=connections,
                max_overflow=1,
                pool_timeout=WAIT_S,
                pool_pre_ping=True,
                connect_args=dict(_LIVELY),
            )
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"PostgreSQL needs the package {error.name}",
                "install it: pip install 'foldstream[postgres]'",
            ) from error
    engine = create_engine(url, pool_size=connections, max_overflow=1, pool_timeout=WAIT_S)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


#: A server that has gone without a word is found out (seconds, but the last).
_LIVELY: Mapping[str, int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
    """Readers do not wait for the writer (WAL); a crash of the machine may lose the last
    transactions, which are read again, and never damages (synchronous NORMAL)."""
    connection.isolation_level = None  # transactions are begun by `_begin`, reading ones too
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _begin(connection: Connection) -> None:
    """A writer says so at once: what it read first could else be old when it writes."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
