"""What every node of the surface costs, by estimate (readers.md §5.2), and the system nodes on it.

The price stands in the node itself (``operators/nodes.py``), so it comes and goes with the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from immutables import Map
from msgspec import Raw

from operators.events import (
    AssistantMessage,
    DeveloperMessage,
    Event,
    Shape,
    SystemMessage,
    ToolResult,
)

from .estimate import BLOCK, MESSAGE, content_price, system_price

if TYPE_CHECKING:
    from operators.nodes import Node
    from operators.surface import Surface

_WRAPPED = (Shape.RESULT_WRAPPED | Shape.RESULT_FLAT).value


def price(event: Event) -> int:
    """The price of a surface event; 0 where its empty content projects to nothing. Raises
    ``UnreadableError``."""
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


class Systems:
    """The system nodes of the surface that say something: their prices by seq. ``last``: the price
    of the last of them in surface order; ``any``: the log has system messages, as those of v3 and
    later do. What the surface holds belongs to a fork's child, too."""

    __slots__ = ("any", "last", "prices")

    def __init__(self) -> None:
        self.any = False
        self.last = 0
        self.prices: Map[int, int] = Map()

    def fork(self) -> Systems:
        twin = Systems.__new__(Systems)
        twin.any, twin.last, twin.prices = self.any, self.last, self.prices
        return twin

    def saved(self) -> bool:
        return self.any

    @classmethod
    def found(cls, any_: bool) -> Systems:
        """What a snapshot's head says; ``restored`` when the surface is there."""
        made = cls()
        made.any = any_
        return made

    @classmethod
    def restored(cls, surface: Surface) -> Systems:
        """Of a log that has system messages."""
        made = cls.found(True)
        said = (node for node in surface.nodes() if node.type == "system/message")
        for node in said:
            if node.tokens:
                made.prices, made.last = made.prices.set(node.seq, node.tokens), node.tokens
        return made

    def append(self, node: Node) -> None:
        """A system message at the tail."""
        self.any = True
        if node.tokens:
            self.prices, self.last = self.prices.set(node.seq, node.tokens), node.tokens

    def replace(self, gone: Iterable[Node], node: Node | None, now: Surface) -> None:
        """Nodes left the surface; a system message may have taken their place."""
        before = self.prices
        for left in gone:
            if left.seq in self.prices:
                self.prices = self.prices.delete(left.seq)
        if node is not None:
            self.any = True
            if node.tokens:
                self.prices = self.prices.set(node.seq, node.tokens)
        if self.prices is not before:
            there = [found for found in map(now.find, self.prices) if found is not None]
            self.last = max(there, key=lambda found: found.key).tokens if there else 0
