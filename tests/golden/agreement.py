"""The fold held against the model, row by row: two readings of the same rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pipeline.documents import fold_lines
from tests.golden import newest_right, newest_views, rows
from tests.golden.model import Model
from tests.golden.model_log import Ev, message, read
from tests.golden.model_surface import Surface
from tests.golden.values import ABSENT, Finding, check, same

Node = dict[str, Any]
Key = tuple[Any, ...]
KINDS = ("user", "steering", "context", "system", "assistant", "tool", "command", "turn")


def compare(events: list[Node]) -> list[Finding]:
    """Where the document of a log (seqs from 0, any shape) is not what the model says."""
    doc: Node = json.loads(fold_lines(json.dumps(event).encode() for event in events))
    surface, faults = Surface(), {}
    kept: list[Node] = []
    for raw in events:
        fault = surface.take(read(raw))
        if fault is not None:
            faults[raw["seq"]] = fault
        kept.append(raw if fault is None else _bare(raw))
    found = check("nodes", surface.nodes, doc["surface"]["nodes"])
    found += check("faults", faults, {f["seq"]: f["reason"] for f in doc["faults"]})
    return found + transcript(kept, doc)


def transcript(events: list[Node], doc: Node) -> list[Finding]:
    """The rows of ``doc`` against the model's of accepted events (of a window: from its cut)."""
    model, found = Model(events), []
    ours = {_key(row): newest_views.ours(row, model) for row in _compared(doc)}
    right = dict(_rows(model))
    for key in sorted({*ours, *right}, key=str):
        if key in ours and key in right:
            found += _fields(key, right[key], ours[key])
        else:
            sides = ("a row", ABSENT) if key in right else (ABSENT, "a row")
            found.append(Finding(str(key), *sides))
    return found


def _bare(raw: Node) -> Node:
    """A faulted event takes its seq and is log-only."""
    return {"type": "sandbox/mode", "seq": raw["seq"], "time": raw.get("time"), "data": {}}


def _compared(doc: Node) -> list[Node]:
    return [r for r in doc["rows"] if r["kind"] in KINDS or rows.landed(r)]


def _key(row: Node) -> Key:
    """Steps closed by one boundary stand at one anchor: their place tells them apart."""
    place = (row["turn"], row["step"]) if row["kind"] == "assistant" else ()
    return (row["kind"], newest_views.anchor(row), *place)


def _fields(key: Key, right: Node, ours: Node) -> list[Finding]:
    wrong = [name for name, value in right.items() if not same(value, ours.get(name))]
    return [Finding(f"{key}.{name}", right[name], ours.get(name)) for name in wrong]


def _rows(model: Model) -> Iterator[tuple[Key, Node]]:
    for seq, kind in model.kinds.items():
        yield (kind, seq * 100), _input(model.at[seq], kind)
    for ev in model.events:
        if ev.type == "system/message" and ev.append:
            yield ("system", ev.seq * 100), {"time": ev.time, "visibility": "auxiliary"}
    yield from _steps(model)
    for tool in model.tools.rows:
        view = newest_right.told(tool) | {"visibility": tool.visibility}
        if tool.result is None and tool.cut is not None:
            view["result"] = tool.cut[0] * 100 - 80
        yield ("tool", tool.anchor * 100), view
    yield from _commands(model)


def _input(ev: Ev, kind: str) -> Node:
    told = message(ev)
    view = {"time": ev.time, "visibility": "transcript", "source": told.get("source")}
    return {**view, "kind": kind, "content": told.get("content")}


def _steps(model: Model) -> Iterator[tuple[Key, Node]]:
    for row in model.steps.rows:
        view: Node = {"time": row.time, "visibility": row.visibility, "status": row.status}
        view |= {"blocks": [rows.block(b) for b in row.blocks], "usage": row.usage}
        view |= {"step_start": row.start, "token": row.token, "completed": row.completed}
        if row.by_attempt and row.status == "running":
            del view["time"]  # the attempt's or its stream's: the rules leave it open
        yield ("assistant", row.seq * 100 + row.rank, row.turn, row.step), view
    for turn in model.steps.turns:
        speed = newest_views.speed(turn.decode_tokens, turn.decode_ms)
        figures = {"ttft": turn.ttft_ms, "closing": turn.closing_seq, "speed": speed}
        yield ("turn", turn.seq * 100 + 10), figures


def _commands(model: Model) -> Iterator[tuple[Key, Node]]:
    joined = [c.marker for c in model.commands.commands if c.marker is not None]
    for command in model.commands.commands:
        view = newest_right.commanded(command)
        yield ("command", view.pop("anchor")), view
    for mark in model.commands.markers:
        if not any(mark is other for other in joined):
            view = {"seq": mark.ev.seq, "time": mark.ev.time, "visibility": "transcript"}
            yield ("compaction", mark.ev.seq * 100), {**view, **mark.fields}
