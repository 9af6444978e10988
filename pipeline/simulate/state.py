"""What a simulated conversation knows while it goes on: its random source, clock and surface.

Nothing here or in the other parts of the model looks at the shape that is written, so one seed with
one set of features is one conversation in every shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from msgspec import Struct

from .hostile import Words
from .writer import Json, Result, Span, Writer

T = TypeVar("T")

#: What every shape can say alike, apart from seqs.
PORTABLE = frozenset(
    {
        "tools",
        "parallel",
        "dispatches",
        "steering",
        "queue",
        "cancel",
        "retries",
        "errors",
        "interrupts",
        "max-tokens",
        "crashes",
        "auto-compaction",
        "manual-compaction",
        "failed-compaction",
        "prunes",
        "rewrites",
        "context",
        "images",
        "titles",
        "commands",
        "asides",
        "hostile",
        "long",
        "forks",
        "subagents",
    }
)
#: What every shape can say, each in a way that leaves other rows.
DIVERGING = frozenset({"lost-streams", "usage-in-stream", "odd-times", "open-end"})
#: What only some shapes can say.
ONLY_IN: dict[str, frozenset[str]] = {
    "regenerated": frozenset({"pre", "v0-chunks", "v0", "v1"}),
    "offloads": frozenset({"v3", "v4"}),
    "system-in-history": frozenset({"v3", "v4"}),
    "developer": frozenset({"v4"}),
    "fork-anywhere": frozenset({"v4"}),
    "unknown": frozenset({"v0-chunks", "v0", "v1", "v2", "v3", "v4"}),
}


class Node(Struct):
    """One node of the surface, the protected head left out. Nodes of one ``group`` (a message with
    calls and its results) are never cut apart."""

    seq: int
    kind: str  #: user, context, assistant, result, checkpoint, system, developer
    group: int
    spec: tuple[Json, Result] | None = None  #: place and result, to write a pruned copy
    images: int = 0


class CrashError(Exception):
    """The process died; the log goes on with a repair."""


class Talk:
    """State of one conversation; the other modules are its behaviour."""

    def __init__(self, rng: Random, writer: Writer, features: frozenset[str], name: str) -> None:
        self.rng = rng
        self.log = writer
        self.features = features
        self.name = name
        self.words = Words(rng, hostile="hostile" in features, long="long" in features)
        self.now = 1_760_000_000_000 + int(rng.random() * 10_000_000_000)
        self.turn = 0
        self.step = 0
        self.in_turn = False
        self.in_step = False
        self.nodes: list[Node] = []
        self.pending: list[tuple[Json, int]] = []  #: announced calls without a result, call seqs
        self.inbox: dict[str, list[Json]] = {"next-turn": [], "next-step": []}
        self.prompted = False  #: the system prompt stands; no surface event comes before it
        self.system = "You are a careful agent."
        self.header_seq = 0
        self.subagent = False
        self.titles = 0
        self._ids = 0
        self._groups = 0

    # --- chance ---------------------------------------------------------------------------------

    def maybe(self, feature: str, odds: float) -> bool:
        """Whether something of a wanted feature happens now."""
        return feature in self.features and self.rng.random() < odds

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.rng.random() * len(options))]

    def below(self, bound: int) -> int:
        return int(self.rng.random() * bound)

    # --- time and names -------------------------------------------------------------------------

    def tick(self, most: int = 400) -> int:
        """Move the clock on, and with it the writer's."""
        self.now += self.below(most)
        if self.maybe("odd-times", 0.01):
            self.now -= 5_000
        self.log.time = self.now
        return self.now

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self.name}-{self._ids}"

    def new_group(self) -> int:
        self._groups += 1
        return self._groups

    # --- messages -------------------------------------------------------------------------------

    def text_block(self, least: int = 3, most: int = 24) -> Json:
        return {"type": "text", "text": self.words.sentence(least, most)}

    def image_block(self) -> Json:
        digest = f"{self.rng.getrandbits(256):064x}"
        size = {"bytes": 61 + self.below(90_000), "width": 1 + self.below(800), "height": 64}
        attachment = {"attachmentId": f"sha256:{digest}", "mediaType": "image/png", **size}
        return {"type": "image", "attachment": attachment}

    def user_message(self, source: Json, content: list[Json] | None = None) -> Json:
        """A role-user message of any source."""
        if content is None:
            content = [self.text_block()]
            if self.maybe("images", 0.06):
                content.append(self.image_block())
        return {"id": self.new_id("msg"), "role": "user", "content": content, "source": source}

    # --- the surface ----------------------------------------------------------------------------

    def add(self, seq: int, kind: str, group: int | None = None, **more: Any) -> Node:
        node = Node(seq, kind, self.new_group() if group is None else group, **more)
        self.nodes.append(node)
        return node

    def cuts(self) -> Iterator[int]:
        """Lengths of a head of the surface that separate no call from its result."""
        for at in range(1, len(self.nodes) + 1):
            if at == len(self.nodes) or self.nodes[at - 1].group != self.nodes[at].group:
                yield at

    def shadow(self, start: int, end: int) -> Span:
        """The span of nodes ``start`` … ``end - 1``."""
        return Span([node.seq for node in self.nodes[start:end]])
