"""A session's surface rebuilt from its published changes (projection.md §4).

The fold keeps no message bodies; whoever reads `SurfaceChange`s in order can tell the exact request
history, what left it and why. ``fold``, ``surface`` and every other reader of the topic do it here.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct

from operators.changes import SurfaceChange

from .images import offload


class Replacement(Struct, frozen=True):
    """A landed replacement; ``start`` and ``end`` as logged, ``shadowed`` in surface order."""

    seq: int
    start: int | None
    end: int | None
    shadowed: tuple[int, ...]


class Surface(Struct, frozen=True):
    """What the model is sent, in surface order; field names are those of ``outputs.md`` §2."""

    nodes: list[int]
    generation: int
    messages: list[Raw]
    message_seqs: list[int]
    replacements: list[Replacement]


class SurfaceView:
    """One session's surface as of the last change applied; a reset begins anew."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.nodes: list[int] = []
        self.shadowed: list[int] = []
        self.replacements: list[Replacement] = []
        self.generation = 0
        self.types: dict[int, str | None] = {}
        self._messages: dict[int, Raw | None] = {}
        self._offloaded: dict[int, set[int]] = {}

    def apply_all(self, changes: Iterable[SurfaceChange]) -> None:
        for change in changes:
            self.apply(change)

    def apply(self, change: SurfaceChange) -> None:
        """Apply the next change; the caller leaves out stale epochs and repeated seqs."""
        seq = change.seq
        if change.op == "append":
            self.nodes.append(seq)
        elif change.op == "replace":
            self._replace(change)
        elif change.op == "amend":
            for target in change.targets:
                self._offloaded.setdefault(target.seq, set()).update(target.images)
            return
        else:
            self._reset()
            return
        self._messages[seq] = change.message
        self.types[seq] = change.type

    def _replace(self, change: SurfaceChange) -> None:
        at, gone = change.position, change.shadowed
        if tuple(self.nodes[at : at + len(gone)]) == gone:
            self.nodes[at : at + len(gone)] = [change.seq]
        else:  # a window: the cited nodes need not stand side by side
            leaving = set(gone)
            self.nodes = [seq for seq in self.nodes if seq not in leaving]
            self.nodes.insert(at, change.seq)
        for seq in gone:
            self._messages.pop(seq, None)
            self._offloaded.pop(seq, None)
            self.types.pop(seq, None)
        self.shadowed += gone
        self.generation = change.generation
        self.replacements.append(Replacement(change.seq, change.start, change.end, gone))

    def message(self, seq: int) -> Raw | None:
        """The model message a current node projects to, its offloaded images marked so."""
        message, images = self._messages[seq], self._offloaded.get(seq)
        return message if message is None or not images else offload(message, images)

    def surface(self) -> Surface:
        seqs = [seq for seq in self.nodes if self._messages[seq] is not None]
        messages = [message for seq in seqs if (message := self.message(seq)) is not None]
        return Surface(self.nodes, self.generation, messages, seqs, self.replacements)
