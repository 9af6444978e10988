"""One batch of input records folded: the entry that every runner calls (streams.md §5).

``fold_batch`` is ``render(advance(read(records), states))``, and those three are the stages of the
graph in ``wiring.py``:

    records ─▶ read ─▶ lines ─▶ advance ─▶ staged sessions and changes ─▶ render ─▶ records

Pure: no IO, no clock; ``states`` is only read. A failed batch is undone by dropping its result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from operators import parking
from operators.changes import Change, Refused, TranscriptRow
from operators.events import Event, Fault, Header, Line
from operators.parking import Mark
from operators.session import Out, Session, enter_epoch
from schemas import snapshot
from schemas.bounds import encode_within
from schemas.inbound import read_value
from schemas.outbound import KEY_SEPARATOR, subject_of

from . import limits
from .deadletter import Refusal, dead_letter
from .envelope import EnvelopeError, read_envelope
from .ports import InRecord, OutRecord, Segment
from .state import state_key

CURRENT = -1  #: epoch of a record that does not say a valid one: whichever its session is in


#: What a value may take of a record's limit: the key and the headers hold the session id, too.
MAX_VALUE_BYTES = limits.MAX_OUTPUT_RECORD_BYTES - limits.RECORD_OVERHEAD_BYTES


def never(_: str) -> bool:
    """No session is strict."""
    return False


class SessionStates(Protocol):
    """Where the committed sessions are read; a plain ``dict`` will do."""

    def get(self, session: str, /) -> Session | None: ...


class ReadRecord(Struct, frozen=True, gc=False):
    """One input record as read; ``session`` None when its key names none; ``mark`` None unless it
    is sent again out of the dead letters."""

    record: InRecord
    session: str | None
    epoch: int
    line: Line
    mark: Mark | None = None


class Touched(Struct):
    """One session of the batch: its staged state and what has changed in it so far. ``left`` are
    the saved segments of a generation that ended."""

    partition: int
    state: Session
    out: Out
    left: frozenset[str] = frozenset()


class Advanced(Struct, frozen=True):
    """The first ``taken`` records folded. ``refused`` in the order of the input."""

    touched: dict[str, Touched]
    refused: list[tuple[InRecord, Refusal]]
    counts: Counter[str]
    taken: int


class BatchResult(Struct, frozen=True):
    """What a batch does, to be published and kept in one step or not at all.

    ``outputs`` in publishing order: each session's changes and then its state records, sessions by
    their first record, dead letters last. ``states`` and ``segments`` hold the sessions that
    changed. ``counts``: ``records``, ``stale`` (an epoch that has passed), ``redelivered``,
    ``refused.<reason>``. ``taken``: how many of the records it stands for."""

    outputs: list[OutRecord]
    states: dict[str, Session]
    segments: list[Segment]
    counts: Counter[str]
    taken: int


Redact: TypeAlias = Callable[[Change], Change | None]
"""The change that may leave, None: none may."""


def fold_batch(
    records: Iterable[InRecord],
    states: SessionStates,
    max_row_bytes: int = limits.MAX_ROW_BYTES,
    strict: Callable[[str], bool] = never,
    redact: Redact | None = None,
) -> BatchResult:
    """Fold ``records`` (of one partition, in offset order) onto the sessions of ``states``.

    The outputs go to the records' own partition; a row above ``max_row_bytes`` is cut. Any bytes
    are taken; nothing is raised for what a record may hold. Two batches in a row give what one
    does, but for coalescing. ``strict``: whether a session parks at its first fault; it must say
    the same of it for ever. ``redact``: see `render`."""
    return render(advance(read(records), states, strict=strict), max_row_bytes, redact)


# --- bytes -> lines -------------------------------------------------------------------------------


def read(records: Iterable[InRecord]) -> list[ReadRecord]:
    """What each record says by itself: its session, its epoch, its line."""
    return [_read(record) for record in records]


def _read(record: InRecord) -> ReadRecord:
    try:
        session = (record.key or b"").decode()
    except UnicodeDecodeError as error:
        return _unowned(record, f"the key is not UTF-8: {error.reason} at byte {error.start}")
    if not session:
        return _unowned(record, "the record has no key")
    if len(session) > limits.MAX_SESSION_CHARS:
        return _unowned(record, f"the key is longer than {limits.MAX_SESSION_CHARS} characters")
    epoch, mark = 0, None
    if record.headers:
        try:
            epoch, mark = read_envelope(record)
        except EnvelopeError as error:
            return ReadRecord(record, session, CURRENT, Fault("bad-envelope", str(error)))
    line = read_value(record.value)
    if type(line) is Header and line.session != session:
        message = f"a log header of session {line.session!r} under the key {session!r}"
        line = Fault("key-mismatch", message)
    return ReadRecord(record, session, epoch, line, mark)


def _unowned(record: InRecord, message: str) -> ReadRecord:
    return ReadRecord(record, None, CURRENT, Fault("no-session", message))


# --- lines -> staged states and changes -----------------------------------------------------------


def advance(
    lines: Iterable[ReadRecord],
    states: SessionStates,
    most: int | None = None,
    strict: Callable[[str], bool] = never,
) -> Advanced:
    """Fold every line into a fork of its session; ``states`` stays as it is. ``most`` ends the
    batch early, after the line that brings it to that weight (`limits.BATCH_WEIGHT`). ``strict`` as
    in `fold_batch`."""
    folded = Advanced({}, [], Counter(), 0)
    count = weight = 0
    for item in lines:
        if most is not None and weight >= most:
            break
        count += 1
        weight += len(item.record.value or b"")
        session, line = item.session, item.line
        if session is None:
            assert isinstance(line, Fault)
            folded.refused.append((item.record, Refusal(line.reason, line.message)))
            continue
        touched = folded.touched.get(session)
        if touched is None:
            touched = folded.touched[session] = _touch(session, item.record.partition, states)
            touched.state.park_at_faults(strict(session))
        if item.epoch not in (CURRENT, touched.state.epoch) and not _enter(touched, item.epoch):
            folded.counts["stale"] += 1
            continue
        state, out = touched.state, touched.out
        if type(line) is Event and line.seq < state.next_seq >= line.seq + line.count:
            folded.counts["redelivered"] += 1  # or late: then it is refused as well
        before, repeated = len(out.refused), out.weight
        if item.mark is None and not state.parks and state.parked is None:
            state.take(line, out)
        else:
            parking.take(state, line, item.mark or Mark(item.record.offset), out)
        weight += out.weight - repeated
        if len(out.refused) > before:
            for refused in out.refused[before:]:
                refusal = Refusal(refused.reason, refused.message, session, refused.seq)
                folded.refused.append((item.record, refusal))
    folded.counts["records"] = count
    return msgspec.structs.replace(folded, taken=count)


def _touch(session: str, partition: int, states: SessionStates) -> Touched:
    """A copy of the session to fold into, made once per batch."""
    state = states.get(session)
    return Touched(partition, Session(session) if state is None else state.fork(), Out())


def _enter(touched: Touched, epoch: int) -> bool:
    """Begin a new generation of the log; False for a record of one that has passed."""
    entered = enter_epoch(touched.state, epoch, touched.out)
    if entered is None:
        return False
    touched.left |= snapshot.names(touched.state)
    touched.state = entered
    return True


# --- changes -> records ---------------------------------------------------------------------------


def render(
    folded: Advanced,
    max_row_bytes: int = limits.MAX_ROW_BYTES,
    redact: Redact | None = None,
) -> BatchResult:
    """Changes and states as records, ready to send. What is told of a session passes ``redact``,
    before anything is cut or encoded; states and dead letters are as they are."""
    result = BatchResult([], {}, [], folded.counts, folded.taken)
    for session, touched in folded.touched.items():
        if touched.out.changed or touched.out.kept:
            _publish(result, session, touched, (max_row_bytes, redact))
    for record, refusal in folded.refused:
        result.outputs.append(dead_letter(record, refusal))
        result.counts[f"refused.{refusal.reason}"] += 1
    return result


def _publish(
    result: BatchResult, session: str, touched: Touched, door: tuple[int, Redact | None]
) -> None:
    max_row_bytes, redact = door
    state, outputs, partition = touched.state, result.outputs, touched.partition
    key = session.encode()
    named, epoch = ("session", key), ("epoch", b"%d" % state.epoch)
    told: Iterable[Change] = touched.out.changes(state)
    if redact is not None:
        told = [left for each in told if (left := redact(each)) is not None]
    for change in told:
        assert not isinstance(change, Refused), "refusals travel as dead letters"
        # Key and headers as `schemas.outbound` makes them, from parts that all records share.
        own, limit = key, MAX_VALUE_BYTES
        if isinstance(change, TranscriptRow):
            own, limit = key + KEY_SEPARATOR + change.key.encode(), max_row_bytes
        value = encode_within(change, limit)
        of = epoch if change.epoch == state.epoch else ("epoch", b"%d" % change.epoch)
        headers = [named, of, ("seq", b"%d" % change.seq)]
        outputs.append(OutRecord(subject_of(change), partition, own, value, headers))
    segments = snapshot.save(state)
    if touched.left:
        segments = {**dict.fromkeys(sorted(touched.left)), **segments}
    headers = [named, epoch, ("seq", b"%d" % (state.next_seq - 1))]
    for name, saved in segments.items():
        outputs.append(OutRecord("state", partition, state_key(session, name), saved, headers))
        result.segments.append((session, name, saved))
    result.states[session] = state
