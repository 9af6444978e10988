"""The surface: what the model is sent, node by node in surface order (projection.md §4, §7).

Nodes are sorted by an *order key*: an appended node's is its own seq, a replacement takes that of
the first node it shadows. Keys never change, so a replacement moves no other node, and its place is
found by bisection. Nodes sit in segments of neighbouring keys; a change touches its segments only.

``plan`` decides without changing anything; ``replace`` cannot fail. No message bodies are kept: a
node is its seq, its type and, for a tool result, the digest a rewrite has to match.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from fractions import Fraction
from operator import attrgetter
from typing import Protocol

from immutables import Map
from msgspec import Struct

from .events import (
    BadMarker,
    Event,
    Replace,
    SourceList,
    Sources,
    SystemMessage,
    ToolResult,
)
from .nodes import Key, Node, node_of
from .sources import EMPTY, Refusal, check_sources, cited, missing, uncited

__all__ = ["SEGMENT", "Key", "Node", "Plan", "Seen", "Surface"]

SEGMENT = 64  #: order keys to a segment
_key = attrgetter("key")


class Seen(Protocol):
    """Which seqs of the log were seen: not those before a window, and not those in a gap."""

    start: int | None  #: the first seq that was seen

    @property
    def seen_to(self) -> int: ...

    def unseen(self, seq: int) -> bool: ...


class Plan(Struct, frozen=True, gc=False):
    """An accepted replacement: the node it adds and the nodes that leave, in surface order."""

    node: Node
    shadowed: tuple[Node, ...]
    partial: bool = False


class Surface:
    """Ordered nodes, the count of landed replacements, and what a snapshot has to save again."""

    __slots__ = (
        *("dirty", "generation", "moved", "segments", "size", "sizes", "spine"),
        *("tokens", "weights"),
    )

    def __init__(self) -> None:
        self.spine: list[int] = []  # numbers of the segments that hold nodes, ascending
        self.sizes: list[int] = []  # how many each holds
        self.weights: list[int] = []  # and their tokens
        self.segments: Map[int, tuple[Node, ...]] = Map()
        self.moved: Map[int, Key] = Map()  # replacement nodes: seq → order key
        self.generation = 0
        self.size = 0
        self.tokens = 0  # of all nodes, an estimate
        self.dirty: set[int] = set()

    def fork(self) -> Surface:
        twin = Surface.__new__(Surface)
        twin.spine, twin.sizes = self.spine.copy(), self.sizes.copy()
        twin.weights, twin.tokens = self.weights.copy(), self.tokens
        twin.segments, twin.moved = self.segments, self.moved
        twin.generation, twin.size = self.generation, self.size
        twin.dirty = self.dirty.copy()
        return twin

    def nodes(self) -> Iterator[Node]:
        """All nodes in surface order."""
        for number in self.spine:
            yield from self.segments[number]

    def find(self, seq: int) -> Node | None:
        """The current node of that seq: O(log n)."""
        key = self.moved.get(seq, seq)
        held = self.segments.get(key // SEGMENT, ())
        at = bisect_left(held, key, key=_key)
        return held[at] if at < len(held) and held[at].seq == seq else None

    def position(self, key: Key) -> int:
        """How many nodes stand before that key."""
        number = key // SEGMENT
        before = sum(self.sizes[: bisect_left(self.spine, number)])
        return before + bisect_left(self.segments.get(number, ()), key, key=_key)

    def tokens_before(self, key: Key) -> int:
        """The tokens of the nodes that stand before that key."""
        number = key // SEGMENT
        before = sum(self.weights[: bisect_left(self.spine, number)])
        return before + sum(n.tokens for n in self.segments.get(number, ()) if n.key < key)

    def between(self, first: Key, last: Key) -> Iterator[Node]:
        """Nodes with order keys from ``first`` to ``last``, both included."""
        low = bisect_left(self.spine, first // SEGMENT)
        high = bisect_right(self.spine, last // SEGMENT)
        for number in self.spine[low:high]:
            for node in self.segments[number]:
                if first <= node.key <= last:
                    yield node

    def put_segment(self, number: int, nodes: tuple[Node, ...]) -> None:
        """Set what a segment holds, as it was saved."""
        self._hold(number, nodes)
        self.size += len(nodes)
        self.tokens += self.weights[bisect_left(self.spine, number)] if nodes else 0
        self.dirty.discard(number)

    # --- deciding -----------------------------------------------------------------------------

    def plan(self, event: Event, seen: Seen) -> Plan | Refusal:
        """What a surface event that is no append does, or the first rule it breaks (§4)."""
        marker = event.marker
        if marker is None:
            return Refusal("surfaceop-missing", f"{event.type} carries no surfaceOp")
        if isinstance(marker, BadMarker):
            return Refusal(marker.reason, marker.message)
        assert isinstance(marker, Replace)
        start, end = self.find(marker.start), self.find(marker.end)
        for name, node, seq in (("start", start, marker.start), ("end", end, marker.end)):
            if node is None and (seq >= event.seq or not seen.unseen(seq)):
                return Refusal(f"replace-{name}-not-found", f"{name} {seq} is no current node")
        guessed = bool((start and start.guessed) or (end and end.guessed))
        if start and end and start.key > end.key and not guessed:
            return Refusal(
                "replace-start-after-end",
                f"{marker.start} stands after {marker.end} on the surface",
            )
        if refusal := check_sources(event):
            return refusal
        if start and end:
            low, high = sorted((start.key, end.key))
            span = tuple(self.between(low, high))
            if not any(node.guessed for node in span):
                return self._plan_replace(event, span, seen)
        return self._plan_partial(event, marker, (start, end), seen)

    def _plan_replace(self, event: Event, shadowed: tuple[Node, ...], seen: Seen) -> Plan | Refusal:
        if left_out := uncited([node.seq for node in shadowed], event.sources):
            return missing(left_out)
        if refusal := self._check_rewrite(event, shadowed, seen):
            return refusal
        return Plan(node_of(event, shadowed[0].key), shadowed)

    def _plan_partial(
        self, event: Event, marker: Replace, ends: tuple[Node | None, Node | None], seen: Seen
    ) -> Plan | Refusal:
        """An endpoint was never seen, or a node between them stands where it was guessed to: what
        is cited between the known ones goes (§7)."""
        start, end = ends
        if start and end and start.key > end.key:
            start, end = end, start
        if isinstance(event.sources, Sources) and not event.sources.count:
            return EMPTY
        known = [node.seq for node in (start, end) if node]
        if left_out := uncited(known, event.sources):
            return missing(left_out)
        shadowed = tuple(
            node
            for node in self._cited(event.sources)
            if (not start or start.key <= node.key) and (not end or node.key <= end.key)
        )
        if isinstance(event.body, ToolResult) and marker.start != marker.end:
            return Refusal("rewrite-not-one-node", "a tool result would replace several nodes")
        if shadowed and (refusal := self._check_rewrite(event, shadowed, seen)):
            return refusal
        if shadowed:
            node = node_of(event, shadowed[0].key, shadowed[0].guessed)
        else:
            node = node_of(event, self._key_after(marker.start, seen), guessed=True)
        return Plan(node, shadowed, partial=True)

    def _cited(self, sources: SourceList) -> list[Node]:
        """The nodes among the sources, in surface order, by whichever of the two is shorter."""
        if not isinstance(sources, Sources):
            return []
        if sources.count > self.size:
            cites = cited(sources)
            return [node for node in self.nodes() if cites(node.seq)]
        seqs = (seq for first, last in sources.ranges for seq in range(first, last + 1))
        return sorted((node for node in map(self.find, seqs) if node), key=_key)

    def _key_after(self, start: int, seen: Seen) -> Key:
        """An order key right after the last node logged before ``start``, else at the head."""
        if not self.size:
            return start
        first = self.segments[self.spine[0]][0].key
        if seen.start is not None and start < seen.start:
            return first - 1
        nodes = list(self.nodes())  # a gap: nothing tells where in it the node stood
        earlier = [at for at, node in enumerate(nodes) if node.seq < start]
        if not earlier:
            return first - 1
        at = max(earlier, key=lambda i: nodes[i].seq)
        low = nodes[at].key
        high = nodes[at + 1].key if at + 1 < len(nodes) else low + 1
        return low + Fraction(high - low) / 2

    def _check_rewrite(
        self, event: Event, shadowed: tuple[Node, ...], seen: Seen
    ) -> Refusal | None:
        body = event.body
        if isinstance(body, ToolResult):
            if len(shadowed) != 1:
                return Refusal(
                    "rewrite-not-one-node", f"a tool result would replace {len(shadowed)} nodes"
                )
            if shadowed[0].type != "tool/result":
                return Refusal(
                    "rewrite-wrong-target", f"a tool result would replace a {shadowed[0].type}"
                )
            if shadowed[0].identity != body.identity:
                return Refusal(
                    "rewrite-changes-more", "a rewritten tool result may differ in content only"
                )
        head = shadowed[0]
        alone = isinstance(body, SystemMessage) and len(shadowed) == 1
        if head.type == "system/message" and not alone and self._is_head(head, seen):
            return Refusal(
                "head-protected", "the system message at the head is replaced by its like alone"
            )
        return None

    def _is_head(self, node: Node, seen: Seen) -> bool:
        """Whether that node is certainly the first: nothing that was not seen can stand before."""
        return self.segments[self.spine[0]][0].seq == node.seq and 0 <= node.key < seen.seen_to

    # --- changing -----------------------------------------------------------------------------

    def append(self, event: Event) -> Node:
        """The event's node goes to the tail, as every order key is below its seq."""
        node = node_of(event, event.seq)
        number, spine = node.seq // SEGMENT, self.spine
        if not spine or spine[-1] != number:
            spine.append(number)
            self.sizes.append(0)
            self.weights.append(0)
        self.sizes[-1] += 1
        self.weights[-1] += node.tokens
        self.segments = self.segments.set(number, (*self.segments.get(number, ()), node))
        self.dirty.add(number)
        self.size += 1
        self.tokens += node.tokens
        return node

    def replace(self, plan: Plan) -> int:
        """Carry out a plan; the position of the new node."""
        node = plan.node
        self._remove(plan.shadowed)
        self.generation += 1
        self.moved = self.moved.set(node.seq, node.key)
        self._insert(node)
        return self.position(node.key)

    def _insert(self, node: Node) -> None:
        number = node.key // SEGMENT
        held = self.segments.get(number, ())
        at = bisect_left(held, node.key, key=_key)
        self._hold(number, (*held[:at], node, *held[at:]))
        self.size += 1
        self.tokens += node.tokens

    def _remove(self, nodes: tuple[Node, ...]) -> None:
        """Take nodes off, segment by segment: O(nodes), not O(nodes x segment)."""
        leaving: dict[int, set[int]] = {}
        for node in nodes:
            leaving.setdefault(node.key // SEGMENT, set()).add(node.seq)
            if node.seq in self.moved:
                self.moved = self.moved.delete(node.seq)
        for number, seqs in leaving.items():
            self._hold(number, tuple(n for n in self.segments[number] if n.seq not in seqs))
        self.size -= len(nodes)
        self.tokens -= sum(node.tokens for node in nodes)

    def _hold(self, number: int, nodes: tuple[Node, ...]) -> None:
        """Set what a segment holds; one that holds nothing is gone."""
        at = bisect_left(self.spine, number)
        known = at < len(self.spine) and self.spine[at] == number
        if not nodes:
            self.segments = self.segments.delete(number)
            del self.spine[at], self.sizes[at], self.weights[at]
            self.dirty.add(number)
            return
        if not known:
            self.spine.insert(at, number)
            self.sizes.insert(at, 0)
            self.weights.insert(at, 0)
        self.segments = self.segments.set(number, nodes)
        self.sizes[at] = len(nodes)
        self.weights[at] = sum(node.tokens for node in nodes)
        self.dirty.add(number)
