"""Redaction: what must not leave the fold is taken out of each change before it is encoded
(streams.md §4). Raw events, saved states and dead letters are not covered.

A rule takes what matches its pattern, or without one the whole of the fields that it names. It is
taken wherever it is told again: a user's words in the model's message and in the title made of
them, a call's arguments in the answer that announced it. What may still be half of something, as it
streams, does not leave at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from operators.changes import (
    AssistantData,
    Change,
    PartialText,
    SessionOverview,
    SurfaceChange,
    TranscriptRow,
)
from operators.events import EMPTY_LIST

from .redaction_rules import KEPT, KINDS, OVERVIEW, Rule

DEPTH: Final = 8  #: of JSON in a text of JSON

_LISTS = frozenset(("content", "blocks"))
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)

#: Whose rules a row of a kind is under, besides its own: the same text stands there, too.
_ALSO: Mapping[str, frozenset[str]] = {
    "steering": frozenset(("user",)),
    "assistant": frozenset(("tool",)),
    "command": frozenset(("compaction",)),
}


class Redaction:
    """Applied to every change on its way out: the change that may leave, None for none."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._held_back = bool(self._of("assistant"))

    def __call__(self, change: Change) -> Change | None:
        if isinstance(change, TranscriptRow):
            return self._row(change)
        if isinstance(change, SurfaceChange):
            return self._surface(change)
        if isinstance(change, PartialText):
            return None if self._held_back else change
        if isinstance(change, SessionOverview):
            return self._overview(change)
        return change

    def _of(self, kind: str) -> list[Rule]:
        kinds = _ALSO.get(kind, frozenset()) | {kind}
        return [rule for rule in self._rules if rule.selects(kinds)]

    def _row(self, row: TranscriptRow) -> TranscriptRow:
        rules, data = self._of(row.kind), row.data
        if not rules or data is None:
            return row
        if isinstance(data, AssistantData) and data.status == "running":
            data = replace(data, blocks=EMPTY_LIST)
        return replace(row, data=_struct(data, rules))

    def _surface(self, change: SurfaceChange) -> SurfaceChange:
        """Of a message every text, whichever field of a row it becomes."""
        if change.message is None:
            return change
        kinds = _kinds(change)
        rules = [rule for rule in self._rules if rule.selects(kinds)]
        message = change.message
        for rule in rules:
            if rule.pattern is None:
                message = _emptied(message, rule.replacement)
        patterns = [rule for rule in rules if rule.pattern is not None]
        return replace(change, message=_raw("", message, patterns, anywhere=True))

    def _overview(self, overview: SessionOverview) -> SessionOverview:
        found: SessionOverview = _struct(
            overview, [r for r in self._rules if r.selects(frozenset((OVERVIEW,)))]
        )
        said = [r for r in self._of("steering") if r.pattern is not None or "content" in r.fields]
        if said and found.derived_title is not None:  # the first words of a user
            title = found.derived_title
            for rule in said:
                title = _sub(rule, title)
            found = replace(found, derived_title=title)
        return found


def _kinds(change: SurfaceChange) -> frozenset[str]:
    """The kinds of rows that tell what a message says; all that it may be."""
    type_ = change.type or ""
    if type_ == "assistant/message":
        return frozenset(("assistant", "tool"))
    if type_ == "tool/result":
        return frozenset(("tool",))
    if type_ == "system/message":
        return frozenset(("system",))
    if type_ == "developer/message":
        return frozenset(("context",))
    if type_ != "user/message":
        return frozenset(KINDS)
    compacted = frozenset(("compaction", "command") if change.op == "replace" else ())
    return compacted | {"user", "steering", "context"} - _not(change.message)


class _Source(Struct):
    kind: Any = None


class _Message(Struct):
    source: _Source | None = None


def _not(message: Raw | None) -> frozenset[str]:
    """What a user message is not, by its source; of one without nothing is known."""
    try:
        source = msgspec.json.decode(message or b"{}", type=_Message).source
    except (msgspec.MsgspecError, ValueError):
        return frozenset()
    if source is None or source.kind is None:
        return frozenset()
    return frozenset(("context",) if source.kind == "user" else ("user", "steering"))


def _emptied(message: Raw, replacement: str) -> Raw:
    """A message that says nothing any more: who said it, and that there was something."""
    try:
        told = msgspec.json.decode(message, type=dict[str, Raw])
    except (msgspec.MsgspecError, ValueError):
        told = {}
    kept = {name: told[name] for name in ("id", "role") if name in told}
    return _encoded({**kept, "content": _text_block(replacement)})


# --- values ---------------------------------------------------------------------------------------


def _struct(value: Any, rules: Sequence[Rule]) -> Any:
    """A struct, and what is in it."""
    changed = {}
    for name in value.__struct_fields__ if rules else ():
        held = getattr(value, name)
        if name not in KEPT and held is not None:
            found = _value(name, held, rules)
            if found is not held:
                changed[name] = found
    return replace(value, **changed) if changed else value


def _value(name: str, value: Any, rules: Sequence[Rule]) -> Any:
    if isinstance(value, str):
        for rule in rules:
            if not rule.fields or name in rule.fields:
                value = _sub(rule, value)
        return value
    if isinstance(value, Raw):
        return _raw(name, value, rules)
    if isinstance(value, Struct):
        return _struct(value, rules)
    if isinstance(value, tuple):
        found = tuple(_value(name, each, rules) for each in value)
        return value if all(a is b for a, b in zip(found, value, strict=True)) else found
    return value


def _raw(name: str, value: Raw, rules: Sequence[Rule], *, anywhere: bool = False) -> Raw:
    found = value
    for rule in rules:
        told = name == "blocks" and "arguments" in rule.fields  # an answer announces its calls
        if not (anywhere or not rule.fields or name in rule.fields or told):
            continue
        if rule.pattern is not None:
            found = _matched(found, rule)
        elif name not in rule.fields:
            found = _unannounced(found, rule.replacement)
        else:
            found = _encoded(_text_block(rule.replacement) if name in _LISTS else rule.replacement)
    return found


def _unannounced(blocks: Raw, replacement: str) -> Raw:
    """Blocks whose calls have no arguments."""
    try:
        told = msgspec.json.decode(blocks, type=list[dict[str, Raw]])
    except (msgspec.MsgspecError, ValueError):
        return _encoded(_text_block(replacement))
    for block in told:
        if "arguments" in block:
            block["arguments"] = _encoded(replacement)
    return _encoded(told)


def _matched(value: Raw, rule: Rule) -> Raw:
    """JSON with every string in it, keys too, without what matches; all else as it was."""
    text = bytes(value).decode("utf-8", "replace")
    found = _STRING.sub(lambda token: _string(token[0], rule, 0), text)
    return value if found == text else Raw(found.encode("utf-8", "replace"))


def _string(token: str, rule: Rule, depth: int) -> str:
    told = token[1:-1]
    if "\\" in told:
        try:
            told = json.loads(token)
        except ValueError:
            return json.dumps(rule.replacement)
    found = _sub(rule, told, depth)
    if found == told:
        return token
    text = json.dumps(found, ensure_ascii=False)
    return text if text.isascii() or _is_text(found) else json.dumps(found)


def _is_text(text: str) -> bool:
    """Whether it has no half of a surrogate pair, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _sub(rule: Rule, text: str, depth: int = 0) -> str:
    """A text without what matches, in whatever spelling JSON within it has."""
    if rule.pattern is None:
        return rule.replacement
    if text[:1] in ("{", "[") and depth < DEPTH and "\\" in text:
        text = _STRING.sub(lambda token: _string(token[0], rule, depth + 1), text)
    return rule.pattern.sub(lambda _: rule.replacement, text)


def _text_block(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def _encoded(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
