"""``transcript_newest.json``: statuses, anchors, sub-calls, retries, errors and turn rows.

Each kind of node has one function that finds our row and says what must agree; ``newest_views``
puts both sides into the same fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.golden import newest_right as right
from tests.golden import newest_views as views
from tests.golden import rows
from tests.golden.model import Model
from tests.golden.values import ABSENT, Finding, settle

Json = Any
Node = dict[str, Any]
Row = dict[str, Any]


def compare(golden: Node, doc: Node, model: Model) -> list[Finding]:
    """All findings of one ``transcript_newest.json`` (of a window: nodes without data)."""
    if golden.get("error"):
        return []
    found: list[Finding] = []
    used: set[str] = set()
    for node in golden["nodes"]:
        if node["kind"] not in KINDS:  # turn-process, system-prompt: no row here
            continue
        row = pick(node, doc["rows"])
        if row is not None:
            used.add(row["key"])
        found += one(node, row, doc["rows"], model)
    for row in doc["rows"]:
        if row["key"] not in used and row["kind"] in COUNTERPARTS:
            reason = right.extra(row, model)
            if reason != right.FINE:
                where = f"N {row['kind']} {row['anchor_seq']}"
                found.append(Finding(where, ABSENT, "a row", reason))
    return [*found, *systems(doc, model)]


def pick(node: Node, ours: list[Row]) -> Row | None:
    """Our row of a node: of its kind, standing at its anchor, else told by its id."""
    kinds, told = KINDS[node["kind"]], identity(node)
    near = [r for r in ours if r["kind"] in kinds and told(r)]
    at = round(node["anchorSeq"] * 100)
    return next((r for r in near if views.anchor(r) == at), near[-1] if near else None)


def identity(node: Node) -> Callable[[Row], bool]:
    """A test whether a row is about the same thing as the node."""
    length, _, told = node["key"].partition(":")
    kind, name = node["kind"], told[int(length) :]
    data = node.get("data") or {}
    if kind in ("user", "steering", "context", "turn-trigger"):
        return lambda r: r["anchor_seq"] == node["anchorSeq"]
    if kind == "assistant-step":
        turn, _, step = name.partition(":")
        end = (data.get("finalNode") or {}).get("seq")
        return lambda r: (
            (str(r["turn"]), str(r["step"])) == (turn, step)
            and (end is None or views.anchor(r) == round(end * 100))
        )
    if kind == "turn-tail":
        seq = data.get("seq")
        return lambda r: str(r["turn"]) == name and seq in (None, r["anchor_seq"])
    if kind in ("turn-error", "turn-max-tokens"):
        return lambda r: str(r["turn"]) == name
    field = {"tool-call": "call_id", "model-retry": "retry_id"}.get(kind, "command_id")
    if kind == "compaction":
        return lambda r: r["anchor_seq"] == node["anchorSeq"]
    return lambda r: r["data"][field] == rows.text_fields({"v": name}, "v")["v"]


KINDS: dict[str, tuple[str, ...]] = {
    "user": rows.INPUTS,
    "steering": rows.INPUTS,
    "context": rows.INPUTS,
    "turn-trigger": rows.INPUTS,
    "assistant-step": ("assistant",),
    "tool-call": ("tool",),
    "command": ("command",),
    "manual-compaction": ("command",),
    "compaction": ("compaction",),
    "model-retry": ("retry",),
    "turn-error": ("turn-error",),
    "turn-max-tokens": ("max-tokens",),
    "turn-tail": ("turn",),
}
COUNTERPARTS = {kind for kinds in KINDS.values() for kind in kinds}


def one(node: Node, row: Row | None, ours: list[Row], model: Model) -> list[Finding]:
    where = f"N {node['kind']} {node['anchorSeq']}"
    golden = views.golden(node)
    if row is None:
        return [Finding(where, node["key"], ABSENT, right.missing(node, ours, model))]
    own = views.ours(row, model)
    return [f for name in golden for f in field(where, name, golden, own, (node, row, model))]


def field(
    where: str, name: str, golden: Node, ours: Node, about: tuple[Node, Row, Model]
) -> Iterator[Finding]:
    if name not in ours:
        yield Finding(f"{where}.{name}", golden[name], ABSENT)
        return
    expected, reason = right.value(name, *about)
    yield from settle(f"{where}.{name}", golden[name], ours[name], expected, reason)


def systems(doc: Node, model: Model) -> Iterator[Finding]:
    """``system`` rows have no node with a seq of their own: they are told from the log."""
    appended = [e for e in model.events if e.type == "system/message" and e.append]
    wanted = [(e.seq, e.data["message"].get("content")) for e in appended if "message" in e.data]
    ours = [(r["anchor_seq"], r["data"]["content"]) for r in rows.named(doc["rows"], "system")]
    hidden = all(r["visibility"] == "auxiliary" for r in rows.named(doc["rows"], "system"))
    if wanted != ours or not hidden:
        yield Finding("system rows", wanted, ours)
