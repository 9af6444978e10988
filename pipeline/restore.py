"""The states of one partition, brought to what the state topic says: from where the local store
stands to the topic's end, in slices.

The end is that of the moment, transaction markers and open transactions included: the cursor moves
over the former and waits for the latter, so no offset is waited for that cannot come.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from .errors import Fatal, Retriable
from .identity import EVENTS_ID, NEXT
from .logs import at
from .outside import Ends
from .ports import Cursor, InRecord, Reader
from .state import States
from .topics import FOLD_ANEW

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
    """From the local store's position, or from the first record of ``topic``, the state topic.
    `Fatal` or `Retriable` if what is needed of it is gone."""
    partition = start.partition
    first, end = reader.bounds(topic, partition)
    held = states.open(partition)
    if held is not None and first == end:  # emptied: what was folded without it, is told then
        states.wipe(partition)
        held = None
    if held is not None and held > end:  # a new leader may not know its end yet: tried again
        raise Retriable(
            f"{topic}[{partition}] ends at offset {end}, yet the local store has it up to {held}: "
            "the topic lost records",
            FOLD_ANEW,
        )
    if (held or 0) < first < end:  # compaction leaves a topic's first offset where it was
        raise Fatal(
            f"{topic}[{partition}] begins at offset {first}: states below it were deleted",
            f"see that its cleanup.policy is compact; {FOLD_ANEW}",
        )
    position = held or 0
    cursor = reader.cursor(topic, partition, position, end)
    return Restore(start, cursor, position, end - position)


def check_committed(
    ends: Ends, partition: int, offset: int | None, *, skip_expired: bool
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
        "raise the topic's retention; to go on without them, start with --skip-expired (the "
        "sessions they were of show a gap)",
    )


def require_states(
    ends: Ends, states: States, partition: int, committed: int | None, *, skip_expired: bool
) -> int | None:
    """The offset to go on from: ``committed``, or where the states stand if the group lost it.
    `Fatal` if there are no states for what was folded, or if they are of another events topic."""
    overview, state = (ends.names.of(role) for role in ("overview", "state"))
    sessions = states.sessions(partition)
    if not sessions and any_record(ends.reader, overview, partition):
        if any_record(ends.reader, state, partition):  # written since: the partition is another's
            raise Retriable(f"partition {partition} was folded on by another worker meanwhile")
        raise Fatal(
            f"partition {partition} is folded up to offset {committed or 0}, yet the states of its "
            f"sessions are gone from {state}",
            FOLD_ANEW,
        )
    if committed is not None:
        return committed
    newest = newest_record(ends.reader, state, partition)
    if newest is None:
        return None
    place = _place(ends, partition, newest)
    log.warning(
        "the group has no offset, though %d sessions are folded: on from where their states stand",
        sessions,
        extra=at(topic=ends.names.of("events"), partition=partition, offset=place),
    )
    return check_committed(ends, partition, place, skip_expired=skip_expired)


def _place(ends: Ends, partition: int, newest: InRecord) -> int:
    """The offset that the states are folded up to. The offsets of a topic go with it, so that their
    being gone may mean that it is another one."""
    state, events = (ends.names.of(role) for role in ("state", "events"))
    headers = dict(newest.headers)
    told, place = headers.get(EVENTS_ID) or b"", headers.get(NEXT)
    if told.decode("ascii", "replace") != ends.events_id or place is None or not place.isdigit():
        raise Fatal(
            f"{events}[{partition}] was deleted and made again, or another deployment shares the "
            f"application id: the states on {state} are of another topic, and the group has no "
            "offset",
            f"if it was made again: {FOLD_ANEW}; else give each deployment its own "
            "--application-id",
        )
    return int(place)


def place_of(reader: Reader, topic: str, partition: int) -> int | None:
    """The offset that the states on ``topic``, the state topic, are folded up to, if any."""
    newest = newest_record(reader, topic, partition) if reader.partitions(topic) else None
    place = dict(newest.headers).get(NEXT) if newest is not None else None
    return int(place) if place is not None and place.isdigit() else None


#: How far back the newest record is looked for, markers and aborted records being passed over.
_BACK = (64, 4_096)


def newest_record(reader: Reader, topic: str, partition: int) -> InRecord | None:
    """The last committed record."""
    first, end = reader.bounds(topic, partition)
    for start in (*(max(first, end - back) for back in _BACK), first):
        newest = None
        for newest in reader.read(topic, partition, start, end):  # noqa: B007 - the last is wanted
            pass
        if newest is not None:
            return newest
    return None


def any_record(reader: Reader, topic: str, partition: int, start: int = 0) -> bool:
    """Whether a committed record stands at ``start`` or after it."""
    return any(True for _ in reader.read(topic, partition, start))
