"""The model's reading of user messages: steering claims, producer labels, forms (§5.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.golden.model_log import Ev, text

FORMS = {"instructions", "catalog", "snapshot", "notice", "relay", "recall"}


def label(source: Any) -> str | None:
    """``producer`` of an injected context."""
    source = source if isinstance(source, dict) else {}
    kind = text(source.get("kind"))
    named: list[str] = []
    if kind == "plugin":
        return text(source.get("plugin")) or "plugin"
    if kind == "session-reference":
        named = _texts(source.get("references"), "label")
    elif kind in ("agent-instructions", "workspace-instructions"):
        named = _texts(source.get("changes"), "path")
    elif kind == "skill-invocation":
        named = [name] if (name := text(source.get("name"))) else []
    return ", ".join(dict.fromkeys(named)) or kind


def form(source: Any) -> str | None:
    told = source.get("form") if isinstance(source, dict) else None
    return told if isinstance(told, str) and told in FORMS else None


def _texts(listed: Any, key: str) -> list[str]:
    items = listed if isinstance(listed, list) else []
    return [t for i in items if isinstance(i, dict) and (t := text(i.get(key)))]


@dataclass
class Inbox:
    """Both inbox lists and the open claims."""

    lists: dict[str, list[str | None]] = field(
        default_factory=lambda: {"next-step": [], "next-turn": []}
    )
    claims: set[str] = field(default_factory=set)

    def splice(self, ev: Ev) -> None:
        target = ev.data.get("target")
        queue = self.lists.get(target) if isinstance(target, str) else None
        if queue is None:
            return
        start = int(ev.data.get("start") or 0)
        start = max(len(queue) + start, 0) if start < 0 else min(start, len(queue))
        count = max(int(ev.data.get("removedCount") or 0), 0)
        gone = queue[start : start + count]
        given = ev.data.get("inserted")
        new = [text(m.get("id")) for m in given if isinstance(m, dict)] if given else []
        queue[start : start + count] = new
        if target == "next-step" and ev.data.get("outcome") != "canceled":
            self.claims.update(i for i in gone if i is not None)
        self.claims.difference_update(i for i in new if i is not None)


def kinds(events: list[Ev]) -> dict[int, str]:
    """Row kind of every append user or developer message, by seq."""
    inbox, found = Inbox(), {}
    for ev in events:
        if ev.type == "agent/inbox/spliced":
            inbox.splice(ev)
        elif ev.type == "session/end-seed" and ev.data.get("inherited") is True:
            inbox = Inbox()
        elif ev.type == "developer/message" and ev.append:
            found[ev.seq] = "context"
        elif ev.type == "user/message" and (ev.append or ev.replaces):
            own = text(ev.data.get("id"))
            claimed = own is not None and own in inbox.claims
            inbox.claims.discard(own or "")
            if ev.append:
                found[ev.seq] = _kind(ev, claimed)
    return found


def _kind(ev: Ev, claimed: bool) -> str:
    source = ev.data.get("source")
    if not isinstance(source, dict) or source.get("kind") != "user":
        return "context"
    return "steering" if claimed or ev.raw["type"] == "steering/message" else "user"
