"""The model's nested calls of one tool row, as a tree (§5.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.golden.model_bounds import Boundary
from tests.golden.model_log import Ev, text

Json = Any
DEEPEST = 256


@dataclass
class Nested:
    """A child: its start, its settling, and the children that name it as their parent."""

    call_id: str
    start: Ev | None = None
    settle: Ev | None = None
    children: list[Nested] = field(default_factory=list)

    def view(self, cut: Boundary | None) -> dict[str, Any]:
        """As ``newest_views`` puts it; ``cut`` closed the root's step or turn."""
        first = self.start or self.settle
        data = first.data if first else {}
        status, ended = "running", None
        if self.settle is not None:
            status = "error" if self.settle.data.get("isError") is True else "ok"
            ended = self.settle.seq
        elif cut is not None:
            status, ended = "interrupted", cut[0]
        told = self.settle.data if self.settle else {}
        return {
            "id": self.call_id,
            "name": text(data.get("name")),
            "arguments": data.get("arguments"),
            "status": status,
            "started": self.start.time if self.start else None,
            "ended": ended,
            "content": told.get("content") or [],
            "error": told.get("error"),
            "subs": [child.view(cut) for child in self.children],
        }


def tree(root: str | None, events: list[Ev]) -> list[Nested]:
    """The children of ``root`` in order of first mention; edges that cannot be are dropped."""
    known: dict[str, Nested] = {}
    parents: dict[str, str] = {}
    for ev in events:
        name, parent = text(ev.data.get("subCallId")), text(ev.data.get("parentCallId"))
        if name is None or parent is None or not _possible(name, parent, root, parents):
            continue
        parents[name] = parent
        child = known.setdefault(name, Nested(name))
        if ev.type.endswith("-start"):
            child.start = child.start or ev
        else:
            child.settle = ev  # the latest, as for a command
    top = Nested(root or "")
    for name, child in known.items():
        above = top if parents[name] == root else known.get(parents[name])
        if above is not None:
            above.children.append(child)
    return top.children


def _possible(name: str, parent: str, root: str | None, parents: dict[str, str]) -> bool:
    if name in (parent, root) or parents.get(name, parent) != parent:
        return False
    depth, at = 1, parent
    while at in parents:
        at, depth = parents[at], depth + 1
        if at == name:
            return False
    return depth <= DEEPEST
