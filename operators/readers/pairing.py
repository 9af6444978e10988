"""Tool pairing: where the surface may be cut, and what replacements tore apart (readers.md §9).

Calls and results are counted, not matched by id: an assistant message opens as many calls as it has
tool-call blocks, a result closes one. What a node counts for lies in the node itself: the number of
calls where a tool result has its digest (``Node.identity``), so nothing is kept per node here.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from operators.events import (
    AssistantMessage,
    DeveloperMessage,
    Event,
    SystemMessage,
    ToolResult,
    UserMessage,
)
from operators.nodes import Node

from .held import Handlers, Held, Shadowed

TORN = "reader:toolPairing"  #: quality fact: a replacement tore a pair, or a result came too much


def weight(node: Node) -> int:
    """What a node adds to the calls that wait for a result."""
    if node.type == "assistant/message":
        return node.identity
    return -1 if node.type == "tool/result" else 0


# --- the whole answer, read off the nodes ------------------------------------------------


class Cuts(Struct, frozen=True, gc=False):
    """``before[i]`` and ``after[i]``: whether the surface may be cut there. On a corrupt surface
    (a result more than calls before it) both are None and ``corrupt`` is the seq of that node."""

    before: tuple[bool, ...] | None
    after: tuple[bool, ...] | None
    corrupt: int | None = None


def cuts(nodes: Iterable[Node]) -> Cuts:
    """The balanced cuts of a surface, its nodes in surface order. O(nodes), nothing kept."""
    waiting = 0
    balanced = [True]
    for node in nodes:
        waiting += weight(node)
        if waiting < 0:
            return Cuts(None, None, node.seq)
        balanced.append(waiting == 0)
    return Cuts(tuple(balanced[:-1]), tuple(balanced[1:]))


# --- what is known all the time -------------------------------------------------------------------


class Pairs(Struct, frozen=True, array_like=True, gc=False):
    """``waiting``: calls on the surface without a result on it, less results without a call.
    ``orphan_calls`` and ``orphan_results``: how many the replacements so far tore from the other
    half. ``corrupt``: the first result that came to a surface on which no call waited."""

    waiting: int = 0
    orphan_calls: int = 0
    orphan_results: int = 0
    corrupt: int | None = None


class Pairing(Held[Pairs]):
    """Belongs to the surface, so a fork's child keeps it over its cut."""

    __slots__ = ()
    EMPTY = Pairs()

    def cut(self) -> Pairing:
        return self.fork()

    def on_assistant(self, event: Event, body: AssistantMessage, gone: Shadowed) -> str | None:
        if body.calls or gone:
            return self._land(event, len(body.calls), gone)
        return None

    def on_result(self, event: Event, _: ToolResult, gone: Shadowed) -> str | None:
        return self._land(event, -1, gone)

    def on_other(self, event: Event, _: object, gone: Shadowed) -> str | None:
        return self._land(event, 0, gone)

    def _land(self, event: Event, comes: int, gone: Shadowed) -> str | None:
        """A node that counts ``comes`` stands where ``gone`` stood."""
        leaves, lowest = 0, 0
        for node in gone:
            leaves += weight(node)
            lowest = min(lowest, leaves)
        # What leaves needed -lowest calls from before it and left leaves - lowest to what follows.
        calls = max(0, -lowest - max(0, -comes))
        results = max(0, leaves - lowest - max(0, comes))
        old = self.state
        waiting = old.waiting + comes - leaves
        corrupt = old.corrupt
        if waiting < 0 and not gone and corrupt is None:
            corrupt = event.seq
        self.state = Pairs(waiting, old.orphan_calls + calls, old.orphan_results + results, corrupt)
        return TORN if calls or results or corrupt != old.corrupt else None

    def value(self) -> Pairs:
        return self.state


PAIRING: Handlers = {
    AssistantMessage: Pairing.on_assistant,
    ToolResult: Pairing.on_result,
}
REPLACING: Handlers = {
    UserMessage: Pairing.on_other,
    SystemMessage: Pairing.on_other,
    DeveloperMessage: Pairing.on_other,
}
