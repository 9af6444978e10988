"""A session's transcript as a file: Markdown, HTML or JSON lines, written piece by piece.

Whatever the log holds is hostile text: in Markdown it stands in code fences longer than any run of
backticks in it, or is escaped; in HTML it is escaped always, and the page allows no script. Nothing
steers a terminal or turns the writing around (`plain.visible`).
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from pipeline.plain import visible, visible_line

Format: TypeAlias = Literal["md", "html", "jsonl"]
MEDIA = {"md": "text/markdown", "html": "text/html", "jsonl": "application/x-ndjson"}

_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}"
    "h2{font-size:1rem;margin:2rem 0 .3rem}pre{white-space:pre-wrap;overflow-wrap:anywhere;"
    "background:#8881;padding:.6rem;border-radius:.3rem}:root{color-scheme:light dark}"
)
_ESCAPED = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~])")


class Part(Struct, frozen=True):
    """A heading and what stands under it: pieces of text, each with what it is ("" prose)."""

    seq: int
    heading: str
    pieces: list[tuple[str, str]]


def exported(
    format_: Format, session: str, title: str | None, rows: Iterable[bytes]
) -> Iterator[bytes]:
    """``rows``: whole rows as JSON, in order."""
    if format_ == "jsonl":
        yield from (row + b"\n" for row in rows)
        return
    shown = visible_line(title or session)
    parts = (part for row in rows if (part := _part(json.loads(row))) is not None)
    if format_ == "md":
        yield f"# {_escape(shown)}\n\nSession {_code(session)}\n".encode()
        yield from (_markdown(part).encode() for part in parts)
        return
    yield _head(shown, session).encode()
    yield from (_html(part).encode() for part in parts)
    yield b"</body></html>\n"


# --- what a row says ------------------------------------------------------------------------------


def _part(row: dict[str, Any]) -> Part | None:
    """None for what a reader of the transcript is not shown."""
    data = row.get("data")
    if row.get("visibility") != "transcript" or not isinstance(data, dict):
        return None
    kind = str(row.get("kind"))
    write = _KINDS.get(kind, _other)
    pieces = [(label, text) for label, text in write(data) if text.strip()]
    return Part(int(row["anchor_seq"]), _heading(kind, row, data), pieces)


def _heading(kind: str, row: dict[str, Any], data: dict[str, Any]) -> str:
    words = [kind, _moment(row.get("time"))]
    status = data.get("status")
    words += [str(status)] if status not in (None, "settled", "ok", "success") else []
    name = data.get("name") if kind in ("tool", "command") else data.get("producer")
    words += [str(name)] if name else []
    return visible_line(" · ".join(word for word in words if word))


def _moment(time: Any) -> str:
    try:
        moment = datetime.fromtimestamp(time / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
    return moment.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")


def _message(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _blocks(data.get("content"))


def _assistant(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _blocks(data.get("blocks"))


def _blocks(content: Any) -> Iterator[tuple[str, str]]:
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind, text = block.get("type"), block.get("text")
        if kind == "text" and isinstance(text, str):
            yield "", text
        elif kind == "reasoning" and isinstance(text, str):
            yield "reasoning", text
        elif kind != "tool-call":  # a call has a row of its own
            yield str(kind), _json(block)


def _tool(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "arguments", str(data.get("arguments") or "")
    for label, text in _blocks(data.get("content")):
        yield label or "result", text
    if data.get("error") is not None:
        yield "error", _json(data["error"])
    for call in data.get("sub_calls") or ():
        yield f"nested call {call.get('name')}", _json(call)


def _command(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "arguments", str(data.get("args") or "")
    yield "", str(data.get("text") or "")
    if isinstance(marker := data.get("compaction"), dict):
        yield from _compaction(marker)


def _compaction(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    figures = {"items": data.get("item_count"), "tokens": data.get("token_count")}
    known = [f"{number} {name} replaced" for name, number in figures.items() if number is not None]
    yield "", ", ".join(["compaction", *known])
    yield "summary", str(data.get("summary") or "")
    yield "error", str(data.get("error") or "")


def _other(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "", _json({name: value for name, value in data.items() if value is not None})


_KINDS = {
    "user": _message,
    "steering": _message,
    "context": _message,
    "system": _message,
    "assistant": _assistant,
    "tool": _tool,
    "command": _command,
    "compaction": _compaction,
}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


# --- Markdown -------------------------------------------------------------------------------------


def _markdown(part: Part) -> str:
    lines = [f'\n<a id="seq-{part.seq}"></a>\n\n## {_escape(part.heading)}\n']
    for label, text in part.pieces:
        shown = visible(text).rstrip("\n")
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
        about = f"*{_escape(visible_line(label))}*\n\n" if label else ""
        lines.append(f"\n{about}{fence}text\n{shown}\n{fence}\n")
    return "".join(lines)


def _escape(text: str) -> str:
    return _ESCAPED.sub(r"\\\1", text.replace("&", "&amp;"))


def _code(text: str) -> str:
    return f"`{visible_line(text).replace('`', ' ')}`"


# --- HTML -----------------------------------------------------------------------------------------


def _head(title: str, session: str) -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1><p>Session <code>{_inline(session)}</code></p>\n"
    )


def _html(part: Part) -> str:
    pieces = "".join(
        (f"<p>{_inline(label)}</p>" if label else "") + f"<pre>{html.escape(visible(text))}</pre>"
        for label, text in part.pieces
    )
    return f'<h2 id="seq-{part.seq}">{_inline(part.heading)}</h2>{pieces}\n'


def _inline(text: str) -> str:
    return html.escape(visible_line(text))
