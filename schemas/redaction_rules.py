"""Redaction rules: what they may select, and the names of the texts that rows have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, get_args, get_origin, get_type_hints

from msgspec import Raw, Struct

from operators import changes

REDACTED: Final = "[redacted]"
OVERVIEW: Final = "overview"

#: Names that are ours or the log's own order, no text: without them nothing could be found again.
KEPT = frozenset(("session", "parent", "status", "trigger", "state", "shapes", "op"))

_DATA: Mapping[str, type[Struct]] = {
    **dict.fromkeys(("user", "steering", "context", "system"), changes.MessageData),
    "assistant": changes.AssistantData,
    "tool": changes.ToolData,
    "command": changes.CommandData,
    "compaction": changes.CompactionData,
    "retry": changes.RetryData,
    "turn-error": changes.TurnErrorData,
    "turn": changes.TurnData,
    "unknown": changes.UnknownData,
    OVERVIEW: changes.SessionOverview,
}
KINDS: Final = tuple(_DATA)  #: what ``rows`` may name


class Rule(Struct, frozen=True):
    """``rows``: kinds of rows, and `OVERVIEW`; none: all. ``fields``: of a row's data; none: every
    text, which needs a ``pattern``."""

    pattern: re.Pattern[str] | None = None
    replacement: str = REDACTED
    rows: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()

    def selects(self, kinds: frozenset[str]) -> bool:
        return not self.rows or not self.rows.isdisjoint(kinds)


def fields_of(kinds: Iterable[str]) -> frozenset[str]:
    """The names of the texts that rows of these kinds have (none: of all)."""
    found: set[str] = set()
    waiting = {_DATA[kind] for kind in tuple(kinds) or KINDS}
    seen: set[type[Struct]] = set()
    while waiting - seen:
        struct = (waiting - seen).pop()
        seen.add(struct)
        for name, hint in get_type_hints(struct).items():
            kinds_of = set(_flat(hint))
            if kinds_of & {str, Raw} and name not in KEPT:
                found.add(name)
            waiting |= {each for each in kinds_of if issubclass(each, Struct)}
    return frozenset(found)


def _flat(hint: Any) -> Iterator[type]:
    """The classes in a type; of a mapping, whose keys are our own words, none."""
    inner = get_args(hint)
    if get_origin(hint) is dict:
        return
    if not inner and isinstance(hint, type):
        yield hint
    for each in inner:
        yield from _flat(each)
