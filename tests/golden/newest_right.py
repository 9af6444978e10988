"""Where the newest client's nodes deliberately differ from our rows: our value, and why."""

from __future__ import annotations

from typing import Any

from tests.golden import rows
from tests.golden.model import Model
from tests.golden.model_commands import Command
from tests.golden.model_log import flat, message, text
from tests.golden.model_nested import tree
from tests.golden.model_steps import Assistant, Turn
from tests.golden.model_tools import Tool
from tests.golden.newest_views import anchor, speed
from tests.golden.values import ABSENT

Json = Any
Node = dict[str, Any]
Row = dict[str, Any]
FOLLOWS_T = 0  #: commands and markers have no rows of N's kind
FINE = -1  #: a row that the newest client has no node for, by its own definition


def value(name: str, node: Node, row: Row, model: Model) -> tuple[Json, int | None]:
    """Our value of a field of ``row`` by the model, and the difference that asks for it."""
    kind = row["kind"]
    if kind in rows.INPUTS:
        return _input(name, row, model)
    if kind == "assistant":
        return _assistant(name, row, model)
    if kind == "tool":
        return _tool(name, row, model)
    if kind in ("command", "compaction"):
        return _command(name, row, model)
    if kind == "turn":
        return _turn(name, row, model)
    if kind == "max-tokens" and name == "anchor":
        return _notice(row, model)
    return ABSENT, None


def _input(name: str, row: Row, model: Model) -> tuple[Json, int | None]:
    seq = row["anchor_seq"]
    if name == "kind":
        return model.kinds.get(seq, ABSENT), 6
    if name == "producer" and row["kind"] == "context":
        return rows.text_fields({"p": model.producer(seq)}, "p")["p"], 12
    if name == "message_id" and flat(model.at[seq]):
        return f"legacy:{seq}", 13
    return ABSENT, None


def assistant(row: Row, model: Model) -> Assistant | None:
    mark = anchor(row)
    place = row["turn"], row["step"]
    here = [r for r in model.steps.rows if r.seq * 100 + r.rank == mark]
    return next((r for r in here if (r.turn, r.step) == place), None)


def _assistant(name: str, row: Row, model: Model) -> tuple[Json, int | None]:
    own = assistant(row, model)
    if own is None:
        return ABSENT, None
    values: Node = {"step_start": own.start, "token": own.token, "completed": own.completed}
    values |= {"status": own.status, "visibility": own.visibility, "usage": own.usage}
    if name not in values:
        return ABSENT, None
    if own.forgotten:
        return values[name], 19
    if own.looked_ahead:
        return values[name], 2
    streamed = name in ("token", "usage") and model.version >= 3
    return values[name], 25 if streamed else None


def tool(row: Row, model: Model) -> Tool | None:
    data, tools = row["data"], model.tools
    if data["call_seq"] is not None:
        return tools.by_call(data["call_seq"])
    return tools.by_result(data["result_seq"])


def _tool(name: str, row: Row, model: Model) -> tuple[Json, int | None]:
    own = tool(row, model)
    if own is None:
        return ABSENT, None
    if name == "visibility":
        return own.visibility, 7 if own.result is None else None
    if own.at_own_seq and own.result is None and own.cut and name in ("result", "time"):
        return (
            own.cut[0] * 100 + row["data"]["result_rank"] if name == "result" else own.cut[1]
        ), 19
    if own.call_id in model.tools.dropped.values():
        return told(own).get(name, ABSENT), 8
    if own.call_id in model.tools.reused:
        return told(own).get(name, ABSENT), 1
    if own.call_id in model.tools.forgotten:
        return told(own).get(name, ABSENT), 19
    return (told(own).get(name, ABSENT), 2) if own.completed_late else (ABSENT, None)


def told(own: Tool) -> Node:
    """A tool row in the words of ``newest_views``, as far as the log says it."""
    status = "done" if own.status == "ok" else own.status
    values: Node = {"anchor": own.anchor * 100, "status": status}
    values["subs"] = [child.view(own.closed) for child in tree(own.call_id, own.nested)]
    if own.call is None:
        values |= {"call": None, "callTime": None}
    else:
        data = own.call.data
        call = {"name": data.get("name"), "argsRaw": data.get("arguments")}
        values |= {"call": rows.text_fields(call, "name", "argsRaw"), "callTime": own.call.time}
    if own.result is not None:
        values |= {"result": own.result.seq * 100, "content": _content(own)}
        values |= {"isError": status == "error", "meta": own.result.data.get("meta")}
        values |= {"error": own.result.data.get("error"), "time": own.result.time}
    return values


def commanded(own: Command) -> Node:
    """A command row in the words of ``newest_views``."""
    mark, first = own.marker, own.run or own.first_done
    status = own.outcome["kind"] if own.outcome else "running"
    values: Node = {"anchor": (mark.ev.seq if mark else own.seq) * 100, "outcome": own.outcome}
    values |= {"compaction": {"seq": mark.ev.seq, **mark.fields} if mark else None}
    values |= {"status": status + ("+compacted" if mark else ""), "seq": own.seq}
    return values | {"name": own.name, "time": first.time if first else None}


def _content(own: Tool) -> Json:
    assert own.result is not None
    content = message(own.result).get("content")
    first = content[0] if isinstance(content, list) and content else None
    wrapped = isinstance(first, dict) and first.get("type") == "tool-result"
    return first.get("content") if wrapped else content  # type: ignore[union-attr]


def _command(name: str, row: Row, model: Model) -> tuple[Json, int | None]:
    commands = model.commands
    if row["kind"] == "compaction":
        mark = next((m for m in commands.markers if m.ev.seq == row["anchor_seq"]), None)
        if mark is None:
            return ABSENT, None
        return mark.fields.get(name, ABSENT), 9 if mark.fallback else FOLLOWS_T
    own = next((c for c in commands.commands if c.seq == rows.made_at(row)), None)
    if own is None:
        return ABSENT, None
    again = sum(c.command_id == own.command_id for c in commands.commands) > 1
    values = commanded(own)
    reason = 3 if again else 2 if own.early else 11 if commands.proofs(own) else FOLLOWS_T
    return values.get(name, ABSENT), reason


def turn(row: Row, model: Model) -> Turn | None:
    return next((t for t in model.steps.turns if t.seq == row["anchor_seq"]), None)


def _turn(name: str, row: Row, model: Model) -> tuple[Json, int | None]:
    own = turn(row, model)
    if own is None:
        return ABSENT, None
    values: Node = {"closing": own.closing_seq, "ttft": own.ttft_ms}
    values["speed"] = speed(own.decode_tokens, own.decode_ms)
    if name not in values:
        return ABSENT, None
    if model.version >= 3 and name in ("ttft", "speed"):
        return values[name], 25
    if own.copies:
        return values[name], 16
    if own.attempts:
        return values[name], 21
    if own.second:
        return values[name], 4
    mine = [r for r in model.steps.rows if r.turn == own.number]
    if any(r.forgotten for r in mine):
        return values[name], 19
    return values[name], 2 if any(r.looked_ahead for r in mine) else None


def _notice(row: Row, model: Model) -> tuple[Json, int | None]:
    """A max-tokens notice follows its closing row, which only an attempt may speak for."""
    own = next((t for t in model.steps.turns if t.number == row["turn"] and t.attempts), None)
    if own is None or own.closing_seq is None:
        return ABSENT, None
    closing = next(r for r in model.steps.rows if r.seq == own.closing_seq)
    return closing.seq * 100 + (-85 if closing.rank else 5), 21


def missing(node: Node, ours: list[Row], model: Model) -> int | None:
    """Why we have no row of this kind for a node."""
    kind, data = node["kind"], node.get("data") or {}
    if kind in ("compaction", "manual-compaction"):
        return _marker(kind, node["anchorSeq"], ours, model)
    if kind == "turn-error" and model.version == 4:
        ended = model.at.get(round(node["anchorSeq"]))
        reason = ended.data.get("reason") if ended else None
        cut = isinstance(reason, dict) and reason.get("kind") == "interrupted"
        return 20 if cut and data.get("code", "INTERRUPTED") == "INTERRUPTED" else None
    return None


def _marker(kind: str, seq: int, ours: list[Row], model: Model) -> int | None:
    """A marker whose command the reference knows by another proof, or makes up without a run."""
    mark = next((m for m in model.commands.markers if m.ev.seq == seq), None)
    if mark is None:
        return None
    joined = next((c for c in model.commands.commands if c.marker is mark), None)
    wanted = "command" if kind == "compaction" else "compaction"
    there = any(r["kind"] == wanted and r["anchor_seq"] == seq for r in ours)
    return 11 if there and (joined is not None) == (wanted == "command") else None


def extra(row: Row, model: Model) -> int | None:
    """Why N has no node for a row of ours; FINE where its definitions have none."""
    kind, data = row["kind"], row["data"]
    if kind == "assistant":
        return _extra_step(row, model)
    if kind == "compaction":
        if not rows.landed(row):
            return FINE
        mark = next((m for m in model.commands.markers if m.ev.seq == row["anchor_seq"]), None)
        if mark is None:
            return None
        if mark.compaction_id is None:
            return 5
        alike = [m for m in model.commands.markers if m.compaction_id == mark.compaction_id]
        return 11 if mark.command_id is not None or len(alike) > 1 else None
    if kind == "command":
        own = [c for c in model.commands.commands if c.command_id == data["command_id"]]
        return 3 if len(own) > 1 else None
    if kind == "retry":
        return 15 if all(a["retry"] != 1 for a in data["attempts"]) else None
    if kind == "tool":
        own_tool = tool(row, model)
        many = [t for t in model.tools.rows if own_tool and t.call_id == own_tool.call_id]
        return (
            (1 if own_tool and own_tool.call_id in model.tools.reused else 19)
            if len(many) > 1
            else None
        )
    if kind in rows.INPUTS:
        own_ev = model.at.get(row["anchor_seq"])
        return _repeated(text(message(own_ev).get("id")), model) if own_ev else None
    return _extra_turn(row, model)


def _extra_step(row: Row, model: Model) -> int | None:
    own = assistant(row, model)
    if own is None:
        return None
    if own.status == "running" and own.visibility == "auxiliary":
        return FINE
    if own.by_attempt:
        return 21
    alike = [r for r in model.steps.rows if (r.turn, r.step) == (own.turn, own.step)]
    return 4 if len(alike) > 1 else None


def _repeated(name: str | None, model: Model) -> int | None:
    """A message id used again is one node there."""
    told = [e for e in model.events if e.append and text(message(e).get("id")) == name]
    return 1 if len(told) > 1 else None


def _extra_turn(row: Row, model: Model) -> int | None:
    """Turn rows and notices of a turn whose start lies before the window are ours alone."""
    started = any(e.type == "turn/start" and e.turn == row["turn"] for e in model.events)
    ends = [e for e in model.events if e.type == "turn/end" and e.turn == row["turn"]]
    if not started and model.events and model.events[0].seq > 0:
        return FINE
    return 2 if len(ends) > 1 else None
