"""The states of one partition, brought to what the state topic says: from where the local store
stands to the topic's end, in slices.

The end is that of the moment, transaction markers and open transactions included: the cursor moves
over the former and waits for the latter, so no offset is waited for that cannot come.
"""

from __future__ import annotations

import logging
from typing import Protocol

from msgspec import Struct

from .errors import Fatal
from .ports import Cursor, Reader
from .state import States
from .topics import FOLD_ANEW, Names

log = logging.getLogger(__name__)


class Start(Struct, frozen=True):
    """A partition to restore, the offset of ``events`` that it is folded up to, and the time by the
    worker's clock."""

    partition: int
    committed: int | None
    now: float


class Restore(Struct):
    """Under way: ``done`` of ``total`` offsets of the state topic are read."""

    start: Start
    cursor: Cursor
    first: int
    total: int
    records: int = 0
    size: int = 0

    @property
    def done(self) -> int:
        return self.cursor.position - self.first

    def advance(self, states: States, seconds: float) -> bool:
        """Take what comes within ``seconds`` (once, at least); True when all is read."""
        if not self.cursor.done:
            records = self.cursor.take(max(0.0, seconds))
            if records:
                states.apply(self.start.partition, records, self.cursor.position)
                self.records += len(records)
                self.size += sum(len(r.key or b"") + len(r.value or b"") for r in records)
        return self.cursor.done

    def close(self) -> None:
        self.cursor.close()


def begin(reader: Reader, topic: str, states: States, start: Start) -> Restore:
    """From the local store's position, or from the first record of ``topic``, the state topic."""
    partition = start.partition
    first, end = reader.bounds(topic, partition)
    held = states.open(partition)
    if held is not None and not first <= held <= end:
        log.warning(
            "partition %d: the local store stands at offset %d, %s has %d to %d: it is read anew",
            *(partition, held, topic, first, end),
        )
        states.wipe(partition)
        held = None
    at = first if held is None else held
    return Restore(start, reader.cursor(topic, partition, at, end), at, end - at)


class Outside(Protocol):
    """What of a worker's ends is asked here (`loop.Ends`)."""

    @property
    def reader(self) -> Reader: ...
    @property
    def names(self) -> Names: ...


def check_committed(
    ends: Outside, partition: int, offset: int | None, *, skip_expired: bool
) -> int | None:
    """``offset`` if ``events`` still has what comes next. `Fatal` if records have expired that were
    not folded (with ``skip_expired`` it goes on behind them), or if the topic ends before it."""
    topic = ends.names.of("events")
    if offset is None:
        return None
    first, end = ends.reader.bounds(topic, partition)
    if offset > end:
        raise Fatal(
            f"{topic}[{partition}] ends at offset {end}, yet {offset} is committed: it was deleted "
            "and made again, or lost records",
            f"restore the topic if you can; else, {FOLD_ANEW}",
        )
    if offset >= first:
        return offset
    if skip_expired:
        log.warning(
            "%s[%d]: offsets %d to %d expired unfolded", topic, partition, offset, first - 1
        )
        return first
    raise Fatal(
        f"{topic}[{partition}] begins at offset {first}, yet {offset} is the next to fold: "
        f"{first - offset} offsets expired before they were folded",
        "raise the topic's retention; to go on without them, start once with --skip-expired (the "
        "sessions they were of show a gap)",
    )


def require_states(ends: Outside, states: States, partition: int, committed: int | None) -> None:
    """`Fatal` if there are no states for what is folded below ``committed``."""
    overview, state = (ends.names.of(role) for role in ("overview", "state"))
    if (
        committed
        and not states.sessions(partition)
        and any_record(ends.reader, overview, partition)
    ):
        raise Fatal(
            f"partition {partition} is folded up to offset {committed}, yet the states of its "
            f"sessions are gone from {state}",
            FOLD_ANEW,
        )


def any_record(reader: Reader, topic: str, partition: int, start: int = 0) -> bool:
    """Whether a committed record stands at ``start`` or after it."""
    return any(True for _ in reader.read(topic, partition, start))
