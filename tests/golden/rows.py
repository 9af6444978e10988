"""Our document, put the way the golden files put it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.golden.values import Finding, scrubbed

Json = Any
Row = dict[str, Any]
INPUTS = ("user", "steering", "context")


def sane(doc: dict[str, Any]) -> list[Finding]:
    """What holds for the row list of every document: order, keys, nothing deleted."""
    rows = doc["rows"]
    marks = [(r["anchor_seq"], r["anchor_rank"], r["key"]) for r in rows]
    found = []
    if marks != sorted(marks):
        found.append(Finding("rows: order", sorted(marks), marks))
    if len({r["key"] for r in rows}) != len(rows):
        found.append(Finding("rows: keys are unique", True, False))
    if any(r["deleted"] or r["data"] is None for r in rows):
        found.append(Finding("rows: none is deleted", True, False))
    return found


def block(value: Json) -> Json:
    """A log's content block in the reference's terms."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("text", "reasoning"):
        return {"kind": kind, "text": value.get("text")}
    if kind == "tool-call":
        named = {"callId": value.get("id") or "", "name": value.get("name") or ""}
        return {"kind": kind, **named, "argsRaw": value.get("arguments")}
    return {"kind": "?"}


def golden_block(value: Json) -> Json:
    """Kinds that only the reference names are not compared."""
    return value if value.get("kind") in ("text", "reasoning", "tool-call") else {"kind": "?"}


def text_fields(node: Row, *names: str) -> Row:
    """``node`` with the named ``string`` fields as such a field shows them."""
    return {k: scrubbed(v) if k in names and isinstance(v, str) else v for k, v in node.items()}


def final(row: Row) -> bool:
    """An assistant row with a final message."""
    settled = row["data"]["status"] in ("settled", "interrupted")
    return bool(row["kind"] == "assistant" and row["anchor_rank"] == 0 and settled)


def logged(row: Row) -> bool:
    """A tool row with a logged result (not a stand-in)."""
    data = row["data"]
    settled = row["kind"] == "tool" and data["result_seq"] is not None
    return bool(settled and data["result_rank"] == 0)


def landed(row: Row) -> bool:
    return bool(row["kind"] == "compaction" and row["data"]["status"] == "landed")


def marker(data: Json) -> Row:
    """Compaction data as a T marker, but for its time."""
    return {
        "seq": data["checkpoint_seq"],
        "summary": data["summary"],
        "summaryEventSeq": data["summary_seq"],
        "shadowedItemCount": data["item_count"],
        "shadowedTokenCount": data["token_count"],
    }


def outcome(data: Json) -> Json:
    if data["status"] == "running":
        return None
    told: Row = {"kind": data["status"]}
    if data["text"] is not None:
        told["text"] = data["text"]
    if data["source_event_seq"] is not None:
        told["sourceEventSeq"] = data["source_event_seq"]
    return told


def made_at(row: Row) -> int:
    """Where a command stands before it is joined: its run, else the first done, which made it."""
    run = row["data"]["run_seq"]
    return int(row["key"].rpartition(":")[2] if run is None else run)


def command(row: Row) -> Row:
    data = row["data"]
    return {
        "seq": made_at(row),
        "time": row["time"],
        "commandId": data["command_id"],
        "name": data["name"],
        "args": data["args"],
        "outcome": outcome(data),
    }


def transcript(row: Row) -> Iterator[tuple[str, int, Row]]:
    """The T nodes that a row stands for: (kind, seq, fields); none for the kinds T lacks."""
    kind, data, seq = row["kind"], row["data"], row["anchor_seq"]
    if kind in INPUTS:
        node = {"time": row["time"], "content": data["content"], "source": data["source"]}
        if kind == "steering":
            node["messageId"] = data["message_id"]
        elif kind == "context":
            node |= {"producer": data["producer"], "form": data["form"]}
        yield kind, seq, node
    elif kind == "assistant" and final(row):
        timing = ("step_start_time", "first_token_time", "completed_time")
        named = ("stepStartTime", "firstTokenTime", "completedTime")
        node = {"time": row["time"], "turn": row["turn"], "step": row["step"]}
        node["blocks"] = [block(b) for b in data["blocks"]]
        node["usage"] = data["usage"]
        node["timing"] = {n: data[t] for n, t in zip(named, timing, strict=True)}
        yield kind, seq, node
    elif kind == "tool" and logged(row):
        yield "tool-result", data["result_seq"], tool(data)
    elif kind == "command":
        node = command(row)
        yield kind, node["seq"], node
        if data["compaction"] is not None:
            yield "compaction", data["compaction"]["checkpoint_seq"], marker(data["compaction"])
    elif landed(row):
        yield kind, seq, {"time": row["time"], **marker(data)}


def tool(data: Json) -> Row:
    """Tool data as T's or N's result node."""
    call = None
    if data["call_seq"] is not None:
        call = {"name": data["name"], "argsRaw": data["arguments"]}
    return {
        "time": data["result_time"],
        "callId": data["call_id"],
        "call": call,
        "callTime": data["call_time"],
        "content": data["content"],
        "isError": data["is_error"],
        "error": data["error"],
        "meta": data["meta"],
    }


def named(rows: list[Row], kind: str) -> list[Row]:
    return [r for r in rows if r["kind"] == kind]
