"""What ``compaction/summary`` events said, for the checkpoints that cite them (§5.3)."""

from __future__ import annotations

from bisect import bisect_left

from immutables import Map
from msgspec import Struct

from .events import BadSources, Sources
from .table import Table


class Summary(Struct, frozen=True, array_like=True, gc=False):
    """What a ``compaction/summary`` event said."""

    key: int
    compaction_id: str | None
    named: bool
    text: str | None
    item_count: int | None
    token_count: int | None


class Summaries:
    """All summaries of the session: few, and kept."""

    __slots__ = ("of_id", "seqs", "table")

    def __init__(self) -> None:
        self.table: Table[Summary] = Table()
        self.seqs: list[int] = []  # ascending
        self.of_id: Map[str, tuple[int, ...]] = Map()

    def fork(self) -> Summaries:
        twin = Summaries.__new__(Summaries)
        twin.table, twin.seqs, twin.of_id = self.table.fork(), self.seqs.copy(), self.of_id
        return twin

    def index(self) -> None:
        """Build what can be looked up from the records (after a restore)."""
        for seq in sorted(self.table):
            self._index(self.table[seq])

    def put(self, summary: Summary) -> None:
        self.table.put(summary.key, summary)
        self._index(summary)

    def _index(self, summary: Summary) -> None:
        self.seqs.append(summary.key)
        if summary.compaction_id is not None:
            held = self.of_id.get(summary.compaction_id, ())
            self.of_id = self.of_id.set(summary.compaction_id, (*held, summary.key))

    def cited(self, sources: Sources | BadSources | None) -> Summary | None:
        """The first summary among the sources, in their order, even if it is blank."""
        if not isinstance(sources, Sources):
            return None
        for first, last in sources.ranges:
            at = bisect_left(self.seqs, first)
            if at < len(self.seqs) and self.seqs[at] <= last:
                return self.table[self.seqs[at]]
        return None

    def only_of(self, compaction_id: str | None) -> Summary | None:
        """The summary of that id when there is exactly one so far."""
        seqs = self.of_id.get(compaction_id, ()) if compaction_id is not None else ()
        return self.table[seqs[0]] if len(seqs) == 1 else None
