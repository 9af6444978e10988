"""The read model's tables, the same in SQLite and PostgreSQL.

Ids and keys are their UTF-8 bytes: they may hold U+0000, which PostgreSQL's text does not take, and
bytes sort as code points do, whatever the server's locale. ``offset`` is always that of the record
that last changed the row, in its topic's partition.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

VERSION: Final = "2"  #: of what is below; a database of another one is begun anew
FOREVER: Final = 2**62  #: the seq at which a node leaves that is still there


class Utf8(TypeDecorator[str]):
    """Text as its bytes; unpaired surrogate halves do not occur (outputs.md §1)."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, _: Dialect) -> bytes | None:
        return None if value is None else value.encode("utf-8", "replace")

    def process_result_value(self, value: Any | None, _: Dialect) -> str | None:
        return None if value is None else bytes(value).decode("utf-8", "replace")


metadata = MetaData()

meta = Table("meta", metadata, Column("name", String, primary_key=True), Column("value", Text))

positions = Table(
    "positions",
    metadata,
    Column("role", String, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, nullable=False),
)

#: ``overview`` is null while only other records of the session came. ``events_next``: the seq after
#: the highest event held; ``surface_seq``: of the last change applied. The rest is for the list.
sessions = Table(
    "sessions",
    metadata,
    Column("session", Utf8, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("surface_seq", BigInteger, nullable=False, default=-1),
    Column("seq", BigInteger, nullable=False, default=-1),
    Column("overview", LargeBinary),
    Column("offset", BigInteger, nullable=False, default=-1),
    Column("state", String, nullable=False, default=""),
    Column("title", Utf8, nullable=False, default=""),  # folded
    Column("words", Utf8, nullable=False, default=""),  # what ?q= looks through, folded
    Column("parent", Utf8),
    Column("activity", BigInteger, nullable=False, default=0),
    Column("created", BigInteger, nullable=False, default=0),
    Column("tokens", BigInteger, nullable=False, default=0),
    Column("errors", BigInteger, nullable=False, default=0),
    Column("compactions", BigInteger, nullable=False, default=0),
)
#: What a list may be sorted by: a name of a request to its column.
SORTS: Final = {
    "activity": sessions.c.activity,
    "created": sessions.c.created,
    "title": sessions.c.title,
    "tokens": sessions.c.tokens,
    "errors": sessions.c.errors,
    "compactions": sessions.c.compactions,
}
Index("sessions_by_parent", sessions.c.parent)
for _name, _column in SORTS.items():
    Index(f"sessions_by_{_name}", _column, sessions.c.session)

rows = Table(
    "rows",
    metadata,
    Column("session", Utf8, primary_key=True),
    Column("key", Utf8, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("rev", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("anchor_seq", BigInteger, nullable=False),
    Column("anchor_rank", Integer, nullable=False),
    Column("visibility", String, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("running", Boolean, nullable=False),  # partials may lengthen it
    Column("offset", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("rows_in_order", "session", "anchor_seq", "anchor_rank", "key"),
    Index("rows_by_offset", "session", "offset"),
)

#: Bodies too large for a page, whole; ``path`` within the row's data.
bodies = Table(
    "bodies",
    metadata,
    Column("session", Utf8, primary_key=True),
    Column("key", Utf8, primary_key=True),
    Column("path", String, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: Text that came after its row was published last; gone once the row is published again.
partials = Table(
    "partials",
    metadata,
    Column("session", Utf8, primary_key=True),
    Column("key", Utf8, primary_key=True),
    Column("rev", BigInteger, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("block_type", String, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("text", Utf8, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("time", BigInteger),
    Column("offset", BigInteger, nullable=False),
)

#: Every change of the surface. One that made a node stands at ``place`` among the others, from its
#: own seq until ``gone``; an amendment has neither. ``change`` is the record without its message.
surface = Table(
    "surface",
    metadata,
    Column("session", Utf8, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("op", String, nullable=False),
    Column("place", Double),
    Column("gone", BigInteger),
    Column("change", LargeBinary, nullable=False),
    Column("message", LargeBinary),
    Column("offset", BigInteger, nullable=False),
    Index("surface_nodes", "session", "gone", "place"),
    Index("surface_by_offset", "session", "offset"),
    Index("surface_by_op", "session", "op", "seq"),
)

#: Raw lines, of an epoch that may be ahead of what is folded.
events = Table(
    "events",
    metadata,
    Column("session", Utf8, primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("line", LargeBinary, nullable=False),
)

#: The events that spend a page's budget (`operators.history.Message`).
messages = Table(
    "messages",
    metadata,
    Column("session", Utf8, primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("cut", BigInteger, nullable=False),
)

#: The text that a row is found by; ``folded`` is what is compared, character by character its like.
documents = Table(
    "documents",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("session", Utf8, nullable=False),
    Column("key", Utf8, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("folded", Text, nullable=False),
    UniqueConstraint("session", "key"),
    Index("documents_newest", "time", "session", "seq", "key"),
)

#: All that is held of a session, but the session itself; what an epoch that rose makes void.
OF_A_SESSION: Final = (rows, bodies, partials, surface, documents)

#: SQLite's full-text index over ``documents``: trigrams, kept by triggers.
FULL_TEXT_SQLITE: Final = (
    """CREATE VIRTUAL TABLE documents_index USING fts5(
        folded, content='documents', content_rowid='id', tokenize='trigram case_sensitive 1')""",
    """CREATE TRIGGER documents_inserted AFTER INSERT ON documents BEGIN
        INSERT INTO documents_index(rowid, folded) VALUES (new.id, new.folded); END""",
    """CREATE TRIGGER documents_deleted AFTER DELETE ON documents BEGIN
        INSERT INTO documents_index(documents_index, rowid, folded)
        VALUES ('delete', old.id, old.folded); END""",
    """CREATE TRIGGER documents_updated AFTER UPDATE ON documents BEGIN
        INSERT INTO documents_index(documents_index, rowid, folded)
        VALUES ('delete', old.id, old.folded);
        INSERT INTO documents_index(rowid, folded) VALUES (new.id, new.folded); END""",
)
DROP_SQLITE: Final = ("DROP TABLE IF EXISTS documents_index",)

#: PostgreSQL's: trigrams too.
FULL_TEXT_POSTGRES: Final = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX documents_trigrams ON documents USING gin (folded gin_trgm_ops)",
)
