"""What every node of the surface costs, by estimate (readers.md §5.2).

Beside the surface, not in it: a map from seq to tokens whose segments a snapshot saves as it saves
those of any :class:`~operators.table.Table`. Sums by surface segment tell what stands before a
place without asking every node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from immutables import Map
from msgspec import Raw

from operators.changes import SurfaceChange
from operators.events import (
    AssistantMessage,
    DeveloperMessage,
    Event,
    Shape,
    SystemMessage,
    ToolResult,
)
from operators.surface import SEGMENT, Key, Surface
from operators.table import SHIFT, Table

from .estimate import BLOCK, MESSAGE, content_price, system_price

_WRAPPED = Shape.RESULT_WRAPPED | Shape.RESULT_FLAT


def price(event: Event) -> int:
    """The price of a surface event; 0 where its empty content projects to nothing."""
    body = event.body
    if isinstance(body, SystemMessage):
        return system_price(body.content)
    if isinstance(body, ToolResult):
        total = content_price(body.content) + MESSAGE
        return total + BLOCK if event.shapes & _WRAPPED else total
    if isinstance(body, AssistantMessage | DeveloperMessage) and body.empty:
        return 0
    content: Raw = body.content  # type: ignore[union-attr, assignment]
    return content_price(content) + MESSAGE


class Prices:
    """``total`` is the exact sum over the surface. ``systems``: the non-empty system nodes."""

    __slots__ = ("last_system", "moved", "sums", "systems", "table", "tail", "tail_sum", "total")

    def __init__(self) -> None:
        self.table: Table[int] = Table()
        self.moved: Map[int, int] = Map()  # nodes that replaced others: their surface segment
        self.sums: Map[int, int] = Map()  # by surface segment
        self.tail = -1  # the segment that the newest appended node is in, and its sum
        self.tail_sum = 0
        self.total = 0
        self.systems: Map[int, int] = Map()
        self.last_system = 0  # the price of the last of them in surface order

    def fork(self) -> Prices:
        twin = Prices.__new__(Prices)
        twin.table = self.table.fork()
        twin.tail, twin.tail_sum = self.tail, self.tail_sum
        twin.moved, twin.sums, twin.total = self.moved, self.sums, self.total
        twin.systems, twin.last_system = self.systems, self.last_system
        return twin

    # --- what a snapshot saves: the table's segments ------------------------------------------

    def segment(self, number: int) -> list[tuple[int, int]]:
        """(seq, tokens) of one segment of the table; empty when its nodes are gone."""
        first = number << SHIFT
        found = ((seq, self.table.get(seq)) for seq in range(first, first + (1 << SHIFT)))
        return [(seq, tokens) for seq, tokens in found if tokens is not None]

    @classmethod
    def restored(cls, rows: Iterable[tuple[int, int]], surface: Surface) -> Prices:
        """From the rows of all segments, beside the surface they belong to."""
        made = cls()
        made.table = Table(Map(rows))
        for node in surface.nodes():
            tokens, number = made.table.get(node.seq) or 0, int(node.key // SEGMENT)
            made.total += tokens
            made._add(number, tokens)
            if node.key != node.seq:
                made.moved = made.moved.set(node.seq, number)
            if node.type == "system/message" and tokens:
                made.systems = made.systems.set(node.seq, tokens)
                made.last_system = tokens
        return made

    # --- changes ------------------------------------------------------------------------------

    def append(self, seq: int, tokens: int, is_system: bool) -> None:
        self.table.put(seq, tokens)
        self.total += tokens
        number = seq // SEGMENT
        if number > self.tail:
            tail, tail_sum = self.tail, self.tail_sum
            self.tail, self.tail_sum = number, 0
            self._add(tail, tail_sum)
        self._add(number, tokens)
        if is_system and tokens:
            self.systems = self.systems.set(seq, tokens)
            self.last_system = tokens

    def replace(self, change: SurfaceChange, tokens: int, is_system: bool, now: Surface) -> int:
        """After the surface carried out the change; the tokens of what it shadowed."""
        gone, systems = 0, self.systems
        for seq in change.shadowed:
            held = self.table.get(seq) or 0
            gone += held
            self._add(self.moved.get(seq, seq // SEGMENT), -held)
            self.table.drop(seq)
            if seq in self.moved:
                self.moved = self.moved.delete(seq)
            if seq in self.systems:
                self.systems = self.systems.delete(seq)
        node = now.find(change.seq)
        number = change.seq // SEGMENT if node is None else int(node.key // SEGMENT)
        self.table.put(change.seq, tokens)
        self.moved = self.moved.set(change.seq, number)
        self._add(number, tokens)
        self.total += tokens - gone
        if is_system and tokens:
            self.systems = self.systems.set(change.seq, tokens)
        if self.systems is not systems:
            self.last_system = self._last(now)
        return gone

    def _add(self, number: int, tokens: int) -> None:
        """To the sum of a segment; that of the tail's is kept by itself, as most go there."""
        if number == self.tail:
            self.tail_sum += tokens
            return
        held = self.sums.get(number, 0) + tokens
        if held:
            self.sums = self.sums.set(number, held)
        elif number in self.sums:
            self.sums = self.sums.delete(number)

    def _last(self, now: Surface) -> int:
        nodes = [node for node in map(now.find, self.systems) if node is not None]
        if not nodes:
            return 0
        return self.systems[max(nodes, key=lambda node: node.key).seq]

    def before(self, key: Key, now: Surface) -> int:
        """The tokens of the nodes that stand before that order key: O(segments), as a position."""
        number = key // SEGMENT
        whole = now.spine[: bisect_left(now.spine, number)]
        partly = now.segments.get(number, ())
        total = sum(self.sums.get(segment, 0) for segment in whole)
        if self.tail < number:
            total += self.tail_sum
        return total + sum(self.table.get(node.seq) or 0 for node in partly if node.key < key)
