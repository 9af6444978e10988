"""A row as the gateway gives it, drawn as `foldstream show` draws it."""

from __future__ import annotations

import json
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct, structs
from rich.console import Group, RenderableType
from rich.text import Text

from operators.changes import (
    AssistantData,
    CommandData,
    CompactionData,
    GapData,
    MaxTokensData,
    MessageData,
    RetryData,
    RowData,
    ToolData,
    TranscriptRow,
    TurnData,
    TurnErrorData,
    UnknownData,
)
from pipeline import render
from pipeline.cutting import cut, readable
from pipeline.gateway.keyed import Json
from pipeline.plain import visible_line

ELSEWHERE = "({size} bytes: Enter shows all of it)"
_KINDS: dict[str, type[RowData]] = {
    "user": MessageData,
    "steering": MessageData,
    "context": MessageData,
    "system": MessageData,
    "assistant": AssistantData,
    "tool": ToolData,
    "command": CommandData,
    "compaction": CompactionData,
    "retry": RetryData,
    "turn-error": TurnErrorData,
    "max-tokens": MaxTokensData,
    "turn": TurnData,
    "gap": GapData,
    "unknown": UnknownData,
}
_LISTS = ("content", "blocks")  #: of blocks; other large bodies are text


def drawn(row: Json, *, whole: bool = False) -> RenderableType:
    """``whole``: all that it holds. A row of a kind or shape added later is shown as it came."""
    try:
        typed = typed_row(row)
    except (msgspec.ValidationError, KeyError, TypeError):
        heading = Text(f"{cut(visible_line(str(row.get('kind'))))}  #{row['anchor_seq']}", "dim")
        body = readable(json.dumps(row["data"], ensure_ascii=False, indent=1))
        return Group(heading, Text(body, "dim"), Text())
    return render.render_row(typed, whole=whole)


def typed_row(row: Json) -> TranscriptRow:
    """`msgspec.ValidationError`, KeyError or TypeError for what this version does not know."""
    kind: type[Struct] = _KINDS[row["kind"]]
    data = None if row["data"] is None else _typed(_named(row["data"]), kind)
    fields = {name: row[name] for name in TranscriptRow.__struct_fields__}
    return TranscriptRow(**fields | {"data": data, "truncated": ()})


def elsewhere(value: Any) -> bool:
    """Whether a body, or one within, is only referred to."""
    if not isinstance(value, dict):
        return False
    return _is_reference(value) or any(elsewhere(each) for each in value.values())


S = TypeVar("S", bound=Struct)


def _typed(data: Json, kind: type[S]) -> S:
    """A struct of decoded JSON; what is opaque in it becomes JSON again."""
    values = {}
    for field in structs.fields(kind):
        if field.required or field.name in data:
            values[field.name] = _value(data[field.name], field.type)
    return kind(**values)


def _value(value: Any, hint: Any) -> Any:
    types = (hint, *get_args(hint))
    if Raw in types:
        return None if value is None and hint is not Raw else Raw(json.dumps(value).encode())
    within = next((each for each in types if isinstance(each, type) and _is_struct(each)), None)
    if within is None or value is None:
        return msgspec.convert(value, hint)
    if isinstance(value, list):
        return tuple(_typed(each, within) for each in value)
    return _typed(value, within)


def _is_struct(kind: type) -> bool:
    return isinstance(kind, type(Struct))


def _named(data: Json) -> Json:
    """With a few words in the place of each body that is elsewhere."""
    found: Json = {}
    for name, value in data.items():
        if isinstance(value, dict) and _is_reference(value):
            text = ELSEWHERE.format(size=value["bytes"])
            if name not in _LISTS:
                text = f"{value['preview']}… {text}"
            found[name] = [{"type": "text", "text": text}] if name in _LISTS else text
        else:
            found[name] = _named(value) if name == "compaction" and value else value
    return found


def _is_reference(value: Json) -> bool:
    return value.keys() == {"ref", "bytes", "preview"}
