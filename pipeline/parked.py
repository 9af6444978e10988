"""A parked session as the topics show it: where it stands, what waits, what a replay would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from msgspec import Struct
from msgspec.structs import replace

from operators.session import Session
from schemas import snapshot

from .batch import advance, read
from .envelope import Place
from .errors import Fatal
from .ports import InRecord, OutRecord, Reader
from .state import split_state_key
from .topics import Names
from .waiting import Waiting, add_all, as_received, at_first, letters_of, sent_since

Told = Callable[[str, int, int], None]
"""Hears what is read, how many records of it, and of how many."""
LOOKS = 5  #: at a state that cannot be read, each up to a later end
_LATER = 2**62  #: offsets of a replay that is only foreseen


def untold(_topic: str, _done: int, _total: int) -> None:
    """Nobody listens."""


class StateReader:
    """One session's state as committed, from the state topic; each look reads only what is new."""

    def __init__(self, reader: Reader, names: Names, session: str, partition: int) -> None:
        self._reader = reader
        self._topic = names.of("state")
        self._session = session
        self._partition = partition
        self._position = 0
        self._segments: dict[str, bytes] = {}

    def look(self, told: Told = untold) -> Session | None:
        """The state at the end of this moment; None if the topic has none. `Fatal` if it cannot be
        read: damaged, or of a newer program."""
        for n in range(LOOKS):
            self._read_on(told)
            try:
                return snapshot.load(self._session, self._segments) if self._segments else None
            except snapshot.SnapshotError as error:  # the end may cut a transaction in two
                if n == LOOKS - 1:
                    raise Fatal(str(error), "have the workers fold it again") from error
        return None

    def _read_on(self, told: Told) -> None:
        start, end = self._position, self._reader.bounds(self._topic, self._partition)[1]
        wanted = self._session.encode()
        for record in self._reader.read(self._topic, self._partition, start, end):
            if record.offset % 10_000 == 0:
                told(self._topic, record.offset - start, end - start)
            if record.key is None or not record.key.startswith(wanted):
                continue
            session, segment = split_state_key(record.key)
            if session != self._session:
                continue
            if record.value is None:
                self._segments.pop(segment, None)
            else:
                self._segments[segment] = record.value
        self._position = end


class Situation(Struct, frozen=True):
    """What is known of one session with dead letters. ``at``: where the events were read to;
    ``state`` None: the workers of this application have none."""

    session: str
    at: Place
    states: StateReader
    state: Session | None
    waiting: Waiting

    def in_order(self) -> list[int]:
        """First places of what waits, as it has to be sent again."""
        state = self.state
        if state is None or state.parked is None:
            return []
        order = self.waiting.in_log_order(state.parked.since, state.epoch)
        at = state.parked.at
        if not order or (at is not None and at not in self.waiting):
            first = replace(self.at, offset=state.parked.since if at is None else at)
            raise Fatal(
                f"the record at {first}, which parked session {self.session!r}, has expired",
                "ingest the session again as a new epoch",
            )
        if at is not None and state.parked.seq is None:
            order.remove(at)  # nothing is judged before it
            order.insert(0, at)
        return order


@contextmanager
def find(
    reader: Reader, names: Names, session: str, told: Told = untold
) -> Iterator[Situation | None]:
    """None if the session has no dead letter. Progress is told, as topics are read whole. What
    waits is kept, perhaps on disk, for as long as the block runs."""
    with closing(Waiting()) as waiting:
        yield _gathered(reader, names, session, waiting, told)


def _gathered(
    reader: Reader, names: Names, session: str, waiting: Waiting, told: Told
) -> Situation | None:
    events = names.of("events")
    committed = reader.committed(names.application, events)
    partition = None
    for listed in letters_of(reader, names.of("deadletter"), session):
        if listed.letter is not None and listed.letter.topic == events:
            waiting.add(at_first(as_received(listed.letter)))
            partition = listed.letter.partition
    if partition is None:
        return None
    states = StateReader(reader, names, session, partition)
    state = states.look(told)
    begin, end = committed.get(partition, 0), reader.bounds(events, partition)[1]
    if state is not None and state.parked is not None and state.parked.since not in waiting:
        begin = min(begin, state.parked.since)  # its letter has expired, the event may be there
    add_all(waiting, sent_since(reader, Place(events, partition, begin), end, session))
    return Situation(session, Place(events, partition, end), states, state, waiting)


def look_again(reader: Reader, known: Situation) -> tuple[Situation, list[InRecord]]:
    """The same with what came since; those of the session's events that did."""
    end = reader.bounds(known.at.topic, known.at.partition)[1]
    came = list(sent_since(reader, known.at, end, known.session))
    add_all(known.waiting, came)
    return replace(known, at=replace(known.at, offset=end), state=known.states.look()), came


# --- what a replay would do -----------------------------------------------------------------------


class Stop(Struct, frozen=True):
    """Where a session would park again: the record's first place, and why."""

    first: int
    seq: int | None
    reason: str
    message: str


class Foreseen(Struct, frozen=True):
    """What folding some records again would do: the first ``count`` of them are taken or stop it;
    then the session's next seq, and whether it is still parked."""

    count: int
    stop: Stop | None
    next_seq: int
    parked: bool


def foresee(
    state: Session, at: Place, records: Iterator[OutRecord] | Sequence[OutRecord]
) -> Foreseen:
    """The fold itself, as a worker whose patterns match the session will do it."""
    session = state.session or ""
    states = {session: state}
    count = 0
    for record in records:
        count += 1
        received = InRecord(
            *(at.topic, at.partition, _LATER + count, 0), record.key, record.value, record.headers
        )
        items = read([received])
        folded = advance(items, states, strict=lambda _: True)
        states = {session: folded.touched[session].state}
        parked = states[session].parked
        mark = items[0].mark
        if folded.refused and mark is not None and parked is not None and parked.at == mark.at:
            refusal = folded.refused[-1][1]
            stop = Stop(mark.at, refusal.seq, refusal.reason, refusal.message)
            return Foreseen(count, stop, states[session].next_seq, parked=True)
    after = states[session]
    return Foreseen(count, None, after.next_seq, after.parked is not None)


def require_state(known: Situation | None, session: str, names: Names) -> Session:
    """The session's state, or `Fatal`: there is none to fold on."""
    if known is None:
        raise Fatal(
            f"session {session!r} has no dead letters under the prefix {names.of('events')!r}",
            "`foldstream deadletter list` names the sessions that have",
        )
    if known.state is None:
        raise Fatal(
            f"application {names.application} holds no state of session {session!r}",
            "name the --application-id of the workers that parked it",
        )
    return known.state
