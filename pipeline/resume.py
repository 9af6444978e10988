"""What the topics know of each session, so that an ingest goes on where the last one ended.

What was folded is told by the states (the seq that is next, the digests of header and last line,
and the offset of ``events`` that they stand for); what came after that by ``events`` itself. So the
read is bounded by the sessions and by what no worker has folded yet, and it is right, too, where
the records of an event have expired. Where there are no states, ``events`` is read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from operators.events import Event, Header
from schemas.deadletter import DeadLetter, decode_dead_letter
from schemas.errors import ReadError
from schemas.snapshot_place import header_digest, place_of

from .batch import CURRENT, ReadRecord, read
from .cursor import Already
from .identity import EVENTS_ID, NEXT
from .ports import InRecord, Reader
from .state import PLACE_KEY, split_state_key
from .topics import Names

#: Records between two calls of the progress callback.
PROGRESS_RECORDS = 10_000

Told = Callable[[int], None]


class Known(Struct, frozen=True):
    """``sessions`` as the topics have them; ``folded``: per partition the offset of ``events`` up
    to which states told it."""

    sessions: Mapping[str, Already]
    folded: Mapping[int, int]


def already_in(
    reader: Reader, names: Names, events_id: str = "", progress: Told | None = None
) -> Known:
    """One entry per session on the topics as they are at this moment. ``events_id``: of the events
    topic (`identity.of`); states of another one say nothing. ``progress`` hears how many records
    were read."""
    counted = _Counted(progress)
    found: dict[str, Already] = {}
    folded: dict[int, int] = {}
    events, state = names.of("events"), names.of("state")
    states = reader.partitions(state)
    for partition in range(reader.partitions(events)):
        start = 0
        if partition < states:
            told = _told(counted.each(reader.read(state, partition)), events_id)
            if told is not None and told.next <= reader.bounds(events, partition)[1]:
                found.update(told.sessions)
                folded[partition], start = told.next, min([told.next, *told.parked])
        for record in counted.each(reader.read(events, partition, start)):
            _add(found, read([record])[0], folded=record.offset < folded.get(partition, 0))
    return Known(found, folded)


def letters(reader: Reader, names: Names, folded: Mapping[int, int]) -> Iterator[DeadLetter]:
    """The dead letters that an ingest made, and those of records below the offsets ``folded``."""
    topic = names.of("deadletter")
    for partition in range(reader.partitions(topic)):
        for record in reader.read(topic, partition):
            try:
                letter = decode_dead_letter(record.value or b"")
            except ReadError:
                continue
            if letter.partition < 0 or letter.offset < folded.get(letter.partition, 0):
                yield letter


class _Counted:
    def __init__(self, progress: Told | None) -> None:
        self._progress = progress
        self._count = 0

    def each(self, records: Iterable[InRecord]) -> Iterator[InRecord]:
        for record in records:
            self._count += 1
            if self._progress is not None and self._count % PROGRESS_RECORDS == 0:
                self._progress(self._count)
            yield record


# --- what was folded ------------------------------------------------------------------------------


class _States(Struct):
    """What the states of a partition tell; ``parked``: where sessions are that wait for a person,
    and so from where on ``events`` knows more of them."""

    next: int
    sessions: dict[str, Already]
    parked: list[int]


def _told(records: Iterable[InRecord], events_id: str) -> _States | None:
    """None if one cannot be read, or is of another events topic."""
    told = _States(0, {}, [])
    parked: dict[str, int] = {}
    for record in records:
        headers = dict(record.headers)
        if (headers.get(EVENTS_ID) or b"").decode("ascii", "replace") != events_id:
            return None
        place = headers.get(NEXT)
        if place is not None and place.isdigit():
            told.next = max(told.next, int(place))
        if record.key is None or record.key == PLACE_KEY:
            continue
        session, segment = split_state_key(record.key)
        if segment or record.value is None:
            continue
        head = place_of(record.value)
        if head is None:
            return None
        told.sessions[session] = Already(head.epoch, head.next_seq, head.header, head.last)
        parked.pop(session, None)
        if head.parked is not None:
            parked[session] = head.parked
    told.parked = list(parked.values())
    return told


# --- what was not yet -----------------------------------------------------------------------------


def _add(found: dict[str, Already], item: ReadRecord, *, folded: bool) -> None:
    if item.session is None or item.epoch == CURRENT:
        return
    known = found.get(item.session)
    if known is None or item.epoch > known.epoch:
        known = Already(item.epoch)
    elif item.epoch < known.epoch:
        return
    line = item.line
    if isinstance(line, Header):
        if known.header is None:
            known = replace(known, header=header_digest(line))
    elif line.seq is not None:
        end = line.seq + (line.count if isinstance(line, Event) else 1)
        if end > known.next_seq:
            known = replace(known, next_seq=end, last=line.digest)
    elif not folded:
        digest = xxh3_64_intdigest(item.record.value or b"")
        known = replace(known, unnumbered=(*known.unnumbered, digest))
    found[item.session] = known
