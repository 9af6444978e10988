"""A session's readers in the head of its snapshot: one array, a value for each part of
`operators.readers.rooms.Readers`, null where nothing happened; the last one is such an array of the
small readers. Parts are only ever added, at the end of either.

Living contexts are segments (`TABLES`), and prices stand in the surface's nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from operators.readers import (
    goals,
    injected,
    losses,
    pairing,
    permissions,
    plans,
    projections,
    statistics,
    subagents,
    titles,
    todos,
    usage,
)
from operators.readers.context import Context
from operators.readers.held import Parts
from operators.readers.losses import Losses
from operators.readers.prices import Systems
from operators.readers.request import HeaderFacts
from operators.readers.rooms import BILLING, SMALL, SYSTEMS, Readers
from operators.readers.statistics import Statistics
from operators.readers.usage import Billing, TokenUsage
from operators.rooms import Rooms
from operators.session import Session

RESTARTED = "reader:restarted"  #: quality fact: they know nothing of what came before

_NULL = b"null"
_encode = msgspec.json.Encoder().encode
_array = msgspec.json.Decoder(list[Raw]).decode

#: How each part is read and made of what was read, in their order. Billing needs the session's
#: totals besides.
_FIGURES: tuple[tuple[Any, Callable[[Any], Any] | None], ...] = (
    (statistics.Saved, Statistics.restored),
    (usage.Saved, TokenUsage.restored),
    (usage.SavedBilling, None),
    (Context, None),
    (losses.Saved, Losses.restored),
    (HeaderFacts, None),
    (bool, Systems.found),
)
_SMALL: dict[str, Any] = {
    "title": titles.Headline,
    "listing": titles.Listing,
    "goal": goals.GoalState,
    "todos": todos.TodoList,
    "plan": plans.Plan,
    "permissions": permissions.Knobs,
    "timing": subagents.Timing,
    "identity": subagents.Identity,
    "pairing": pairing.Pairs,
    "injected": injected.Counts,
}
assert tuple(_SMALL) == tuple(projections.ROOMS)


# --- writing --------------------------------------------------------------------------------------


def encode_readers(readers: Readers) -> Raw:
    return Raw(_written(readers))


def _written(parts: Parts) -> bytes:
    """Only parts that were entered since are encoded anew."""
    written = parts.written
    for number, part in enumerate(parts.rooms):
        if part is not None and written[number] is None:
            parts.keep(written, number, _write(part))
    return b"[%b]" % b",".join([value or _NULL for value in written])


def _write(part: Any) -> bytes:
    if isinstance(part, Parts):
        return _written(part)
    return _encode(part.saved() if hasattr(part, "saved") else part)


# --- reading --------------------------------------------------------------------------------------


def load_readers(session: Session, saved: Raw) -> None:
    """Into a session whose totals are there; its surface and contexts are still to come."""
    readers, totals = session.readers, session.totals
    if not len(saved):  # of a program without readers
        session.note(RESTARTED)
        readers.put(BILLING, Billing.unrouted(totals.usage, totals.compaction_usage))
        return
    *figures, small = _array(saved)
    for number, told in _told(figures, [kind for kind, _ in _FIGURES]):
        make = _FIGURES[number][1]
        readers.put(number, told if make is None else make(told))
        if number == BILLING:
            made = Billing.restored(told, totals.usage, totals.compaction_usage)
            readers.put(BILLING, made)
    if bytes(small) != _NULL:
        own = readers.own_small
        makers = [maker for maker, _ in projections.ROOMS.values()]
        for number, told in _told(_array(small), list(_SMALL.values())):
            own.put(number, makers[number].restored(told))


def _told(values: list[Raw], kinds: list[Any]) -> Iterable[tuple[int, Any]]:
    """The values that say something, by number."""
    for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        if bytes(value) != _NULL:
            yield number, msgspec.json.decode(value, type=kind)


def index_readers(session: Session) -> None:
    """What can be looked up, once surface and contexts are there."""
    readers = session.readers
    if readers.systems.any:
        readers.put(SYSTEMS, Systems.restored(Rooms.surface.peek(session)))
    if readers.rooms[SMALL] is not None:
        readers.own_small.index()
