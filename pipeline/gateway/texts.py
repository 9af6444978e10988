"""The text that a row is found by (readers.md §11: which parts, trimmed, a line each)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from operators.changes import (
    AssistantData,
    CommandData,
    CompactionData,
    MessageData,
    SubCall,
    ToolData,
    TranscriptRow,
    TurnErrorData,
)
from operators.readers.documents import joined
from operators.readers.text import blocks, folded, plain, spaced, texts
from operators.text import well_formed

LONGEST = 1 << 20  #: code points of one row that are searched


class Found(Struct, frozen=True, gc=False):
    """``text`` with every run of white space as one blank, and the same folded, both equally long;
    U+0000 and surrogate halves, which no database takes, are U+FFFD."""

    text: str
    folded: str


def needle(words: str) -> str:
    """What a query looks for in ``folded``; "" for white space alone."""
    return folded(_storable(spaced(words))).strip()


def searched(row: TranscriptRow) -> Found | None:
    """None for a row that holds no text, is gone, or still grows."""
    if row.deleted or row.data is None:
        return None
    text = _storable(spaced(joined(_parts(row.data)))[:LONGEST])
    return Found(text, folded(text)) if text else None


def _storable(text: str) -> str:
    return well_formed(text).replace("\0", "\ufffd")


def _parts(data: object) -> Iterable[str | None]:
    if isinstance(data, MessageData):
        return texts(data.content)
    if isinstance(data, AssistantData):
        return () if data.status == "running" else _assistant(data)
    if isinstance(data, ToolData):
        return _tool(data)
    if isinstance(data, CommandData):
        marker = data.compaction.summary if data.compaction else None
        return data.name, data.args, data.text, marker
    if isinstance(data, CompactionData):
        return data.summary, data.error
    if isinstance(data, TurnErrorData):
        return data.message, data.code
    return ()


def _assistant(data: AssistantData) -> Iterator[str | None]:
    """No reasoning; its calls have rows of their own."""
    for block in blocks(data.blocks):
        if block.get("type") == "text" and isinstance(text := block.get("text"), str):
            yield text


def _tool(data: ToolData) -> Iterator[str | None]:
    yield data.name
    yield data.arguments
    yield joined(texts(data.content))
    error = plain(data.error) if data.error is not None else None
    if isinstance(error, dict):
        yield from (v for v in (error.get("name"), error.get("code")) if isinstance(v, str))
    todo: list[SubCall] = list(data.sub_calls)
    while todo:
        call = todo.pop()
        todo += call.sub_calls
        yield call.name
        if call.arguments is not None:
            yield bytes(call.arguments).decode("utf-8", "replace")
        if call.content is not None:
            yield joined(texts(call.content))
