"""Steering: which user messages were claimed from the ``next-step`` inbox (projection.md §5.5)."""

from __future__ import annotations

from immutables import Map

from .events import InboxSplice


class Inbox:
    """Both lists of message ids, and the ids claimed from ``next-step`` and not used yet."""

    __slots__ = ("claims", "next_step", "next_turn")

    def __init__(self) -> None:
        self.next_turn: tuple[str | None, ...] = ()
        self.next_step: tuple[str | None, ...] = ()
        self.claims: Map[str, None] = Map()

    def fork(self) -> Inbox:
        twin = Inbox.__new__(Inbox)
        twin.next_turn, twin.next_step, twin.claims = self.next_turn, self.next_step, self.claims
        return twin

    def splice(self, event: InboxSplice) -> None:
        """Replay one splice with JavaScript's clamping."""
        ids = self.next_step if event.next_step else self.next_turn
        start = max(len(ids) + event.start, 0) if event.start < 0 else min(event.start, len(ids))
        end = start + min(max(event.removed, 0), len(ids) - start)
        spliced = (*ids[:start], *event.inserted, *ids[end:])
        if event.next_step:
            self.next_step = spliced
            if not event.canceled:
                for claimed in ids[start:end]:
                    if claimed is not None:
                        self.claims = self.claims.set(claimed, None)
        else:
            self.next_turn = spliced
        for inserted in event.inserted:
            if inserted is not None and inserted in self.claims:
                self.claims = self.claims.delete(inserted)

    def use(self, message_id: str | None) -> bool:
        """Whether that message was claimed; a claim is used up by its first message."""
        if message_id is None or message_id not in self.claims:
            return False
        self.claims = self.claims.delete(message_id)
        return True
