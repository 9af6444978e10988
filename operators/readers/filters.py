"""Filters of search documents and of sessions (readers.md §11, §12).

A filter is a list of clauses, all of which must hold; of a clause's values one must. What a caller
writes (JSON objects, from a command line or a request) is read once, into functions; whatever is
wrong with it is a `FilterError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from .documents import CURRENT, LOG_ONLY, SHADOWED, Document
from .lineage import SessionRecord
from .text import folded, spaced, trimmed

T = TypeVar("T")
Test: TypeAlias = Callable[[T], bool]
Clause: TypeAlias = Mapping[str, Any]

SURFACES = {"current": CURRENT, "shadowed": SHADOWED, "log-only": LOG_ONLY}
AVAILABILITY = ("live", "persisted")


class FilterError(ValueError):
    """A filter that means nothing; the message says which clause and why."""


def event_filter(clauses: Iterable[object]) -> Test[Document]:
    """Kinds ``seq``, ``time`` (``from``, ``to``), ``type``, ``surface`` (``values``), ``text``."""
    return _all(clauses, _EVENT_CLAUSES)


def session_filter(clauses: Iterable[object]) -> Test[SessionRecord]:
    """Kinds ``id``, ``cwd``, ``parent``, ``availability`` (``values``), ``created-at``."""
    return _all(clauses, _SESSION_CLAUSES)


def _all(clauses: Iterable[object], known: Mapping[str, Callable[[Clause], Test[T]]]) -> Test[T]:
    tests: list[Test[T]] = []
    for clause in clauses:
        if not isinstance(clause, Mapping):
            raise FilterError(f"a clause is an object, not {clause!r}")
        kind = clause.get("kind")
        if not isinstance(kind, str) or kind not in known:
            raise FilterError(f"unknown filter kind {kind!r}: one of {', '.join(known)}")
        tests.append(known[kind](clause))
    return lambda item: all(test(item) for test in tests)


# --- clauses --------------------------------------------------------------------------------------


def _end(clause: Clause, name: str) -> float | int | None:
    """One end of a range; an end that is not given is open."""
    if name not in clause:
        return None
    value = clause[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"{clause['kind']} filter: {name} must be a finite number")
    if isinstance(value, float) and not math.isfinite(value):
        raise FilterError(f"{clause['kind']} filter: {name} must be a finite number")
    return value


def _within(clause: Clause) -> Test[int | None]:
    low, high = _end(clause, "from"), _end(clause, "to")
    if low is not None and high is not None and low > high:
        raise FilterError(f"{clause['kind']} filter: from {low} is after to {high}")

    def test(value: int | None) -> bool:
        if value is None:
            return low is None and high is None
        return (low is None or value >= low) and (high is None or value <= high)

    return test


def _values(clause: Clause, known: Sequence[str] | None = None) -> frozenset[str | None]:
    """The values of a clause; ``known``: those there are, any other is a mistake."""
    values = clause.get("values")
    if not isinstance(values, list | tuple):
        raise FilterError(f"{clause['kind']} filter: values must be a list")
    for value in values:
        if value is not None and not isinstance(value, str):
            raise FilterError(f"{clause['kind']} filter: {value!r} is no text")
        if known is not None and value not in known:
            raise FilterError(
                f"{clause['kind']} filter: unknown value {value!r}: one of {', '.join(known)}"
            )
    return frozenset(values)


def _seq(clause: Clause) -> Test[Document]:
    within = _within(clause)
    return lambda document: within(document.seq)


def _time(clause: Clause) -> Test[Document]:
    within = _within(clause)
    return lambda document: within(document.time)


def _type(clause: Clause) -> Test[Document]:
    values = _values(clause)
    return lambda document: document.type in values


def _surface(clause: Clause) -> Test[Document]:
    marks = {SURFACES[value or ""] for value in _values(clause, tuple(SURFACES))}
    return lambda document: document.surface in marks


def _text(clause: Clause) -> Test[Document]:
    """Literal text: runs of white space match any, case folds to one character each."""
    text = clause.get("text")
    if not isinstance(text, str) or not trimmed(text):
        raise FilterError("text filter: the text must be more than white space")
    wanted = folded(spaced(trimmed(text)))
    return lambda document: wanted in folded(spaced(document.text))


def _created(clause: Clause) -> Test[SessionRecord]:
    within = _within(clause)
    return lambda record: within(record.created_at)


def _id(clause: Clause) -> Test[SessionRecord]:
    values = _values(clause)
    return lambda record: record.id in values


def _cwd(clause: Clause) -> Test[SessionRecord]:
    values = _values(clause)
    return lambda record: record.cwd in values


def _parent(clause: Clause) -> Test[SessionRecord]:
    values = _values(clause)
    return lambda record: record.parent in values


def _availability(clause: Clause) -> Test[SessionRecord]:
    values = _values(clause, AVAILABILITY)
    return lambda record: (
        ("live" in values and record.live) or ("persisted" in values and record.persisted)
    )


_EVENT_CLAUSES: Mapping[str, Callable[[Clause], Test[Document]]] = {
    "seq": _seq,
    "time": _time,
    "type": _type,
    "surface": _surface,
    "text": _text,
}
_SESSION_CLAUSES: Mapping[str, Callable[[Clause], Test[SessionRecord]]] = {
    "id": _id,
    "cwd": _cwd,
    "created-at": _created,
    "parent": _parent,
    "availability": _availability,
}
