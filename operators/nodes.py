"""A node of the surface, and how an event becomes one."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from msgspec import Struct

from .events import AssistantMessage, Event, ToolResult
from .readers.javascript import UnreadableError
from .readers.prices import price

Key: TypeAlias = int | Fraction


class Node(Struct, frozen=True, array_like=True, gc=False):
    """``identity``: of a tool result the digest of all but the content; of an answer the number of
    its calls. ``tokens``: an estimate (readers.md §4), 0 for what projects to nothing."""

    key: Key
    seq: int
    type: str
    identity: int = 0
    guessed: bool = False  #: where it stands was not seen, so no range over it can be checked
    tokens: int = 0


def node_of(event: Event, key: Key, guessed: bool = False) -> Node:
    """The node of a surface event. Content that cannot be read costs nothing."""
    body, identity = event.body, 0
    if isinstance(body, ToolResult):
        identity = body.identity
    elif isinstance(body, AssistantMessage):
        identity = len(body.calls)
    try:
        tokens = price(event)
    except UnreadableError:
        tokens = 0
    return Node(key, event.seq, event.type, identity, guessed, tokens)
