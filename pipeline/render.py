"""Transcript and surface for a person at a terminal.

Everything that comes from a log goes through :mod:`.plain` before it is shown. Layout, widths and
colour are rich's; this file says what stands where.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import Any, assert_never

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

from .cutting import cut, readable
from .plain import visible_line
from .render_blocks import blocks, decoded, dim, head
from .surfaces import SurfaceView

_INDENT = "  "
TOOL_LINES = 12  #: lines of a tool's output that are shown; the whole is in ``fold --json``
_STYLES = {
    "user": "bold cyan",
    "steering": "bold cyan",
    "assistant": "bold green",
    "tool": "yellow",
    "compaction": "dim",
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


def render_row(row: TranscriptRow, *, again: bool = False, whole: bool = False) -> RenderableType:
    """One row: a heading that says where it stands, then its body, indented. ``again``: it was
    shown before as it is no more; it may not be part of the transcript now. ``whole``: all of a
    tool's output, and what a compaction summarised."""
    title, body = _row(row)
    if whole:
        body = _whole(row, body)
    style = "dim" if row.visibility == "auxiliary" else _STYLES.get(row.kind, "dim")
    heading = Text(cut(visible_line(title)), style)
    if _marks(row):
        heading.no_wrap, heading.overflow = True, "ellipsis"
    if again and row.deleted:
        heading, body = Text(f"withdrawn: {visible_line(row.kind)}", "dim"), []
    heading.append(f"  #{row.anchor_seq}{clock(row.time)}", "dim")
    if again and not row.deleted:
        heading.append("  (changed)", "dim")
    return _block(heading, body)


def _marks(row: TranscriptRow) -> bool:
    """Whether the row is a compaction's one line."""
    data = row.data
    return isinstance(data, CompactionData) or (
        isinstance(data, CommandData) and data.compaction is not None
    )


def plain(row: TranscriptRow) -> str:
    """What a person sees of a row, but for where it stands."""
    title, body = _row(row)
    return "\n".join((title, *(text.plain for text in body)))


def underway(row: TranscriptRow) -> str:
    """A row that still runs, in a few words."""
    if isinstance(row.data, CompactionData):
        return "compacting"
    return visible_line(_row(row)[0])[:60]


def surface(view: SurfaceView, current: Iterable[int]) -> Iterator[RenderableType]:
    """What the model is sent, node by node in surface order."""
    for seq in current:
        kind = visible_line(view.types.get(seq) or "?")
        message = view.message(seq)
        fields = {} if message is None else decoded(message)
        role = fields.get("role") if isinstance(fields, dict) else None
        heading = Text(visible_line(role) if isinstance(role, str) else kind, "bold")
        heading.append(f"  #{seq}  {kind}", "dim")
        content = fields.get("content") if isinstance(fields, dict) else None
        body = [Text("(no message)", "dim")] if message is None else list(blocks(content))
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
            return label, list(blocks(decoded(data.content)))
        case AssistantData():
            status = "" if data.status == "settled" else f" ({data.status})"
            return f"assistant{status}", list(blocks(decoded(data.blocks)))
        case ToolData():
            return _tool(data)
        case CommandData():
            return _command(data)
        case CompactionData():
            return _compaction(data)
        case RetryData():
            failure = decoded(data.attempts[-1].failure) if data.attempts else None
            return f"retry {len(data.attempts)} ({data.status})", [dim(_failure(failure))]
        case TurnErrorData():
            text = "message withheld (AUTH)" if data.masked else data.message or "no message"
            return f"error {data.code or ''}".rstrip(), [Text(readable(text), "red")]
        case TurnData():
            return _turn(row.turn, data), []
        case GapData() | UnknownData() | MaxTokensData():
            return _fact(data), []
        case None:
            return row.kind, []
    assert_never(data)


def _whole(row: TranscriptRow, body: list[Text]) -> list[Text]:
    data = row.data
    if isinstance(data, ToolData):
        return _tool(data, sys.maxsize)[1]
    marker = data.compaction if isinstance(data, CommandData) else data
    if isinstance(marker, CompactionData) and marker.summary:
        return [*body, Text(readable(marker.summary))]
    return body


def _fact(data: GapData | UnknownData | MaxTokensData) -> str:
    if isinstance(data, GapData):
        return f"gap: events {data.first} to {data.last} are unknown"
    if isinstance(data, UnknownData):
        return f"{data.type} (unknown event)"
    return "output limit reached"


def _tool(data: ToolData, most: int = TOOL_LINES) -> tuple[str, list[Text]]:
    body = [dim(cut(visible_line(data.arguments)))] if data.arguments else []
    if data.status in ("ok", "error"):
        body += head(blocks(decoded(data.content)), "red" if data.is_error else "", most)
    body += chain.from_iterable(_sub_call(call) for call in data.sub_calls)
    title = f"tool {data.name or '(unknown)'}: {data.status}"
    if data.call_time and data.result_time and data.status in ("ok", "error"):
        title += f", {_seconds(data.result_time - data.call_time)}"
    return title, body


def _sub_call(call: SubCall, depth: int = 1) -> Iterator[Text]:
    indent = "  " * min(depth, 20)
    yield dim(indent + visible_line(f"{call.name or '(unknown)'}: {call.status}"))
    for nested in call.sub_calls:
        yield from _sub_call(nested, depth + 1)


def _command(data: CommandData) -> tuple[str, list[Text]]:
    title = f"/{data.name or '(unknown)'}{data.args or ''}: {data.status}"
    body = [Text(readable(data.text))] if data.text else []
    if data.compaction is not None:
        marker, failure = _compaction(data.compaction)
        if data.status == "success":  # its text says the same
            return f"/{data.name or '(unknown)'}{data.args or ''} · {marker}", failure
        body += [dim(visible_line(marker)), *failure]
    return title, body


def _compaction(data: CompactionData) -> tuple[str, list[Text]]:
    """One line: what the log does not say is left out. The summary is part of the surface."""
    facts = [data.trigger, data.status if data.status != "landed" else None]
    facts += [f"{data.item_count} items" if data.item_count is not None else None]
    facts += [f"{data.token_count} tokens" if data.token_count is not None else None]
    facts += [_seconds(data.duration_ms) if data.duration_ms is not None else None]
    title = "compacted" if data.status == "landed" else "compaction"
    body = [Text(readable(data.error), "red")] if data.error else []
    return " · ".join([title, *(fact for fact in facts if fact)]), body


def _turn(number: int | None, data: TurnData) -> str:
    facts = f"{data.steps} steps, {data.tool_calls} tool calls, {data.tool_errors} errors"
    return f"turn {number} {data.reason or 'ended'}: {facts}"


def _failure(failure: Any) -> str:
    fields = failure if isinstance(failure, dict) else {}
    told = [fields.get("code"), fields.get("message")]
    return readable(": ".join(part for part in told if isinstance(part, str)))


# --- figures -------------------------------------------------------------------------------------


def _seconds(ms: int) -> str:
    return f"{max(ms, 0) / 1000:.1f} s"


def clock(time: int | None) -> str:
    """Epoch milliseconds as UTC; nothing for a time that a log does not have or no clock shows."""
    if not time:
        return ""
    try:
        return f"  {datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return f"  {time} ms"
