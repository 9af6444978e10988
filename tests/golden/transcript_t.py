"""``transcript.json``: the rows that a person reads, and their order after joining."""

from __future__ import annotations

from typing import Any

from tests.golden import rows
from tests.golden.model import Model
from tests.golden.model_steps import Assistant
from tests.golden.values import ABSENT, Finding, settle

Json = Any
Node = dict[str, Any]
Key = tuple[str, int]
UNSEEN = {"kind", "seq", "callView", "resultView", "subCalls"}
STRINGS = ("messageId", "callId", "summary", "producer", "commandId", "name", "args")


def compare(golden: Node, doc: Node, model: Model) -> list[Finding]:
    """All findings of one ``transcript.json`` (also of one window: ``nodes`` and ``flow``)."""
    if golden.get("error"):
        return []
    ours = {(k, s): n for row in doc["rows"] for k, s, n in rows.transcript(row)}
    wanted = {(n["kind"], n["seq"]): view(n) for n in golden["nodes"]}
    found = [f for key in wanted for f in node(key, wanted[key], ours.get(key), model)]
    for key in ours.keys() - wanted.keys():
        reason = 3 if key[0] == "command" and runs(model, key[1]) > 1 else None
        found.append(Finding(f"T {key}", ABSENT, "a row", reason))
    seqs = [n["seq"] for n in golden["nodes"]]
    if seqs != sorted(seqs):
        moved = [n["seq"] for n in golden["nodes"] if n["kind"] == "command"]
        repeated = any(runs(model, seq) > 1 for seq in moved)
        found.append(Finding("T order", seqs, sorted(seqs), 3 if repeated else None))
    return found + flow(golden["flow"], doc, model)


def view(golden: Node) -> Node:
    """A golden node with the fields that we compare."""
    kept = {k: v for k, v in golden.items() if k not in UNSEEN}
    if golden["kind"] == "context":
        kept["producer"] = kept.pop("provenance")["label"]
    elif golden["kind"] == "assistant":
        kept["blocks"] = [rows.golden_block(b) for b in kept["blocks"]]
        kept.setdefault("usage", None)
    elif golden["kind"] == "tool-result":
        kept.setdefault("error", None)
        kept.setdefault("meta", None)
        if kept["call"]:
            kept["call"] = rows.text_fields(kept["call"], "name", "argsRaw")
    elif golden["kind"] == "command" and kept["outcome"]:
        kept["outcome"] = rows.text_fields(kept["outcome"], "text")
    return rows.text_fields(kept, *STRINGS)


def node(key: Key, golden: Node, ours: Node | None, model: Model) -> list[Finding]:
    where = f"T {key[0]} {key[1]}"
    if ours is None:
        return [Finding(where, "a node", ABSENT, missing(key, model))]
    found = []
    for name, value in golden.items():
        if name in ours:
            expected, reason = right(key, name, model)
            found += settle(f"{where}.{name}", value, ours[name], expected, reason)
        elif not (key[0] == "compaction" and name == "time"):
            found.append(Finding(f"{where}.{name}", value, ABSENT))
    return found


def missing(key: Key, model: Model) -> int | None:
    """Why we have no row for a T node."""
    kind, seq = key
    if kind == "tool-result" and seq in model.tools.dropped:
        return 8
    if kind == "command" and runs(model, seq) > 1 and seq not in rows_of(model):
        return 3
    return None


def rows_of(model: Model) -> set[int]:
    return {c.seq for c in model.commands.commands}


def runs(model: Model, seq: int) -> int:
    """How many runs the command id of this run or done has."""
    ev = model.at.get(seq)
    name = ev.data.get("commandId") if ev else None
    return sum(c.command_id == name for c in model.commands.commands)


def right(key: Key, name: str, model: Model) -> tuple[Json, int | None]:
    """Our own value of a field and the difference that asks for it."""
    kind, seq = key
    if kind == "context" and name == "producer":
        return rows.text_fields({"p": model.producer(seq)}, "p")["p"], 12
    if kind == "assistant" and name == "timing":
        row = next((r for r in model.steps.rows if r.final and r.seq == seq), None)
        return (timing(row), timing_reason(row)) if row else (ABSENT, None)
    if kind == "tool-result" and name in ("call", "callTime"):
        return called(seq, name, model)
    if kind == "compaction":
        mark = next((m for m in model.commands.markers if m.ev.seq == seq), None)
        if mark is not None and mark.fallback:
            return mark.fields.get(name, ABSENT), 9
    if kind == "command" and runs(model, seq) > 1:
        return _command(name, seq, model), 3
    if kind == "command" and any(c.seq == seq and c.early for c in model.commands.commands):
        return _command(name, seq, model), 2
    return ABSENT, None


def _command(name: str, seq: int, model: Model) -> Json:
    own = next((c for c in model.commands.commands if c.seq == seq), None)
    args = own.run.data.get("args") if own and own.run else None
    told = {"name": own.name, "args": args, "outcome": own.outcome} if own else {}
    return told.get(name, ABSENT)


def timing(row: Assistant) -> Node:
    return {
        "stepStartTime": row.start,
        "firstTokenTime": row.token,
        "completedTime": row.completed,
    }


def timing_reason(row: Assistant) -> int | None:
    if row.forgotten:
        return 19
    return 2 if row.looked_ahead else None


def called(seq: int, name: str, model: Model) -> tuple[Json, int | None]:
    """What call a result belongs to under our pairing, and why T says another."""
    tools = model.tools
    row = tools.by_result(seq)
    if row is None:
        return ABSENT, None
    call = row.call
    value: Json = None
    if call is not None:
        told = {"name": call.data.get("name"), "argsRaw": call.data.get("arguments")}
        value = rows.text_fields(told, "name", "argsRaw") if name == "call" else call.time
    if row.call_id in tools.reused:
        return value, 1
    if row.call_id in tools.forgotten:
        return value, 19
    later = (e for e in model.events if e.type == "tool/call" and e.seq > seq)
    return value, 2 if any(e.data.get("callId") == row.call_id for e in later) else None


def flow(golden: list[Node], doc: Node, model: Model) -> list[Finding]:
    """Which rows are shown, in which order, and which commands are joined."""
    theirs: list[tuple[Any, ...]] = []
    for item in golden:
        if item["kind"] == "node":
            theirs.append((item["nodeKind"], item["seq"]))
        elif item["kind"] == "tool-group":
            theirs += [("tool-result", seq) for seq in item["seqs"]]
        else:
            theirs.append(("card", item["compactionSeq"], item["commandSeq"]))
    ours, right_ones = shown(doc), shown_by_model(model)
    found = []
    for mark in sorted(set(theirs) ^ set(ours), key=str):
        agreed = (mark in ours) == (mark in right_ones)
        reason = flow_reason(mark, model) if agreed else None
        sides = ("shown", ABSENT) if mark in theirs else (ABSENT, "shown")
        found.append(Finding(f"T flow {mark}", *sides, reason))
    order = [i for i in theirs if i in ours and i[0] != "tool-result"]
    own = [i for i in ours if i in theirs and i[0] != "tool-result"]
    if order != own:
        repeated = len(rows_of(model)) != len({c.command_id for c in model.commands.commands})
        found.append(Finding("T flow order", order, own, 3 if repeated else None))
    return found


def shown(doc: Node) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for row in doc["rows"]:
        if row["visibility"] != "transcript":
            continue
        nodes = list(rows.transcript(row))
        if row["kind"] == "command" and row["data"]["compaction"] is not None:
            found.append(("card", row["anchor_seq"], nodes[0][1]))
        else:
            found += [(kind, seq) for kind, seq, _ in nodes]
    return found


def shown_by_model(model: Model) -> set[tuple[Any, ...]]:
    found: set[tuple[Any, ...]] = {(k, s) for s, k in model.kinds.items()}
    for row in model.steps.rows:
        if row.final and row.visibility == "transcript":
            found.add(("assistant", row.seq))
    found |= {("tool-result", t.result.seq) for t in model.tools.rows if t.result}
    joined = {id(c.marker) for c in model.commands.commands if c.marker}
    for command in model.commands.commands:
        mark = command.marker
        found.add(("card", mark.ev.seq, command.seq) if mark else ("command", command.seq))
    found |= {("compaction", m.ev.seq) for m in model.commands.markers if id(m) not in joined}
    return found


def flow_reason(item: tuple[Any, ...], model: Model) -> int | None:
    kind, seq = item[0], item[1]
    if kind == "tool-result" and seq in model.tools.dropped:
        return 8
    if kind == "assistant":
        row = next((r for r in model.steps.rows if r.seq == seq and r.final), None)
        blanked = row is not None and row.status == "interrupted"
        return 14 if blanked else None
    if kind == "command" and runs(model, seq) > 1:
        return 3
    if kind == "compaction":
        mark = next((m for m in model.commands.markers if m.ev.seq == seq), None)
        return 11 if mark and model.commands.claimed(mark) else None
    command = next((c for c in model.commands.commands if c.seq == item[-1]), None)
    return 11 if command and model.commands.proofs(command) else None


def prefix(golden: Node, doc: Node, model: Model) -> list[Finding]:
    """The short form of a prefix: [kind, seq] pairs, and the commands as nodes."""
    nodes = [(k, s, n) for row in doc["rows"] for k, s, n in rows.transcript(row)]
    ours = {(k, s): n for k, s, n in nodes}
    wanted = {(kind, seq) for kind, seq in golden["transcript"]}
    wanted |= {("command", c["seq"]) for c in golden["commands"]}
    found = [Finding(f"T {k}", "a node", ABSENT, missing(k, model)) for k in wanted - ours.keys()]
    for key in ours.keys() - wanted:
        reason = 3 if key[0] == "command" and runs(model, key[1]) > 1 else None
        found.append(Finding(f"T {key}", ABSENT, "a row", reason))
    for told in golden["commands"]:
        key = ("command", told["seq"])
        if key in ours:
            found += node(key, view(told), ours[key], model)
    landed = len(doc["surface"]["replacements"])
    if golden["replacementCount"] != landed:
        found.append(Finding("replacements", golden["replacementCount"], landed))
    return found
