"""``verdict.json``: where a strict run stops, why, and the surface before it."""

from __future__ import annotations

from typing import Any

from tests.golden.model_log import seq
from tests.golden.model_surface import verdict
from tests.golden.values import ABSENT, Finding, check

Node = dict[str, Any]
CHECKED = ("surfaceop-", "sources-", "replace-", "rewrite-", "seq-", "head-", "TypeError")
BY_ORDER_ONLY = ("seq-not-contiguous", "unknown-required-event")


def compare(golden: Node, strict: Node, lenient: Node, raws: list[Node]) -> list[Finding]:
    """``strict`` and ``lenient``: the documents of the log with and without ``--strict``."""
    wanted = theirs(golden["fold"], raws)
    ours = outcome(strict)
    found = []
    if wanted != ours and not crashed(golden["fold"], ours):
        right, reason = deliberate(golden, ours, raws)
        explained = reason if ours == right or reason == 18 else None
        found.append(Finding("verdict", wanted, ours, explained, right))
    return found + onward(ours, strict, lenient)


def theirs(fold: Node, raws: list[Node]) -> Node:
    """The reference's verdict in our terms."""
    reason = fold.get("errorClass")
    if reason == "seq-not-contiguous":
        reason = named(raws[fold["accepted"]])
    elif reason == "surfaceop-on-log-only" and not isinstance(raws[fold["accepted"]]["type"], str):
        reason = "type-invalid"
    elif reason == "replace-endpoint-not-earlier":
        reason = verdict(raws, strict_types=False)[1]
    return {
        "events": fold["accepted"],
        "reason": reason,
        "nodes": fold["surfaceNodes"],
        "generation": fold["replaceGeneration"],
    }


def named(raw: Node) -> str:
    """A seq that is none has its own reason code."""
    return "seq-invalid" if seq(raw.get("seq")) is None else "seq-not-contiguous"


def outcome(doc: Node) -> Node:
    faults = doc["faults"]
    return {
        "events": doc["events"],
        "reason": faults[0]["reason"] if faults else None,
        "nodes": doc["surface"]["nodes"],
        "generation": doc["surface"]["generation"],
    }


def crashed(fold: Node, ours: Node) -> bool:
    """Where the reference itself crashes any rejection of that event is right."""
    alike = ours["events"] == fold["accepted"] and ours["nodes"] == fold["surfaceNodes"]
    return fold.get("errorClass") == "TypeError" and alike and ours["reason"] is not None


def deliberate(golden: Node, ours: Node, raws: list[Node]) -> tuple[Node, int | None]:
    """Our own right verdict, and the difference that asks for it."""
    fold, session = golden["fold"], golden.get("session")
    events, reason, surface = verdict(raws, strict_types=True)
    right = {
        "events": events,
        "reason": reason,
        "nodes": surface.nodes,
        "generation": surface.generation,
    }
    if reason == "unknown-required-event":
        return right, 10
    if not str(fold.get("errorClass")).startswith(CHECKED) and events > fold["accepted"]:
        return right, 23
    if session is None and reason and events == fold["accepted"]:
        return right, 24
    sources = raws[fold["accepted"]].get("sourceEventSeqs") if not fold["ok"] else None
    if isinstance(sources, list) and any(isinstance(n, list) for n in sources):
        return right, 17
    refused = session is not None and not session["ok"] and session["accepted"] == ours["events"]
    return right, 18 if fold["ok"] and refused else None


def onward(ours: Node, strict: Node, lenient: Node) -> list[Finding]:
    """Without ``--strict`` the same fault comes first, and the surface is the same before it."""
    if strict["faults"] and ours["reason"] not in BY_ORDER_ONLY:
        first = {k: strict["faults"][0][k] for k in ("line", "reason")}
        same = lenient["faults"] and {k: lenient["faults"][0][k] for k in ("line", "reason")}
        return check("first fault without --strict", first, same or ABSENT)
    if not strict["faults"]:
        return check("faults without --strict", [], lenient["faults"])
    return []
