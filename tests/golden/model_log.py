"""The log as the reference model reads it: one plain :class:`Ev` per event, by its own shape.

The model (``model_*.py``) is a second, slow and simple reading of the rules: it works out our own
right value wherever we deliberately differ from the golden outputs. It shares no code with the
fold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

Json = Any
TOP = 2**53 - 1
RENAMED = {
    "compact/start": "compaction/start",
    "compact/summary": "compaction/summary",
    "compact/end": "compaction/end",
    "tool/ptc-dispatch": "tool/code-dispatch",
    "tool/ptc-dispatch-start": "tool/code-dispatch-start",
}
SURFACE = {
    "user/message",
    "assistant/message",
    "tool/result",
    "system/message",
    "developer/message",
}
FAMILIES = {
    "assistant": "chunk attempt",
    "tool": "call code-dispatch code-dispatch-start",
    "turn": "start end",
    "step": "start end",
    "compaction": "start summary end prune",
    "command": "run done",
    "llm": "retry retry-started",
    "request": "header context header-delta",
    "session": "end-seed title title-llm-request",
    "subagent": "descriptor catalog model-selection-policy",
    "approval": "asked decided policy",
    "hook": "invoked result",
    "tool-workflow": "run-start run-end agent-start agent-end",
    "team": "member task message/queued message/delivered",
    "feedback": "record message-put message-delete",
    "job": "registered settled",
    "context": "message",
    "steering": "message",
    "prompt": "blocked",
    "mode": "set",
    "agent": "inbox/spliced",
    "model": "selection",
    "goal": "change",
    "todo": "write",
    "plan": "mode",
    "sandbox": "mode",
    "permission": "preset",
    "agent-preset": "selected",
    "schedule": "change",
    "image": "offload",
    "workspace": "changes",
    "deliverables": "presented",
    "working-directory": "change",
    "web": "deepseek-search-llm-request",
    "session-log-deepseek": "delivery-accepted",
}
KNOWN = SURFACE | {f"{f}/{name}" for f, names in FAMILIES.items() for name in names.split()}


def integer(value: Json) -> int | None:
    """A safe integer of either sign by value, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not math.isfinite(value) or value != int(value):
        return None
    return int(value) if abs(value) <= TOP else None


def seq(value: Json) -> int | None:
    """A seq by value, or None."""
    whole = integer(value)
    return whole if whole is not None and whole >= 0 else None


def text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


@dataclass
class Ev:
    """``op``: "append", (start, end), "bad" or None; ``sources``: (first, last) pairs as logged."""

    seq: int
    time: int | None
    type: str
    data: dict[str, Any]
    op: Any
    raw: dict[str, Any]
    sources: list[tuple[int, int]] = field(default_factory=list)

    @property
    def turn(self) -> int | None:
        return integer(self.data.get("turn"))

    @property
    def step(self) -> int | None:
        return integer(self.data.get("step"))

    @property
    def append(self) -> bool:
        return bool(self.op == "append") and self.type in SURFACE

    @property
    def replaces(self) -> bool:
        return isinstance(self.op, tuple) and self.type in SURFACE

    def cited(self) -> list[int]:
        return [n for first, last in self.sources for n in range(first, last + 1)]


def operation(raw: dict[str, Any]) -> Any:
    if "surfaceOp" not in raw:
        return None
    op = raw["surfaceOp"]
    if op == "append":
        return "append"
    if isinstance(op, dict) and op.get("op") == "replace" and len(op) == 3:
        for start, end in (("start", "end"), ("startSeq", "endSeq")):
            ends = seq(op.get(start)), seq(op.get(end))
            if None not in ends:
                return ends
    return "bad"


def pairs(raw: dict[str, Any]) -> list[tuple[int, int]]:
    """The citations that are readable; the surface model judges the list itself."""
    found: list[tuple[int, int]] = []
    listed = raw.get("sourceEventSeqs")
    for item in listed if isinstance(listed, list) else []:
        ends = [seq(n) for n in item] if isinstance(item, list) else [seq(item)] * 2
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]:
            found.append((ends[0], ends[1]))
    return found


def read(raw: dict[str, Any]) -> Ev:
    kind = raw.get("type")
    kind = kind if isinstance(kind, str) else ""
    kind = RENAMED.get(kind, kind)
    data = raw.get("data")
    data = data if isinstance(data, dict) else {}
    op = operation(raw)
    legacy = kind in ("steering/message", "context/message")
    if legacy and op is not None and isinstance(data.get("content"), list):
        kind = "user/message"
        if "source" not in data:
            own = "user" if raw["type"] == "steering/message" else "context"
            data = {**data, "source": {"kind": own}}
    return Ev(seq(raw.get("seq")) or 0, integer(raw.get("time")), kind, data, op, raw, pairs(raw))


def message(ev: Ev) -> dict[str, Any]:
    """The message of a surface event, flat legacy ones wrapped."""
    data, own = ev.data, f"legacy:{ev.seq}"
    if ev.type == "user/message":
        return data if "role" in data or "id" in data else {"id": own, "role": "user", **data}
    if isinstance(data.get("message"), dict):
        return dict(data["message"])
    if ev.type == "assistant/message":
        given = data.get("provenance")
        given = given if isinstance(given, dict) else {}
        source = {"kind": "model", **{k: given[k] for k in ("provider", "model") if k in given}}
        return {"id": own, "role": "assistant", "content": data.get("content"), "source": source}
    if ev.type == "tool/result":
        call = data.get("callId")
        block = {"type": "tool-result", "toolCallId": call, "content": data.get("content")}
        if "isError" in data:
            block["isError"] = data["isError"]
        source = {"kind": "tool", "callId": call}
        return {"id": own, "role": "user", "content": [block], "source": source}
    return {}


def flat(ev: Ev) -> bool:
    """Logged before messages had ids."""
    if ev.type == "user/message":
        return "id" not in ev.data and "role" not in ev.data
    return ev.type in SURFACE and "message" not in ev.data


def call_id(ev: Ev) -> str | None:
    """Whose result a ``tool/result`` is."""
    told = message(ev)
    source = told.get("source")
    if isinstance(source, dict) and isinstance(source.get("callId"), str):
        return text(source["callId"])
    if isinstance(told.get("toolCallId"), str):
        return text(told["toolCallId"])
    content = told.get("content")
    first = content[0] if isinstance(content, list) and content else None
    return text(first.get("toolCallId")) if isinstance(first, dict) else None


def checkpoint(ev: Ev) -> dict[str, Any] | None:
    """The compaction source of a user message."""
    source = ev.data.get("source")
    if ev.type != "user/message" or not isinstance(source, dict):
        return None
    if source.get("kind") == "compact-checkpoint":
        return source
    plugin = source.get("kind") == "plugin" and source.get("plugin") == "compact"
    return source if plugin else None


def blank(value: str) -> bool:
    """Empty after trimming what JavaScript calls white space."""
    return not value.strip(
        "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
        "\u2028\u2029\u202f\u205f\u3000\ufeff"
    )
