"""The order of a session's lines: what is next, what came before, what was never seen (§3).

A line whose seq is below ``next_seq`` is a redelivery unless it falls into a range that was never
seen (a gap, or all before a window's start); then it is late. The digests of the last lines that
took a seq tell a redelivery from a conflict.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from enum import Enum

DIGESTS = 64  #: lines whose digest is remembered (projection.md §3)


class Place(Enum):
    """Where a line stands against what was folded before."""

    NEXT = "next"
    GAP = "gap"  #: later than expected: the seqs in between are missing
    AGAIN = "again"  #: a redelivery, equal or too old to tell
    CONFLICT = "conflict"  #: a redelivery with other bytes than the first
    LATE = "late"  #: belongs to a range that was given up
    OVERLAP = "overlap"  #: a packed row that was folded in part


class Order:
    """``next_seq``, the unseen ranges, and the digests of the last lines, by first seq."""

    __slots__ = ("gaps", "next_seq", "recent", "start")

    def __init__(self) -> None:
        self.next_seq = 0
        self.start: int | None = None  # first seq taken; None before
        self.gaps: list[tuple[int, int]] = []  # first, last; ascending
        #: first seq and digest of the last lines that took a seq
        self.recent: deque[tuple[int, int]] = deque(maxlen=DIGESTS)

    def fork(self) -> Order:
        twin = Order.__new__(Order)
        twin.next_seq, twin.start = self.next_seq, self.start
        twin.gaps = self.gaps.copy()
        twin.recent = self.recent.copy()
        return twin

    @property
    def is_window(self) -> bool:
        """Whether something of the log was not seen (§7)."""
        return bool(self.start or self.gaps)

    @property
    def seen_to(self) -> int:
        """Every seq below this one was seen, from the log's first on."""
        if self.start:
            return 0
        return self.gaps[0][0] if self.gaps else self.next_seq

    def unseen(self, seq: int) -> bool:
        """Whether that seq lies before the window's start or in a gap."""
        if self.start is not None and seq < self.start:
            return True
        at = bisect_right(self.gaps, (seq, float("inf"))) - 1
        return at >= 0 and self.gaps[at][0] <= seq <= self.gaps[at][1]

    def place(self, seq: int, count: int, digest: int) -> Place:
        """Where a line of ``count`` seqs from ``seq`` stands; changes nothing."""
        if seq == self.next_seq or self.start is None:
            return Place.NEXT
        if seq > self.next_seq:
            return Place.GAP
        if seq + count > self.next_seq:
            return Place.OVERLAP
        if self.unseen(seq):
            return Place.LATE
        held = [known for first, known in self.recent if first == seq]
        return Place.CONFLICT if held and digest not in held else Place.AGAIN

    def take(self, seq: int, count: int, digest: int) -> tuple[int, int] | None:
        """Take a line's seqs, as far as they are new; the gap it leaves open before it, if any."""
        gap = None
        if self.start is None or seq > self.next_seq:
            gap = self.give_up(seq)
        self.next_seq = seq + count
        self.recent.append((seq, digest))
        return gap

    def give_up(self, seq: int) -> tuple[int, int] | None:
        """Do without what is missing before ``seq``; the gap, or None at the start of a window."""
        gap = None
        if self.start is None:
            self.start = seq
        else:
            gap = (self.next_seq, seq - 1)
            self.gaps.append(gap)
        self.next_seq = seq
        return gap
