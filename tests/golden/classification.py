"""``classification.json``: current, shadowed or log-only, and who shadowed whom."""

from __future__ import annotations

from typing import Any

from tests.golden.values import Finding, check

Node = dict[str, Any]


def compare(golden: Node, doc: Node) -> list[Finding]:
    marks = doc["classification"]
    found = check("Q by seq", golden["bySeq"], marks)
    shadowed = [seq for seq, mark in enumerate(marks) if mark == "S"]
    found += check("Q shadowed", sorted(golden["shadowed"]), shadowed)
    found += check("Q log-only", golden["logOnlyCount"], marks.count("-"))
    current = [seq for seq, mark in enumerate(marks) if mark == "C"]
    found += check("Q current", golden["currentSortedBySeq"], current)
    gone = {r["seq"]: r["shadowed"] for r in doc["surface"]["replacements"]}
    by = {seq: replacement for replacement, seqs in gone.items() for seq in seqs}
    for trace in golden.get("traces", []):
        found += check(f"Q trace {trace['seq']}", view(trace), own(trace["seq"], marks, by, gone))
    return found


def view(trace: Node) -> Node:
    return {
        "surface": trace.get("surface") or trace["target"]["surface"],
        "replacedBy": trace.get("replacedBy"),
        "replacementChain": trace["replacementChain"],
        "replacedEventSeqs": trace["replacedEventSeqs"],
    }


def own(seq: int, marks: str, by: dict[int, int], gone: dict[int, list[int]]) -> Node:
    """What our document says of one seq: its state and the chain of what replaced it."""
    names = {"C": "current", "S": "shadowed", "-": "log-only"}
    chain = []
    at = seq
    while at in by:
        at = by[at]
        chain.append(at)
    return {
        "surface": names[marks[seq]],
        "replacedBy": by.get(seq),
        "replacementChain": chain,
        "replacedEventSeqs": gone.get(seq, []),
    }
