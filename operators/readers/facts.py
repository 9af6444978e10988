"""The data of a :class:`~operators.events.Fact` as plain values, and what is kept of it. Readers
decide by ``type(event.body)``, then for a fact by ``event.type``."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from operators.events import NULL
from operators.text import to_json, well_formed

from .text import plain


def record(data: Raw) -> dict[str, Any]:
    """An object as plain values whose texts anything can keep: an unpaired surrogate half is
    U+FFFD. Empty when it is no object."""
    found = plain(data)
    if not isinstance(found, dict):
        return {}
    try:
        return found if b"\\u" not in bytes(data) else _scrubbed(found)
    except RecursionError:
        return {}


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(key): _scrubbed(item) for key, item in value.items()}
    return value


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
