"""``surface.json``: the node list, every replacement, and the message history."""

from __future__ import annotations

from typing import Any

from tests.golden.model import Model
from tests.golden.model_log import flat, message
from tests.golden.values import ABSENT, Finding, check, settle

Json = Any
Node = dict[str, Any]
MAY_BE_EMPTY = ("assistant/message", "system/message", "developer/message")


def compare(golden: Node, doc: Node, model: Model) -> list[Finding]:
    surface, marks = doc["surface"], doc["classification"]
    replaced = [{**r, "shadowed": r["shadowedSeqs"]} for r in golden["replacements"]]
    for one in replaced:
        del one["shadowedSeqs"]
    landed = [r["seq"] for r in surface["replacements"]]
    nodes = [seq for seq, mark in enumerate(marks) if mark != "-"]
    found = check("S nodes", golden["nodes"], surface["nodes"])
    found += check("S replacements", replaced, surface["replacements"])
    found += check("S generation", golden["replaceGeneration"], surface["generation"])
    found += check("S replacement seqs", golden["replacementSeqs"], landed)
    found += check("S append seqs", golden["appendSeqs"], [n for n in nodes if n not in landed])
    return found + messages(golden, surface, model)


def messages(golden: Node, surface: Node, model: Model) -> list[Finding]:
    """The history; flat legacy messages are wrapped here (13), also where the reference threw."""
    legacy = any(flat(model.at[seq]) for seq in golden["nodes"])
    told = projected(golden["nodes"], model) if legacy else None
    ours = {"seqs": surface["message_seqs"], "messages": surface["messages"]}
    wanted = {"seqs": golden["messageSeqs"], "messages": golden["messages"]}
    if told is not None:
        return [f for n in ours for f in settle(f"S {n}", wanted[n], ours[n], told[n], 13)]
    found = check("S message seqs", wanted["seqs"], ours["seqs"])
    return found + check("S messages", wanted["messages"], ours["messages"])


def projected(nodes: list[int], model: Model) -> dict[str, list[Any]]:
    """Our history by the rules: each node's message, none for an empty one."""
    told = [(seq, model.at[seq].type, message(model.at[seq])) for seq in nodes]
    kept = [(s, m) for s, t, m in told if m.get("content") or t not in MAY_BE_EMPTY]
    return {"seqs": [s for s, _ in kept], "messages": [m for _, m in kept]}


def counted(doc: Node, model: Model) -> list[Finding]:
    """A log that the reference takes has no fault here, and every event is folded."""
    found = check("faults", [], doc["faults"])
    found += check("events", len(model.events), doc["events"])
    last = model.events[-1].seq + 1 if model.events else 0
    return found + check("next_seq", last, doc["next_seq"])


def nodes_only(golden: list[int], doc: Node, where: str) -> list[Finding]:
    """Node list alone, of a prefix or of a log with closers; faults are findings too."""
    found = check(f"{where} nodes", golden, doc["surface"]["nodes"])
    if doc["faults"]:
        found.append(Finding(f"{where} faults", ABSENT, doc["faults"][0]))
    return found
