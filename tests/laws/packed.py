"""Packed chunk rows written out as the chunk events they stand for (session-log.md §1.5)."""

from __future__ import annotations

import json
from typing import Any

from tests.strategies import dump

PACKED = {
    "text-chunks": ("text", "texts"),
    "reasoning-chunks": ("text", "texts"),
    "tool-call-chunks": ("argumentsDelta", "args"),
}


def unpacked(log: list[bytes]) -> list[bytes]:
    """The log with every packed row written as chunk events (session-log.md §1.5)."""
    return [line for row in log for line in members_of(row)]


def comparable(folded: dict[str, Any]) -> dict[str, Any]:
    """The document of a log without what tells a packed row from its members: shapes, line numbers,
    and how far a running row was read when the last members were empty."""
    folded["overview"].pop("shapes")
    for fault in folded["faults"]:
        fault.pop("line")
    for row in folded["rows"]:
        if row["kind"] == "assistant" and row["data"]["status"] == "running":
            del row["rev"], row["seq"]
    return folded


def members_of(line: bytes) -> list[bytes]:
    row = json.loads(line)
    kind, data = row["type"], row.get("data")
    if kind not in PACKED:
        return [line]
    delta = {"type": kind.replace("-chunks", "-delta"), "index": data["index"]}
    delta |= {key: data[key] for key in ("id", "name") if key in data}
    field, texts = PACKED[kind]
    place, time, lines = {"turn": data["turn"], "step": data["step"]}, row["time0"], []
    for number, text in enumerate(data[texts]):
        time += data["dt"][number - 1] if number else 0
        event = {"type": "assistant/chunk", "seq": row["seq0"] + number, "time": time}
        lines.append(dump(event | {"data": place | {"chunk": delta | {field: text}}}))
    return lines
