"""A persistent map from seq to record that knows which of its segments a snapshot must save again.

Every record a fold keeps for long was made by one event, so its key is a seq. Sixteen neighbouring
keys are one *segment*; a change marks its segment and nothing else, so what a batch saves does not
grow with the session. The map itself shares structure between versions (``immutables.Map``), so a
copy is O(1) and the original is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from immutables import Map

V = TypeVar("V")

SHIFT = 4  #: 16 seqs to a segment


class Table(Generic[V]):
    """Get, put and drop by seq: O(log32 n); ``fork`` O(segments changed since the last save)."""

    __slots__ = ("dirty", "rows")

    def __init__(self, rows: Map[int, V] | None = None) -> None:
        self.rows: Map[int, V] = Map() if rows is None else rows
        self.dirty: set[int] = set()

    def fork(self) -> Table[V]:
        twin: Table[V] = Table.__new__(Table)
        twin.rows, twin.dirty = self.rows, self.dirty.copy()
        return twin

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[int]:
        """The keys, in no order."""
        return iter(self.rows)

    def get(self, key: int) -> V | None:
        return self.rows.get(key)

    def __getitem__(self, key: int) -> V:
        return self.rows[key]

    def put(self, key: int, value: V) -> None:
        self.rows = self.rows.set(key, value)
        self.dirty.add(key >> SHIFT)

    def drop(self, key: int) -> None:
        """Forget a record; one that is not there is no error."""
        if key in self.rows:
            self.rows = self.rows.delete(key)
            self.dirty.add(key >> SHIFT)

    def segment(self, number: int) -> list[V]:
        """The records of one segment, by key; empty when all are gone."""
        first = number << SHIFT
        found = map(self.rows.get, range(first, first + (1 << SHIFT)))
        return [value for value in found if value is not None]
