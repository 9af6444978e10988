"""What readers look at beyond the fold's own alphabet: data of events that change neither rows nor
surface, opaque as logged.

``Fact`` stands for a known log-only event of one of ``FACTS``; ``Titled`` is a title with its whole
data. Readers decide by ``type(event.body)``, then for a fact by ``event.type``.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from operators.events import NULL, Title
from operators.text import to_json

from .text import plain

#: The log-only types whose data some reader needs.
FACTS = frozenset(
    {
        "approval/policy",
        "goal/change",
        "permission/preset",
        "plan/mode",
        "sandbox/mode",
        "subagent/descriptor",
        "todo/write",
    }
)


class Fact(Struct, frozen=True, gc=False):
    """``data`` as logged; ``null`` when the event has none."""

    data: Raw = NULL


class Titled(Title, frozen=True, gc=False):
    data: Raw = NULL


def record(data: Raw) -> dict[str, Any]:
    """The data of a fact; empty when it is no object."""
    found = plain(data)
    return found if isinstance(found, dict) else {}


MAX_WHOLE = 2**53 - 1


def whole(value: Any) -> int | None:
    """A number that JavaScript counts with exactly, by value (``18.0`` is 18); None for others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():  # inf and nan are not whole either
        return None
    number = int(value)
    return number if abs(number) <= MAX_WHOLE else None


def kept(value: Any) -> Raw:
    """Plain JSON to be kept opaque; ``null`` for what JSON of ours cannot say."""
    try:
        return to_json(value)
    except (ValueError, OverflowError, TypeError, RecursionError):
        return NULL
