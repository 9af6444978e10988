"""A message's content for a person at a terminal: block by block, what is not known by its type."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Raw
from rich.text import Text

from .cutting import cut, readable
from .plain import visible_line


def blocks(content: Any) -> Iterator[Text]:
    """Any content: the blocks known to a reader as such, everything else by its type."""
    if isinstance(content, str):
        yield Text(readable(content))
        return
    for block in content if isinstance(content, list) else ():
        fields = block if isinstance(block, dict) else {}
        kind, text = fields.get("type"), fields.get("text")
        if kind == "text" and isinstance(text, str):
            yield Text(readable(text))
        elif kind == "reasoning" and isinstance(text, str):
            yield Text(readable(text), "dim italic")
        elif kind == "tool-call":
            name = visible_line(str(fields.get("name")))
            yield dim(f"→ {name} {cut(visible_line(str(fields.get('arguments') or '')))}")
        elif kind == "tool-result":
            yield from blocks(fields.get("content"))
        elif kind == "image":
            yield dim(_image(fields))
        else:
            yield dim(f"[{visible_line(str(kind))}]")


def _image(fields: dict[str, Any]) -> str:
    about = fields.get("attachment")
    about = about if isinstance(about, dict) else {}
    told = [about.get("name"), about.get("mediaType")]
    text = " ".join(["image", *(visible_line(part) for part in told if isinstance(part, str))])
    return f"[{text}, offloaded]" if fields.get("offloaded") is True else f"[{text}]"


def head(texts: Iterable[Text], style: str, most: int) -> list[Text]:
    """The first lines of an output, and how many more there are."""
    lines = Text("\n").join(list(texts)).split("\n", allow_blank=True)
    shown = [Text("\n".join(cut(line.plain) for line in lines[:most]), style)]
    if len(lines) > most:
        shown.append(dim(f"… {len(lines) - most} more lines"))
    return shown


def dim(text: str) -> Text:
    return Text(text, "dim")


def decoded(value: Raw) -> Any:
    """Opaque JSON as Python values; unpaired halves and huge numbers come through."""
    try:
        return json.loads(bytes(value))
    except (ValueError, RecursionError):  # more digits than Python converts, very deep
        return None
