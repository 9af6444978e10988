"""Text is taken in after the rows that were published before it (projection.md §5.1).

Topics are read each at its own pace, and text tells by its offset alone whether it goes on where a
row ends. Text that overtook a new version of its row could fit the old one, and would give it a
revision above that of the version to come: nobody would take that in any more. So text waits until
the rows are read as far as they were written when the text was found: whoever can be read has
written all of its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pipeline.ports import InRecord

from .changes import Offsets, Place
from .tail import Records, Taken

TEXT: Final = "partials"
ROWS: Final = "transcript"
HELD_POLL_S = 0.02  #: while text waits: what it waits for is being written, or a marker only


class _Waiting(Struct):
    """Records of one partition, the offset after them, and how far rows are to be read first."""

    records: list[InRecord]
    offset: int
    rows: int


class TextAfterRows:
    """A tail's records from ``start`` on. Of a partition whose text waits no more text is read, so
    what waits is at most what one poll brought."""

    def __init__(self, tail: Records, start: Offsets) -> None:
        self._tail = tail
        self._rows = {partition: at for (role, partition), at in start.items() if role == ROWS}
        self._waiting: dict[int, _Waiting] = {}

    def take(self, timeout_s: float) -> Taken:
        """As `Records.take`, the offsets of text that waits left out."""
        held = frozenset((TEXT, partition) for partition in self._waiting)
        taken = self._tail.take(min(timeout_s, HELD_POLL_S) if held else timeout_s, held)
        self._rows |= _of(ROWS, taken.offsets)
        self._wait(taken.records.get(TEXT, ()), _of(TEXT, taken.offsets))
        offsets = {place: at for place, at in taken.offsets.items() if place[0] != TEXT}
        text: list[InRecord] = []
        for partition, waiting in tuple(self._waiting.items()):
            if self._rows.get(partition, 0) >= waiting.rows:
                del self._waiting[partition]
                text += waiting.records
                offsets[TEXT, partition] = waiting.offset
        return Taken({**taken.records, TEXT: text}, offsets)

    def _wait(self, records: Sequence[InRecord], moved: dict[int, int]) -> None:
        found: dict[int, list[InRecord]] = {partition: [] for partition in moved}
        for record in records:
            found[record.partition].append(record)
        asked: list[Place] = [(ROWS, partition) for partition, some in found.items() if some]
        written = self._tail.written(asked) if asked else {}
        for partition, some in found.items():
            rows = written.get((ROWS, partition), 0)
            self._waiting[partition] = _Waiting(some, moved[partition], rows)


def _of(role: str, offsets: Offsets) -> dict[int, int]:
    return {partition: at for (name, partition), at in offsets.items() if name == role}
