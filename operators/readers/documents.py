"""Search documents: the text that an event is found by (readers.md §11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from operators.events import (
    AssistantMessage,
    Event,
    Fact,
    ToolCall,
    ToolResult,
    TurnEnd,
    UserMessage,
)

from .facts import record
from .text import blocks, plain, texts, trimmed

CURRENT, SHADOWED, LOG_ONLY = "C", "S", "-"


class Document(Struct, frozen=True, gc=False):
    """``surface``: C a current node, S a shadowed one, ``-`` log-only."""

    seq: int
    type: str
    time: int | None
    surface: str
    text: str


def documents(events: Iterable[Event], mark: Callable[[int], str]) -> Iterator[Document]:
    """One document for each event with text, in the order of the events; ``mark`` says what a seq
    is on the surface."""
    for event in events:
        text = text_of(event)
        if text:
            yield Document(event.seq, event.type, event.time, mark(event.seq), text)


def text_of(event: Event) -> str:
    """The event's text, empty if it is not searched."""
    read = _TEXTS.get(event.body.__class__)
    return "" if read is None else joined(read(event, event.body))


def joined(parts: Iterable[str | None]) -> str:
    """Parts trimmed, empty ones left out, a line each."""
    cut = (trimmed(part) for part in parts if part is not None)
    return "\n".join(part for part in cut if part)


def _user(_: Event, body: UserMessage) -> Iterable[str | None]:
    return texts(body.content)


def _assistant(_: Event, body: AssistantMessage) -> Iterator[str | None]:
    for block in blocks(body.content):
        if block.get("type") == "text":
            yield _string(block.get("text"))
        elif block.get("type") == "tool-call":
            yield joined((_string(block.get("name")), _string(block.get("arguments"))))


def _call(_: Event, body: ToolCall) -> Iterable[str | None]:
    return body.name, body.arguments


def _result(_: Event, body: ToolResult) -> Iterator[str | None]:
    yield joined(texts(body.content))
    error = plain(body.error) if body.error is not None else None
    if isinstance(error, dict):
        yield _string(error.get("name"))
        yield _string(error.get("code"))


def _turn_end(_: Event, body: TurnEnd) -> Iterable[str | None]:
    if body.reason == "error":
        return "error", body.error_message
    return (body.reason,) if body.reason in ("aborted", "max-tokens", "interrupted") else ()


def _fact(event: Event, body: Fact) -> Iterator[str | None]:
    if event.type != "todo/write":
        return
    items = record(body.data).get("todos")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield joined((_string(item.get("status")), _string(item.get("content"))))


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_TEXTS: Mapping[type, Callable[[Event, Any], Iterable[str | None]]] = {
    UserMessage: _user,
    AssistantMessage: _assistant,
    ToolCall: _call,
    ToolResult: _result,
    TurnEnd: _turn_end,
    Fact: _fact,
}
