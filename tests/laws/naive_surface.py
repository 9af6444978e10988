"""The surface fold as plainly as it can be said (projection.md §4, session-log.md §3): a list of
dicts, `json.loads`, no window, no speed. The real fold is compared with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

SURFACE = {
    "user/message",
    "assistant/message",
    "tool/result",
    "system/message",
    "developer/message",
}
LEGACY = {"steering/message", "context/message"}
PACKED = {"text-chunks": "texts", "reasoning-chunks": "texts", "tool-call-chunks": "args"}
MOST = 2**53 - 1


@dataclass
class NaiveSurface:
    """``nodes`` are seqs in surface order; ``shadowed`` maps a replacement to what it shadowed."""

    strict: bool = True  #: an unknown type that is not ignorable is refused
    nodes: list[int] = field(default_factory=list)
    shadowed: dict[int, list[int]] = field(default_factory=dict)
    generation: int = 0
    next_seq: int = 0
    accepted: int = 0
    error: str | None = None  #: the reason code of the first refused event
    errors: list[str] = field(default_factory=list)
    events: dict[int, dict[str, Any]] = field(default_factory=dict)


def fold(lines: list[bytes]) -> NaiveSurface:
    """Fold up to the first refused event, as the harness does."""
    state = NaiveSurface()
    for line in lines:
        if not _take_line(state, line):
            state.error = state.errors[0]
            break
    return state


def fold_on(lines: list[bytes]) -> NaiveSurface:
    """A refused event takes its seq and changes nothing; the fold goes on. For dense logs."""
    state = NaiveSurface(strict=False)
    for line in lines:
        if not _take_line(state, line):
            state.next_seq += 1
    return state


def _take_line(state: NaiveSurface, line: bytes) -> bool:
    """Whether the line was accepted."""
    record = json.loads(line.decode("utf-8", "replace"))
    kind = record["type"]
    if kind == "session":
        return True
    if kind in PACKED:
        count = len(record["data"][PACKED[kind]])
        if record["seq0"] != state.next_seq:
            state.errors.append("seq-not-contiguous")
            return False
        state.next_seq += count
        state.accepted += count
        return True
    try:
        take(state, record)
    except RefusedError as refused:
        state.errors.append(str(refused))
        return False
    state.accepted += 1
    return True


class RefusedError(Exception):
    """The text is the reason code."""


def seq_of(value: Any) -> int | None:
    """A seq by value (projection.md §2), or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    whole = 0 <= value <= MOST and int(value) == value
    return int(value) if whole else None


def take(state: NaiveSurface, record: dict[str, Any]) -> None:
    if seq_of(record["seq"]) != state.next_seq:
        raise RefusedError("seq-not-contiguous")
    seq = state.next_seq
    span = plan(state, seq, record)
    state.next_seq += 1
    state.events[seq] = record
    if span == "append":
        state.nodes.append(seq)
    elif isinstance(span, tuple):
        first, last = span
        state.shadowed[seq] = state.nodes[first : last + 1]
        state.nodes[first : last + 1] = [seq]
        state.generation += 1


def plan(state: NaiveSurface, seq: int, record: dict[str, Any]) -> str | tuple[int, int] | None:
    """What the event does to the node list: nothing, ``append``, or the positions it replaces."""
    kind = record["type"]
    surface = kind in SURFACE or (
        kind in LEGACY
        and "surfaceOp" in record
        and isinstance((record.get("data") or {}).get("content"), list)
    )
    if not surface:
        opaque = kind.startswith(("acme/", "plugin:")) and record.get("ignorable") is True
        if "surfaceOp" in record and not opaque:
            raise RefusedError("surfaceop-on-log-only")
        if "sourceEventSeqs" in record and not opaque:
            raise RefusedError("sources-on-log-only")
        if state.strict and kind.startswith("acme/") and record.get("ignorable") is not True:
            raise RefusedError("unknown-required-event")
        return None
    if "surfaceOp" not in record:
        raise RefusedError("surfaceop-missing")
    op = record["surfaceOp"]
    if op == "append":
        check_sources(record, seq, [], may_be_empty=kind == "assistant/message")
        return "append"
    first, last = endpoints(state, op)
    covered = state.nodes[first : last + 1]
    check_sources(record, seq, covered, may_be_empty=kind == "assistant/message")
    if kind == "tool/result":
        check_rewrite(state, record, covered)
    head = state.nodes[0]
    protected = state.events[head]["type"] == "system/message"
    if protected and first == 0 and not (kind == "system/message" and last == 0):
        raise RefusedError("head-protected")
    return first, last


def endpoints(state: NaiveSurface, op: Any) -> tuple[int, int]:
    if not isinstance(op, dict):
        raise RefusedError("surfaceop-invalid")
    keys = set(op) - {"op"}
    if op.get("op") != "replace" or keys not in ({"start", "end"}, {"startSeq", "endSeq"}):
        raise RefusedError("surfaceop-invalid-replace")
    start = seq_of(op.get("start", op.get("startSeq")))
    end = seq_of(op.get("end", op.get("endSeq")))
    if start is None or end is None:
        raise RefusedError("surfaceop-invalid-replace")
    if start not in state.nodes:
        raise RefusedError("replace-start-not-found")
    if end not in state.nodes:
        raise RefusedError("replace-end-not-found")
    first, last = state.nodes.index(start), state.nodes.index(end)
    if first > last:
        raise RefusedError("replace-start-after-end")
    return first, last


def check_sources(
    record: dict[str, Any], seq: int, covered: list[int], *, may_be_empty: bool
) -> None:
    if "sourceEventSeqs" not in record:
        if covered:
            raise RefusedError("sources-missing-shadowed")
        return
    listed = record["sourceEventSeqs"]
    if not isinstance(listed, list):
        raise RefusedError("sources-not-array")
    if not listed and not may_be_empty:
        raise RefusedError("sources-empty")
    cited: list[int] = []
    for element in listed:
        pair = element if isinstance(element, list) and len(element) == 2 else [element, element]
        first, last = seq_of(pair[0]), seq_of(pair[1])
        if first is None or last is None or first > last:
            raise RefusedError("sources-element")
        cited += range(first, last + 1)
    if len(set(cited)) < len(cited):
        raise RefusedError("sources-duplicate")
    if any(source >= seq for source in cited):
        raise RefusedError("sources-not-earlier")
    if not set(covered) <= set(cited):
        raise RefusedError("sources-missing-shadowed")


def check_rewrite(state: NaiveSurface, record: dict[str, Any], covered: list[int]) -> None:
    if len(covered) != 1:
        raise RefusedError("rewrite-not-one-node")
    old = state.events[covered[0]]
    if old["type"] != "tool/result":
        raise RefusedError("rewrite-wrong-target")
    if identity(record["data"]) != identity(old["data"]):
        raise RefusedError("rewrite-changes-more")


def identity(data: dict[str, Any]) -> Any:
    """Everything but the content, in a form that compares by JSON value."""
    data = dict(data)
    if "message" not in data:
        data.pop("content", None)
        return typed(data)
    message = dict(data["message"])
    content = message.pop("content")
    if message.get("role") != "tool":
        block = dict(content[0])
        block.pop("content", None)
        message["wrapper"] = block
    data["message"] = message
    return typed(data)


def typed(value: Any) -> Any:
    """``1`` and ``1.0`` alike, ``1`` and ``true`` not."""
    if isinstance(value, bool) or value is None:
        return ("literal", value)
    if isinstance(value, int | float):
        return ("number", float(value))
    if isinstance(value, list):
        return ("list", [typed(member) for member in value])
    if isinstance(value, dict):
        return ("dict", {key: typed(member) for key, member in value.items()})
    return ("string", value)
