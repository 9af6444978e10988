"""Statements that SQLite and PostgreSQL spell alike but SQLAlchemy keeps apart, made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(connection: Connection, table: Table, key: Sequence[Column[Any]]) -> Any:
    """Insert, or put in the place of what has that key."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(table)
    names = {column.name for column in key} | {c.name for c in table.primary_key}
    values = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in names}
    return statement.on_conflict_do_update(index_elements=list(key), set_=values)


def insert_new(connection: Connection, table: Table) -> Any:
    """Insert; what is there stays."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return insert(table).on_conflict_do_nothing()


def run(connection: Connection, statement: Any, values: list[dict[str, Any]]) -> None:
    """Once per element; nothing for none."""
    if values:
        connection.execute(statement, values)
