"""A JSON text as values that know their own text: the exact reader's eyes.

Values are Python's, but a number keeps its literal (:class:`Number`) and a string its unpaired
surrogate halves; of a repeated key the last counts. The text of a part is found when it is asked
for, so that opaque JSON stays the input's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

#: Deeper JSON is refused (outputs.md, opaque JSON).
MAX_DEPTH: Final = 512
TOO_DEEP: Final = "nested too deep for the stack it is read on"

_LONE: Final = re.compile("[\ud800-\udfff]")
_MARK: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}:,]', re.DOTALL)
_BLANKS: Final = " \t\n\r"
_BLANK: Final = re.compile(r"[ \t\n\r]*+")


class JsonError(ValueError):
    """The text is no JSON value, or nested too deep; the message says where."""


class Number(str):
    """A number's literal, as it stands in the text."""

    __slots__ = ()


class Node:
    """One value of a text. ``value`` is a dict, list, str, bool, None or :class:`Number`."""

    __slots__ = ("_around", "_key", "_parts", "_span", "source", "value")

    def __init__(self, value: Any, source: str, around: Node | None, key: Any) -> None:
        self.value = value
        self.source = source
        self._around = around
        self._key = key
        self._span: tuple[int, int] | None = None
        self._parts: dict[Any, tuple[int, int]] | None = None

    def member(self, key: str) -> Node | None:
        """The value of an object's key; None when it has none, or is no object."""
        if type(self.value) is dict and key in self.value:
            return Node(self.value[key], self.source, self, key)
        return None

    def items(self) -> list[Node]:
        """The elements of an array."""
        return [Node(value, self.source, self, n) for n, value in enumerate(self.value)]

    @property
    def text(self) -> str:
        """The value as it stands in the input."""
        start, end = self._where()
        return self.source[start:end]

    def _where(self) -> tuple[int, int]:
        if self._span is None:
            if self._around is None:
                stripped = self.source.rstrip(_BLANKS)
                self._span = (len(self.source) - len(self.source.lstrip(_BLANKS)), len(stripped))
            else:
                self._span = self._around.parts()[self._key]
        return self._span

    def parts(self) -> dict[Any, tuple[int, int]]:
        """Where each element, or the last member of each key, stands."""
        if self._parts is None:
            self._parts = dict(_split(self.source, self._where()[0]))
        return self._parts


def parse(source: str) -> Node:
    """The one value of ``source``, white space around it allowed; raises :class:`JsonError`."""
    if source.count("[") + source.count("{") > MAX_DEPTH:
        _check_depth(source)
    try:
        return Node(_DECODER.decode(source), source, None, None)
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise JsonError(TOO_DEEP) from None


def whole(value: str) -> str:
    """``value`` with U+FFFD for each unpaired surrogate half."""
    return value if value.isascii() else _LONE.sub("\ufffd", value)


def _split(source: str, start: int) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Yield (key or index, span) of the parts of the container that begins there, in order."""
    is_object, closing = source[start] == "{", "}" if source[start] == "{" else "]"
    at, index = _after_blanks(source, start + 1), 0
    while source[at] != closing:
        key: Any = index
        if is_object:
            key, at = _SKIP(source, at)
            at = _after_blanks(source, _after_blanks(source, at) + 1)
        end = _SKIP(source, at)[1]
        yield key, (at, end)
        at, index = _after_blanks(source, end), index + 1
        if source[at] == ",":
            at = _after_blanks(source, at + 1)


def _after_blanks(source: str, at: int) -> int:
    found = _BLANK.match(source, at)
    assert found is not None
    return found.end()


def _check_depth(source: str) -> None:
    depth = 0
    for match in _MARK.finditer(source):
        mark = source[match.start()]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"deeper than {MAX_DEPTH} levels at character {match.start()}")
        elif mark in "]}":
            depth -= 1


def _refuse(word: str) -> NoReturn:
    raise JsonError(f"{word} is no JSON")


_DECODER: Final = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_refuse, strict=True
)
#: A value of a text that was parsed before, and where it ends.
_SKIP: Final = json.JSONDecoder(parse_float=str, parse_int=str).raw_decode
