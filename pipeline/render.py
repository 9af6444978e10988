"""Transcript and surface for a person at a terminal.

Everything that comes from a log goes through :mod:`.plain` before it is shown. Layout, widths and
colour are rich's; this file says what stands where.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, assert_never

from msgspec import Raw
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from operators.changes import (
    AssistantData,
    CommandData,
    CompactionData,
    GapData,
    MaxTokensData,
    MessageData,
    RetryData,
    SubCall,
    ToolData,
    TranscriptRow,
    TurnData,
    TurnErrorData,
    UnknownData,
)

from .plain import visible, visible_line
from .surfaces import SurfaceView

_INDENT = "  "
TOOL_LINES = 12  #: lines of a tool's output that are shown; the whole is in ``fold --json``
_STYLES = {
    "user": "bold cyan",
    "steering": "bold cyan",
    "assistant": "bold green",
    "tool": "yellow",
    "compaction": "bold magenta",
    "command": "magenta",
    "turn-error": "bold red",
    "max-tokens": "red",
    "retry": "red",
}


def transcript(
    rows: Iterable[TranscriptRow], *, auxiliary: bool = False
) -> Iterator[RenderableType]:
    """The rows in their order, one renderable each; auxiliary ones only if asked for."""
    for row in rows:
        if not row.deleted and (auxiliary or row.visibility == "transcript"):
            yield render_row(row)


def render_row(row: TranscriptRow) -> RenderableType:
    """One row: a heading that says where it stands, then its body, indented."""
    title, body = _row(row)
    style = _STYLES.get(row.kind, "dim")
    if row.visibility == "auxiliary":
        style = "dim"
    heading = Text(visible_line(title), style)
    heading.append(f"  #{row.anchor_seq}{clock(row.time)}", "dim")
    return _block(heading, body)


def surface(view: SurfaceView, current: Iterable[int]) -> Iterator[RenderableType]:
    """What the model is sent, node by node in surface order."""
    for seq in current:
        kind = visible_line(view.types.get(seq) or "?")
        message = view.message(seq)
        fields = {} if message is None else _json(message)
        role = fields.get("role") if isinstance(fields, dict) else None
        heading = Text(visible_line(role) if isinstance(role, str) else kind, "bold")
        heading.append(f"  #{seq}  {kind}", "dim")
        content = fields.get("content") if isinstance(fields, dict) else None
        body = [Text("(no message)", "dim")] if message is None else list(_blocks(content))
        yield _block(heading, body)


class _Indented:
    """A text wrapped to the width, two columns in, without blanks at the ends of its lines."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._text.wrap(console, max(options.max_width - len(_INDENT), 1)):
            line.rstrip()
            yield Text(_INDENT if line else "") + line


def _block(heading: Text, body: list[Text]) -> RenderableType:
    return Group(heading, *(_Indented(text) for text in body if text.plain), Text())


# --- what a row says ------------------------------------------------------------------------------


def _row(row: TranscriptRow) -> tuple[str, list[Text]]:
    data = row.data
    match data:
        case MessageData():
            label = f"{row.kind} ({data.producer})" if data.producer else row.kind
            return label, list(_blocks(_json(data.content)))
        case AssistantData():
            status = "" if data.status == "settled" else f" ({data.status})"
            return f"assistant{status}", list(_blocks(_json(data.blocks)))
        case ToolData():
            return _tool(data)
        case CommandData():
            return _command(data)
        case CompactionData():
            return _compaction(data)
        case RetryData():
            failure = _json(data.attempts[-1].failure) if data.attempts else None
            return f"retry {len(data.attempts)} ({data.status})", [_dim(_failure(failure))]
        case TurnErrorData():
            text = "message withheld (AUTH)" if data.masked else data.message or "no message"
            return f"error {data.code or ''}".rstrip(), [Text(visible(text), "red")]
        case TurnData():
            return _turn(row.turn, data), []
        case GapData() | UnknownData() | MaxTokensData():
            return _fact(data), []
        case None:
            return row.kind, []
    assert_never(data)


def _fact(data: GapData | UnknownData | MaxTokensData) -> str:
    if isinstance(data, GapData):
        return f"gap: events {data.first} to {data.last} are unknown"
    if isinstance(data, UnknownData):
        return f"{data.type} (unknown event)"
    return "output limit reached"


def _tool(data: ToolData) -> tuple[str, list[Text]]:
    body = [_dim(visible_line(data.arguments))] if data.arguments else []
    if data.status in ("ok", "error"):
        body += _head(_blocks(_json(data.content)), "red" if data.is_error else "")
    body += chain.from_iterable(_sub_call(call) for call in data.sub_calls)
    return f"tool {data.name or '(unknown)'}: {data.status}", body


def _sub_call(call: SubCall, depth: int = 1) -> Iterator[Text]:
    indent = "  " * min(depth, 20)
    yield _dim(indent + visible_line(f"{call.name or '(unknown)'}: {call.status}"))
    for nested in call.sub_calls:
        yield from _sub_call(nested, depth + 1)


def _command(data: CommandData) -> tuple[str, list[Text]]:
    title = f"/{data.name or '(unknown)'}{data.args or ''}: {data.status}"
    body = [Text(visible(data.text))] if data.text else []
    if data.compaction is not None:
        marker, summary = _compaction(data.compaction)
        body += [Text(visible_line(marker), "magenta"), *summary]
    return title, body


def _compaction(data: CompactionData) -> tuple[str, list[Text]]:
    facts = [data.trigger, data.status if data.status != "landed" else None]
    facts += [f"{data.item_count} items" if data.item_count is not None else None]
    facts += [f"{data.token_count} tokens" if data.token_count is not None else None]
    title = "history compacted" if data.status == "landed" else "compaction"
    told = ", ".join(fact for fact in facts if fact)
    body = [Text(visible(data.error), "red")] if data.error else []
    if data.summary:
        body += _head([Text(visible(data.summary))], "italic")
    return f"{title} ({told})" if told else title, body


def _turn(number: int | None, data: TurnData) -> str:
    facts = f"{data.steps} steps, {data.tool_calls} tool calls, {data.tool_errors} errors"
    return f"turn {number} {data.reason or 'ended'}: {facts}"


def _failure(failure: Any) -> str:
    fields = failure if isinstance(failure, dict) else {}
    told = [fields.get("code"), fields.get("message")]
    return visible(": ".join(part for part in told if isinstance(part, str)))


# --- content blocks -------------------------------------------------------------------------------


def _blocks(content: Any) -> Iterator[Text]:
    """Any content: the blocks known to a reader as such, everything else by its type."""
    if isinstance(content, str):
        yield Text(visible(content))
        return
    for block in content if isinstance(content, list) else ():
        fields = block if isinstance(block, dict) else {}
        kind, text = fields.get("type"), fields.get("text")
        if kind == "text" and isinstance(text, str):
            yield Text(visible(text))
        elif kind == "reasoning" and isinstance(text, str):
            yield Text(visible(text), "dim italic")
        elif kind == "tool-call":
            name = visible_line(str(fields.get("name")))
            yield _dim(f"→ {name} {visible_line(str(fields.get('arguments') or ''))}")
        elif kind == "tool-result":
            yield from _blocks(fields.get("content"))
        elif kind == "image":
            yield _dim(_image(fields))
        else:
            yield _dim(f"[{visible_line(str(kind))}]")


def _image(fields: dict[str, Any]) -> str:
    about = fields.get("attachment")
    about = about if isinstance(about, dict) else {}
    told = [about.get("name"), about.get("mediaType")]
    text = " ".join(["image", *(visible_line(part) for part in told if isinstance(part, str))])
    return f"[{text}, offloaded]" if fields.get("offloaded") is True else f"[{text}]"


def _head(texts: Iterable[Text], style: str) -> list[Text]:
    """The first lines of an output, and how many more there are."""
    lines = Text("\n").join(list(texts)).split("\n", allow_blank=True)
    shown = [Text("\n").join(lines[:TOOL_LINES])]
    shown[0].stylize(style)
    if len(lines) > TOOL_LINES:
        shown.append(_dim(f"… {len(lines) - TOOL_LINES} more lines"))
    return shown


def _dim(text: str) -> Text:
    return Text(text, "dim")


def _json(value: Raw) -> Any:
    """Opaque JSON as Python values; unpaired halves and huge numbers come through."""
    try:
        return json.loads(bytes(value))
    except (ValueError, RecursionError):  # more digits than Python converts, very deep
        return None


def clock(time: int | None) -> str:
    """Epoch milliseconds as UTC; nothing for a time that a log does not have or no clock shows."""
    if not time:
        return ""
    try:
        return f"  {datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return f"  {time} ms"
