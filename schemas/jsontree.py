"""A JSON text as a tree of slices: the exact reader's eyes.

Nothing is converted here: a number keeps its literal, a string its escapes, an object the last of
its repeated keys, and any node gives back the text it was read from. The scan is iterative, so
depth is a number and not a stack (more than :data:`MAX_DEPTH` levels are refused: ``outputs.md``,
opaque JSON).
"""

from __future__ import annotations

import json
import re
from typing import Final

MAX_DEPTH: Final = 512

_LONE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(
    r"[ \t\n\r]*+(?:"
    r"(?P<string>\"(?:[^\"\\\x00-\x1f]++|\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4}))*+\")"
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
    r"|(?P<word>true|false|null)"
    r"|(?P<open>[\[{])"
    r"|(?P<close>[\]}])"
    r"|(?P<mark>[,:])"
    r"|(?P<end>\Z))"
)

# What may come next: a value, a value or the close of an empty array, a key, a key or the close of
# an empty object, a colon, a comma or a close.
_VALUE, _ITEM, _KEY, _MEMBER, _COLON, _COMMA = range(6)


class JsonError(ValueError):
    """The text is no JSON value, or nested too deep; the message says where."""


class Node:
    """One value: ``kind`` is string, number, word (true, false, null), object or array;
    ``members`` are an object's values (the last of a repeated key), ``items`` an array's."""

    __slots__ = ("end", "items", "kind", "members", "source", "start")

    def __init__(self, kind: str, source: str, start: int, end: int) -> None:
        self.kind = kind
        self.source = source
        self.start = start
        self.end = end
        self.members: dict[str, Node] = {}
        self.items: list[Node] = []

    @property
    def text(self) -> str:
        """The value as it stands in the input."""
        return self.source[self.start : self.end]

    @property
    def null(self) -> bool:
        return self.kind == "word" and self.text == "null"


def unquote(token: str) -> str:
    """The value of a string literal; unpaired surrogate halves are kept."""
    value: str = json.loads(token)
    return value


def whole(value: str) -> str:
    """``value`` with U+FFFD for each unpaired surrogate half."""
    return _LONE.sub("\ufffd", value)


def parse(source: str) -> Node:
    """The one value of ``source``, white space around it allowed; raises :class:`JsonError`."""
    build, root, pos = _Builder(source), None, 0
    while root is None:
        match = _TOKEN.match(source, pos)
        if match is None:
            raise JsonError(f"no JSON at character {pos}")
        kind = match.lastgroup or "end"
        start, pos = match.span(kind)
        root = build.take(kind, start, pos)
    if source[pos:].strip(" \t\n\r"):
        raise JsonError(f"more than one value at character {pos}")
    return root


class _Builder:
    """Takes token after token and knows what may come next."""

    __slots__ = ("expect", "key", "source", "stack")

    def __init__(self, source: str) -> None:
        self.source = source
        self.expect = _VALUE
        self.key = ""
        self.stack: list[tuple[Node, str]] = []  # open containers, each with its key outside

    def take(self, kind: str, start: int, end: int) -> Node | None:
        """Take one token; the root once it is whole."""
        if kind == "mark":
            return self._mark(start)
        if kind == "open":
            return self._open(start)
        if kind == "close":
            return self._put(self._close(start, end))
        if kind == "string" and self.expect in (_KEY, _MEMBER):
            self.key, self.expect = unquote(self.source[start:end]), _COLON
            return None
        if kind == "end" or self.expect not in (_VALUE, _ITEM):
            raise JsonError(f"unexpected {kind} at character {start}")
        return self._put(Node(kind, self.source, start, end))

    def _mark(self, start: int) -> None:
        if self.expect != (_COLON if self.source[start] == ":" else _COMMA):
            raise JsonError(f"unexpected {self.source[start]!r} at character {start}")
        next_key = self.expect == _COMMA and self.stack[-1][0].kind == "object"
        self.expect = _KEY if next_key else _VALUE

    def _open(self, start: int) -> None:
        if self.expect not in (_VALUE, _ITEM):
            raise JsonError(f"unexpected {self.source[start]!r} at character {start}")
        if len(self.stack) == MAX_DEPTH:
            raise JsonError(f"deeper than {MAX_DEPTH} levels at character {start}")
        kind = "array" if self.source[start] == "[" else "object"
        self.stack.append((Node(kind, self.source, start, start), self.key))
        self.expect = _ITEM if kind == "array" else _MEMBER

    def _close(self, start: int, end: int) -> Node:
        bracket = self.source[start]
        if self.expect not in (_ITEM, _MEMBER, _COMMA):
            raise JsonError(f"unexpected {bracket!r} at character {start}")
        node, self.key = self.stack.pop()
        if (bracket == "]") is not (node.kind == "array"):
            raise JsonError(f"unexpected {bracket!r} at character {start}")
        node.end = end
        return node

    def _put(self, node: Node) -> Node | None:
        if not self.stack:
            return node
        around = self.stack[-1][0]
        if around.kind == "object":
            around.members[self.key] = node
        else:
            around.items.append(node)
        self.expect = _COMMA
        return None
