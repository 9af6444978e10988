"""The decoded events of a log as the reference prints them, and their hashes.

What `directories/README.md` of the golden data defines: packed rows and source ranges expanded,
`JSON.stringify` of each event, joined by newlines.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")
_PACKED = {"text-chunks": "text-delta", "reasoning-chunks": "reasoning-delta"}


def events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events of body lines; a line that is no row of either form is left out."""
    for line in lines:
        try:
            row = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            continue
        if not isinstance(row, dict):
            continue
        if "seq0" in row:
            yield from _members(row)
        elif "seq" in row:
            sources = row.get("sourceEventSeqs")
            if isinstance(sources, list):
                row["sourceEventSeqs"] = list(_expanded(sources))
            yield row


def digest(rows: Iterable[dict[str, Any]], *, ordered: bool = False) -> str:
    """sha256 of the printed events; ``ordered``: with all keys sorted by UTF-16 code unit."""
    return hashlib.sha256("\n".join(_text(row, ordered) for row in rows).encode()).hexdigest()


def _members(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    data = row["data"]
    texts = data.get("texts", data.get("args"))
    time = row["time0"]
    for at, text in enumerate(texts):
        time += data["dt"][at - 1] if at else 0
        chunk = {"type": _PACKED.get(row["type"], "tool-call-delta"), "index": data["index"]}
        if row["type"] == "tool-call-chunks":
            chunk |= {key: data[key] for key in ("id", "name") if key in data}
            chunk["argumentsDelta"] = text
        else:
            chunk["text"] = text
        where = {"turn": data["turn"], "step": data["step"], "chunk": chunk}
        yield {"type": "assistant/chunk", "seq": row["seq0"] + at, "time": time, "data": where}


def _expanded(sources: list[Any]) -> Iterator[Any]:
    for source in sources:
        if isinstance(source, list):
            yield from range(source[0], source[1] + 1)
        else:
            yield source


def _text(value: Any, ordered: bool) -> str:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be")) if ordered else list(value)
        members = (f"{_text(key, ordered)}:{_text(value[key], ordered)}" for key in keys)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(item, ordered) for item in value) + "]"
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return _LONE.sub(lambda half: f"\\u{ord(half[0]):04x}", quoted)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)
