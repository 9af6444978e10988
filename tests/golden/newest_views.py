"""Nodes of the newest client and our rows in the same fields, so that they can be compared."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.golden import rows
from tests.golden.model import Model

Json = Any
Node = dict[str, Any]
Row = dict[str, Any]
STATUS = {"ok": "done"}
SHOWN = {"visible": "transcript", "hidden": "auxiliary"}


def anchor(row: Row) -> int:
    """An anchor as the reference's number times 100."""
    return int(row["anchor_seq"] * 100 + row["anchor_rank"])


def hundredths(seq: float | None) -> int | None:
    return None if seq is None else round(seq * 100)


def golden(node: Node) -> Node:
    """What a node says, in our words; of a window's bare node only what it has."""
    kind, data = node["kind"], node.get("data")
    view: Node = {} if kind == "turn-tail" else {"anchor": hundredths(node["anchorSeq"])}
    if kind != "turn-tail":
        view["visibility"] = SHOWN[node["visibility"]]
    if "status" in node:
        view["status"] = node["status"]
    if data is not None:
        view |= GOLDEN[kind](data, node)
    return view


def _input(data: Node, node: Node) -> Node:
    kind = "context" if node["kind"] == "turn-trigger" else node["kind"]
    view = {"kind": kind, "time": data["time"]}
    view |= {"content": data["content"], "source": data["source"]}
    if "id" in node:
        view["message_id"] = node["id"]
    if "form" in data:
        view["form"] = data["form"]
        view["producer"] = (data.get("provenance") or data["producer"])["label"]
    return rows.text_fields(view, "producer", "message_id")


def _step(data: Node, node: Node) -> Node:
    view: Node = {"blocks": [rows.golden_block(b) for b in data["blocks"]]}
    view |= {"turn": data["turn"], "step": data["step"]}
    final = data.get("finalNode")
    if final is not None and "timing" in final:
        view["usage"] = data.get("usage")
        view["message_id"] = final.get("messageId")
        timing = final["timing"]
        view |= {"step_start": timing["stepStartTime"], "token": timing["firstTokenTime"]}
        view["completed"] = timing["completedTime"]
    view["time"] = final["time"] if final is not None else data["time"]
    return rows.text_fields(view, "message_id")


def _tool(data: Node, node: Node) -> Node:
    root = data["root"]
    if "kind" not in root:
        names = {"name": root["name"], "argsRaw": root["argsRaw"]}
        call = rows.text_fields(names, "name", "argsRaw")
        return {"call": call, "callTime": root["time"], "subs": subs(root)}
    call = root["call"]
    view = {k: root[k] for k in ("callId", "callTime", "content", "isError", "time")}
    view["call"] = rows.text_fields(call, "name", "argsRaw") if call else None
    view |= {"error": root.get("error"), "meta": root.get("meta"), "subs": subs(root)}
    view["result"] = hundredths(root["seq"])
    return rows.text_fields(view, "callId")


def subs(root: Node) -> list[Node]:
    """Nested calls of a golden root: id, name, arguments, content, error, times, children."""
    found = []
    for sub in root["subCalls"]:
        running = "kind" not in sub
        call = {"name": sub["name"], "argsRaw": sub["argsRaw"]} if running else sub["call"]
        cut = not running and float(sub["seq"]) != math.floor(sub["seq"])
        status = "running" if running else "interrupted" if cut else None
        view = {
            "id": sub["callId"],
            "name": call["name"] if call else None,
            "arguments": json.loads(call["argsRaw"]) if call else None,
            "status": status or ("error" if sub["isError"] else "ok"),
            "started": sub["time"] if running else sub["callTime"],
            "ended": None if running else math.ceil(sub["seq"]),
            "content": [] if running else sub["content"],
            "error": None if cut else sub.get("error"),
            "subs": subs(sub),
        }
        found.append(rows.text_fields(view, "id", "name"))
    return found


def _command(data: Node, node: Node) -> Node:
    view = {k: data[k] for k in ("seq", "time", "commandId", "name", "args", "outcome")}
    if view["outcome"]:
        view["outcome"] = rows.text_fields(view["outcome"], "text")
    return rows.text_fields(view, "commandId", "name", "args")


def _manual(data: Node, node: Node) -> Node:
    view = _command(data["command"], node)
    joined = data["compaction"]
    view["compaction"] = _marker(joined, node) if joined else None
    return view


def _marker(data: Node, node: Node) -> Node:
    kept = ("seq", "summary", "summaryEventSeq", "shadowedItemCount", "shadowedTokenCount")
    return rows.text_fields({k: data[k] for k in kept}, "summary")


def _retry(data: Node, node: Node) -> Node:
    names = ("seq", "time", "retry", "maxRetries", "delayMs", "failure")
    return {"attempts": [{n: a.get(n) for n in names} for a in data["attempts"]]}


def _error(data: Node, node: Node) -> Node:
    masked = data.get("code") == "AUTH"
    view = {"message": None if masked else data["message"], "code": data.get("code")}
    return rows.text_fields({**view, "masked": masked, "time": data["time"]}, "message", "code")


def _max(data: Node, node: Node) -> Node:
    return {"turn": data["turn"]}


def _tail(data: Node, node: Node) -> Node:
    closing = data["closingSeq"]
    view = {"closing": None if closing is None else math.ceil(closing)}
    view |= {"seq": data["seq"], "time": data["time"]}
    view["ttft"] = data.get("ttftMs")
    if "tokenUsage" not in data:
        view["speed"] = data.get("tokensPerSecond")
    return view


GOLDEN = {
    "user": _input,
    "steering": _input,
    "context": _input,
    "turn-trigger": _input,
    "assistant-step": _step,
    "tool-call": _tool,
    "command": _command,
    "manual-compaction": _manual,
    "compaction": _marker,
    "model-retry": _retry,
    "turn-error": _error,
    "turn-max-tokens": _max,
    "turn-tail": _tail,
}


def ours(row: Row, model: Model) -> Node:
    """A row in the same fields."""
    data, kind = row["data"], row["kind"]
    view: Node = {"anchor": anchor(row), "visibility": row["visibility"], "time": row["time"]}
    view |= {"kind": kind, "turn": row["turn"], "step": row["step"]}
    if kind in rows.INPUTS:
        names = ("content", "source", "message_id", "producer", "form")
        view |= {n: data[n] for n in names}
    elif kind == "assistant":
        view |= {"status": data["status"], "blocks": [rows.block(b) for b in data["blocks"]]}
        view |= {"usage": data["usage"], "message_id": data["message_id"]}
        view |= {"step_start": data["step_start_time"], "token": data["first_token_time"]}
        view["completed"] = data["completed_time"]
    elif kind == "tool":
        view |= rows.tool(data)
        view["status"] = STATUS.get(data["status"], data["status"])
        if data["result_seq"] is not None:
            view["result"] = data["result_seq"] * 100 + data["result_rank"]
        view["subs"] = own_subs(data["sub_calls"], model)
    elif kind == "command":
        view |= rows.command(row)
        joined = data["compaction"]
        view["compaction"] = rows.marker(joined) if joined else None
        view["status"] = data["status"] + ("+compacted" if joined else "")
    elif kind == "compaction":
        view |= rows.marker(data)
    elif kind == "retry":
        view |= {"status": data["status"], "attempts": [attempt(a) for a in data["attempts"]]}
    elif kind == "turn-error":
        view |= {n: data[n] for n in ("message", "code", "masked")}
    elif kind == "turn":
        view |= {"closing": data["closing_seq"], "seq": row["anchor_seq"]}
        view |= {"ttft": data["ttft_ms"], "speed": speed(data["decode_tokens"], data["decode_ms"])}
    return view


def speed(tokens: int | None, ms: int | None) -> float | None:
    return tokens / (ms / 1000) if tokens is not None and ms else None


def attempt(data: Node) -> Node:
    named = {"retry": "retry", "maxRetries": "max_retries", "delayMs": "delay_ms"}
    view = {n: data[n] for n in ("seq", "time", "failure")}
    return view | {n: data[o] for n, o in named.items()}


def own_subs(listed: list[Node], model: Model) -> list[Node]:
    found = []
    for sub in listed:
        start = model.at.get(sub["start_seq"]) if sub["start_seq"] is not None else None
        cut = sub["status"] == "interrupted"
        found.append(
            {
                "id": sub["call_id"],
                "name": sub["name"],
                "arguments": sub["arguments"],
                "status": sub["status"],
                "started": start.time if start else None,
                "ended": sub["end_seq"],
                "content": sub["content"] or [],
                "error": None if cut else sub["error"],
                "subs": own_subs(sub["sub_calls"], model),
            }
        )
    return found
