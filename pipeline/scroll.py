"""The order in which a terminal shows rows: each once it is settled, none before those above it.

What stands on a terminal is not taken back, so a row is shown when nothing more is expected of it,
and in the transcript's order: one that still runs holds up those after it. That hangs on the rows
alone, so a log that is replayed shows what was shown while it was written. A row that changes after
all (a result that comes when its turn is over) is shown again, at the end.

A compaction is not waited for, as its marker stands where it lands; its end, a command, a retry
only until the log goes on behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from operators.changes import (
    AssistantData,
    CommandData,
    CompactionData,
    RetryData,
    SubCall,
    ToolData,
    TranscriptRow,
)

Position: TypeAlias = tuple[int, int, str]


class Piece(Struct, frozen=True):
    """A row to show now. ``again``: as it was shown before, it is no more; deleted or auxiliary
    now, if it is to be shown no longer."""

    row: TranscriptRow
    again: bool = False


class Scroll:
    """``plain`` says what a person would see of a row: one that changes otherwise is not shown
    again. ``auxiliary``: those are shown, too."""

    def __init__(self, plain: Callable[[TranscriptRow], str], *, auxiliary: bool = False) -> None:
        self._plain = plain
        self._auxiliary = auxiliary
        self._waiting: dict[str, TranscriptRow] = {}
        self._shown: dict[str, int] = {}  # what of each, by key
        self._compacting: dict[str, TranscriptRow] = {}
        self._last: Position = (-1, 0, "")  # of the settled rows
        self.hidden: set[str] = set()  #: keys of the auxiliary rows that are not shown

    def take(self, rows: Iterable[TranscriptRow]) -> list[Piece]:
        """What to show, once these rows are as they are here."""
        changed = [piece for row in rows for piece in self._changed(row)]
        return changed + self._released()

    def rest(self, rows: Iterable[TranscriptRow] = ()) -> list[Piece]:
        """Nothing more comes: what is left, as it stands. ``rows``: some of it, as it is now."""
        pieces = self.take(rows)
        left = sorted(self._waiting.values(), key=position)
        self._waiting.clear()
        return pieces + [Piece(row, row.key in self._shown) for row in left]

    @property
    def underway(self) -> TranscriptRow | None:
        """What runs now: a compaction before all else."""
        if self._compacting:
            return next(iter(self._compacting.values()))
        left = sorted(self._waiting.values(), key=position)
        return next((row for row in left if not settled(row)), None)

    def _changed(self, row: TranscriptRow) -> list[Piece]:
        wanted = self.wants(row)
        self._compacting.pop(row.key, None)
        if isinstance(row.data, CompactionData) and row.data.status == "running":
            self._compacting[row.key] = row
        if settled(row) and not row.deleted:
            self._last = max(self._last, position(row))
        self._waiting.pop(row.key, None)
        before = self._shown.get(row.key)
        if not wanted:
            self._shown.pop(row.key, None)
            return [] if before is None else [Piece(row, again=True)]
        if before is None:
            self._waiting[row.key] = row
        elif before != (digest := self._digest(row)):
            if not settled(row):
                self._waiting[row.key] = row
                return []
            self._shown[row.key] = digest
            return [Piece(row, again=True)]
        return []

    def wants(self, row: TranscriptRow) -> bool:
        """Whether the row is to be shown at all."""
        hidden = row.visibility != "transcript" and not self._auxiliary
        (self.hidden.add if hidden and not row.deleted else self.hidden.discard)(row.key)
        return not row.deleted and not hidden

    def _released(self) -> list[Piece]:
        found: list[Piece] = []
        left = sorted(self._waiting.values(), key=position) if self._waiting else []
        for at, row in enumerate(left):
            if settled(row) or self._overtaken(row, left[at + 1 :]):
                found.append(Piece(row, row.key in self._shown))
                self._shown[row.key] = self._digest(row)
                del self._waiting[row.key]
            elif row.key not in self._shown and not isinstance(row.data, CompactionData):
                break
        return found

    def _overtaken(self, row: TranscriptRow, after: list[TranscriptRow]) -> bool:
        """Whether the log went on behind it, so that it is shown as it stands."""
        landed = isinstance(row.data, CompactionData) and row.data.status == "landed"
        if landed or isinstance(row.data, RetryData):
            return self._last > position(row)
        return isinstance(row.data, CommandData) and any(each.kind == "user" for each in after)

    def _digest(self, row: TranscriptRow) -> int:
        return xxh3_64_intdigest(self._plain(row).encode("utf-8", "surrogatepass"))


def position(row: TranscriptRow) -> Position:
    """Where the row stands in its transcript."""
    return row.anchor_seq, row.anchor_rank, row.key


def settled(row: TranscriptRow) -> bool:
    """Whether nothing more is expected of the row by itself."""
    match row.data:
        case AssistantData() | CommandData():
            return row.data.status != "running"
        case CompactionData() if row.data.status == "landed":
            return row.data.start_seq is None or row.data.end_time is not None
        case CompactionData():
            return row.data.status != "running"
        case ToolData():
            return row.data.status != "running" and not _any_running(row.data.sub_calls)
        case RetryData():
            return row.data.status == "cancelled"
        case _:
            return True


def _any_running(calls: tuple[SubCall, ...]) -> bool:
    left = list(calls)
    while left:
        call = left.pop()
        if call.status == "running":
            return True
        left += call.sub_calls
    return False
