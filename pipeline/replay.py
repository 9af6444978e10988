"""``deadletter replay``: what was put aside of one session, sent to the events topic again.

The records go back onto the partition they came from, in log order, each with the header ``replay``
(where it stood first), the last one also with ``through`` (operators/parking.py). The session's
live lines go on being put aside until a worker has folded that last one; those are sent after it at
once, as long as they come. Sent twice, a record is folded once: it has a seq.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from operators.events import Fault, Header
from operators.parking import MISSING
from operators.rooms import Parked
from operators.session import Session
from schemas.inbound import read_value

from . import limits
from .envelope import EPOCH, REPLAY, SKIP, THROUGH, Place, original
from .errors import Fatal, Retriable
from .lines import LineSink
from .parked import Situation, Stop, Told, foresee, look_again, untold
from .ports import Clock, OutRecord, Reader
from .topics import Names
from .waiting import is_replayed, whole

ROUNDS = 1_000  #: of lines that came meanwhile; a session that outruns them is never quiet
POLL_S = 0.1  #: between two looks whether the workers have come that far


class Decision(Struct, frozen=True):
    """What is done about the record that stands in the way: ``skip`` gives it up, ``fix`` is the
    line that takes its place. Neither: it is folded again as it is."""

    skip: bool = False
    fix: bytes | None = None


class Outcome(Struct, frozen=True):
    """``sent`` records in ``rounds``; ``next_seq`` of the session afterwards; ``parked`` None: the
    session is folded on, else ``message`` says what stands in the way now."""

    sent: int
    rounds: int
    next_seq: int
    parked: Parked | None
    message: str = ""


class Ends(Struct, frozen=True):
    """What a replay reads from, writes to and waits by."""

    reader: Reader
    sink: LineSink
    names: Names
    clock: Clock


def planned(
    known: Situation, decision: Decision, reader: Reader, firsts: Iterable[int]
) -> Iterator[OutRecord]:
    """The records at those first places as they are sent again."""
    order = list(firsts)
    through, at = max(order, default=-1), known.at
    offender = known.state.parked.at if known.state and known.state.parked else None
    for n, first in enumerate(order):
        record = whole(known.waiting.get(first), reader)
        headers = [(name, value) for name, value in original(record.headers) if value is not None]
        value = record.value
        if first == offender and decision.fix is not None and known.state is not None:
            value = decision.fix
            headers = [held for held in headers if held[0] != EPOCH]
            headers.append((EPOCH, b"%d" % known.state.epoch))
        headers.append((REPLAY, _text(at, first)))
        if first == offender and decision.skip:
            headers.append((SKIP, b"1"))
        if n == len(order) - 1:
            headers.append((THROUGH, _text(at, through)))
        yield OutRecord("events", at.partition, known.session.encode(), value, headers)


def _text(at: Place, offset: int) -> bytes:
    return str(Place(at.topic, at.partition, offset)).encode()


def check(state: Session, decision: Decision) -> None:
    """`Fatal` if the decision cannot be carried out; what is wrong with it, and what would do."""
    parked = state.parked
    assert parked is not None, "only a parked session has something in the way"
    if not decision.skip and decision.fix is None:
        return
    if parked.at is None:
        raise Fatal(
            "nothing stands in the way: an earlier replay was interrupted behind it",
            "replay without --skip and --with",
        )
    if decision.fix is not None:
        _check_fix(state, parked, decision.fix)


def _check_fix(state: Session, parked: Parked, fix: bytes) -> None:
    line = read_value(fix)
    if parked.reason == MISSING:
        raise Fatal(
            f"the record of seq {parked.seq} is not to blame: seqs {state.expected} to "
            f"{(parked.seq or 0) - 1} are missing before it",
            "send them to the events topic (ingest) and replay, or --skip to do without them",
        )
    if isinstance(line, Fault):
        raise Fatal(f"the line is refused as well: {line.reason}: {line.message}", "correct it")
    if isinstance(line, Header):
        if line.session != state.session or parked.seq is not None:
            raise Fatal(f"a log header of session {line.session!r} cannot stand there", _SAME)
        return
    wanted = state.expected if parked.seq is None else parked.seq
    if line.seq != wanted:
        raise Fatal(f"the line has seq {line.seq}, but seq {wanted} is to be replaced", _SAME)


_SAME = "--with takes one line of the session's log, with the seq of the one it replaces"


def replay(ends: Ends, known: Situation, decision: Decision, told: Told = untold) -> Outcome:
    """Send what waits again and wait for the workers, until the session is folded on or parks
    again. `Fatal` if the decision does not fit, `Retriable` if no worker folds."""
    sent = 0
    stop: Stop | None = None
    before: tuple[int, Parked] | None = None
    for n in range(ROUNDS):
        state = known.state
        if state is None or state.parked is None:
            return Outcome(sent, n, state.next_seq if state else 0, None)
        if n == 0:
            check(state, decision)
        elif state.parked.at is not None:
            return _stopped(sent, n, state, stop)
        stands = (state.next_seq, state.parked)
        if stands == before:
            break
        before = stands
        run = _Run(ends, known, decision if n == 0 else Decision(), told)
        known, stop = run.once()
        sent += run.sent
    raise Retriable(
        f"session {known.session!r} is still parked after {sent} records were sent again",
        "its lines come faster than they can be replayed: try again when it is quieter",
    )


def _stopped(sent: int, rounds: int, state: Session, stop: Stop | None) -> Outcome:
    parked = state.parked
    assert parked is not None
    seq = state.expected if parked.seq is None else parked.seq
    why = f": {stop.message}" if stop is not None and stop.first == parked.at else ""
    message = f"parked again at seq {seq}: {parked.reason}{why}"
    return Outcome(sent, rounds, state.next_seq, parked, message)


class _Run:
    """One round: everything that waits, then what came meanwhile, then the workers."""

    def __init__(self, ends: Ends, known: Situation, decision: Decision, told: Told) -> None:
        self._ends = ends
        self._known = known
        self._decision = decision
        self._told = told
        self.sent = 0

    def once(self) -> tuple[Situation, Stop | None]:
        known, order = self._known, self._known.in_order()
        assert known.state is not None
        reader = self._ends.reader
        seen = foresee(known.state, known.at, planned(known, self._decision, reader, order))
        if seen.stop is not None and self._decision.fix is not None:
            parked = known.state.parked
            if parked is not None and seen.stop.first == parked.at:
                raise Fatal(
                    f"the line is refused as well: {seen.stop.reason}: {seen.stop.message}",
                    "nothing was sent; correct it",
                )
        epoch, last = known.state.epoch, -1
        self._send(known, order, seen.count)
        for _ in range(ROUNDS):
            known, came = look_again(reader, known)
            last = max((record.offset for record in came if is_replayed(record)), default=last)
            new = [r.offset for r in came if not is_replayed(r) and r.offset < last]
            if not new or seen.stop is not None:
                break
            order = known.waiting.in_log_order(min(new), epoch)
            self._send(known, order, len(order))
        return self._await(known, last), seen.stop

    def _send(self, known: Situation, order: list[int], most: int) -> None:
        """Send the first ``most`` of them; all are acknowledged when it returns."""
        records = planned(known, self._decision, self._ends.reader, order)
        for n, record in enumerate(records):
            if n == most:
                break
            self._ends.sink.send(record)
            self.sent += 1
            self._told("sent again", n + 1, most)
        self._ends.sink.flush()

    def _await(self, known: Situation, last: int) -> Situation:
        """Until the workers have folded the last of ours; as long as they get on."""
        reader, clock, names = self._ends.reader, self._ends.clock, self._ends.names
        position, since = -1, clock.monotonic()
        while True:
            offset = reader.committed(names.application, known.at.topic).get(known.at.partition, 0)
            if offset > last:
                return look_again(reader, known)[0]
            if offset > position:
                position, since = offset, clock.monotonic()
            elif clock.monotonic() - since > limits.REPLAY_STALL_S:
                raise Retriable(
                    f"{self.sent} records are sent again, but no worker has folded beyond "
                    f"{Place(known.at.topic, known.at.partition, position)}",
                    "start a worker (`foldstream run --strict`), then replay again: each record is "
                    "folded once",
                )
            self._told("folded", max(0, offset - known.at.offset), last + 1 - known.at.offset)
            clock.sleep(POLL_S)
