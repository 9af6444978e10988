"""`deadletter replay` over the product's own worker, in memory: what it sends, awaits and says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace as changed

from operators.changes import SessionOverview
from pipeline import parked
from pipeline.envelope import Place
from pipeline.errors import Fatal, Retriable
from pipeline.lines import MemoryLineSink
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.parked import Situation
from pipeline.ports import OutRecord
from pipeline.replay import Decision, Ends, Outcome, planned, replay
from pipeline.simulate import simulate
from pipeline.topics import Names
from pipeline.waiting import as_received, whole
from pipeline.wiring import WorkerSettings, build
from schemas.codec import decode_change
from schemas.deadletter import DeadLetter, decode_dead_letter
from tests.pipeline.parked_partition import Partition

S = "sim-00000007"
LINES = simulate(7, events=30, features=()).lines
AS_IT_IS = Decision()
OTHER = simulate(8, events=30, features=())


class Desk:
    """One partition, a worker that comes by whenever somebody waits, and who replays."""

    def __init__(self, strict: str = "sim-*7") -> None:
        self.names = Names()
        self.broker = MemoryBroker()
        create_topics(self.broker, self.names, 1)
        self.reader = MemoryReader(self.broker)
        self.sink = MemoryLineSink(self.broker, self.names)
        self.strict = strict
        self.workers = True
        self.now = 0.0

    def feed(self, session: str, *lines: bytes) -> None:
        for line in lines:
            self.sink.send(OutRecord("events", 0, session.encode(), line, []))

    def work(self) -> None:
        build(
            WorkerSettings(
                broker=self.broker, instance="1", strict=(self.strict,), stop_at_end=True
            )
        ).run()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.workers:
            self.work()

    @contextmanager
    def found(self) -> Iterator[Situation]:
        with parked.find(self.reader, self.names, S) as known:
            assert known is not None
            yield known

    def replay(self, decision: Decision = AS_IT_IS, sink: MemoryLineSink | None = None) -> Outcome:
        ends = Ends(self.reader, sink or self.sink, self.names, self)
        with self.found() as known:
            return replay(ends, known, decision)

    def overview(self, session: str) -> SessionOverview:
        (last,) = [
            r for r in self.reader.read(self.names.of("overview"), 0) if r.key == session.encode()
        ][-1:]
        change = decode_change(last.value or b"")
        assert isinstance(change, SessionOverview)
        return change

    def letters(self) -> list[DeadLetter]:
        topic = self.names.of("deadletter")
        return [decode_dead_letter(r.value or b"") for r in self.reader.read(topic, 0)]


def parked_at(place: int, *bad: bytes) -> Desk:
    """A desk whose session is parked at that line of its log, for which ``bad`` came."""
    desk = Desk()
    desk.feed(S, *LINES[:place], *bad, *LINES[place + 1 :])
    desk.feed(OTHER.id, *OTHER.lines)
    desk.work()
    assert desk.overview(S).state == "parked"
    return desk


def bad_marker(line: bytes) -> bytes:
    return json.dumps(json.loads(line) | {"surfaceOp": 7}).encode()


def clean() -> SessionOverview:
    desk = Desk()
    desk.feed(S, *LINES)
    desk.work()
    return desk.overview(S)


def test_only_the_session_is_parked_and_its_rest_is_put_aside_in_order() -> None:
    desk = parked_at(10, b"{")
    assert desk.overview(OTHER.id).next_seq == OTHER.events
    found = [(letter.reason, letter.offset) for letter in desk.letters()]
    assert found == [("not-json", 10), *(("parked", n) for n in range(11, len(LINES)))]
    assert [letter.value for letter in desk.letters()][1:] == LINES[11:]


@pytest.mark.parametrize("bad", [b"{", bad_marker(LINES[10])])
def test_a_corrected_line_makes_it_the_clean_log(bad: bytes) -> None:
    desk = parked_at(10, bad)
    outcome = desk.replay(Decision(fix=LINES[10]))
    assert (outcome.parked, outcome.sent) == (None, len(LINES) - 10)
    assert desk.overview(S) == clean()


def test_what_is_missing_may_come_later() -> None:
    desk = parked_at(10)
    assert desk.letters()[0].reason == "seq-not-contiguous"
    again = desk.replay()
    assert again.parked is not None
    assert "parked again at seq" in again.message
    assert "seq-not-contiguous" in again.message
    desk.feed(S, LINES[10])
    assert desk.replay().parked is None
    assert desk.overview(S) == clean()


def test_what_is_given_up_is_a_fault_like_any_other() -> None:
    desk = parked_at(10, bad_marker(LINES[10]))
    assert desk.replay(Decision(skip=True)).parked is None
    after = desk.overview(S)
    assert (after.quality, after.next_seq) == ({"fault": 1}, clean().next_seq)


def test_a_second_fault_stops_the_replay_where_it_stands() -> None:
    desk = Desk()
    desk.feed(S, *LINES[:10], b"{", *LINES[11:15], b"[", *LINES[16:])
    desk.work()
    outcome = desk.replay(Decision(fix=LINES[10]))
    assert outcome.parked is not None
    assert outcome.message.startswith("parked again at seq 14: ")
    assert outcome.sent == 6, "what comes behind it is not sent in vain"
    assert desk.replay(Decision(fix=LINES[15])).parked is None
    assert desk.overview(S) == clean()


def test_once_is_enough() -> None:
    desk = parked_at(10, b"{")
    desk.replay(Decision(fix=LINES[10]))
    end = desk.broker.end(desk.names.of("events"), 0)
    assert desk.replay() == Outcome(0, 0, clean().next_seq, None)
    assert desk.broker.end(desk.names.of("events"), 0) == end


class Busy(MemoryLineSink):
    """While records are sent again, the session goes on."""

    def __init__(self, desk: Desk, lines: list[bytes]) -> None:
        super().__init__(desk.broker, desk.names)
        self.lines = lines

    def send(self, record: OutRecord) -> None:
        if self.lines:
            super().send(OutRecord("events", 0, record.key, self.lines.pop(0), []))
        super().send(record)


def test_lines_that_come_meanwhile_are_folded_in_their_place() -> None:
    desk = Desk()
    desk.feed(S, *LINES[:5], b"{", *LINES[6:15])
    desk.work()
    outcome = desk.replay(Decision(fix=LINES[5]), Busy(desk, LINES[15:]))
    assert outcome.parked is None
    assert outcome.rounds == 1, "no need to wait for the workers in between"
    assert desk.overview(S) == clean()


def test_without_a_worker_it_says_so_and_a_worker_finishes_it() -> None:
    desk = parked_at(10, b"{")
    desk.workers = False
    with pytest.raises(Retriable, match="no worker has folded beyond sessions"):
        desk.replay(Decision(fix=LINES[10]))
    desk.work()
    assert desk.overview(S) == clean()


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        (Decision(fix=b"{"), "refused as well: not-json"),
        (Decision(fix=LINES[11]), "has seq 10, but seq 9 is to be replaced"),
        (Decision(fix=LINES[0]), "a log header"),
        (Decision(fix=bad_marker(LINES[10])), "refused as well: surfaceop-"),
    ],
)
def test_a_line_that_does_not_fit_is_not_sent(decision: Decision, says: str) -> None:
    desk = parked_at(10, bad_marker(LINES[10]))
    end = desk.broker.end(desk.names.of("events"), 0)
    with pytest.raises(Fatal, match=says):
        desk.replay(decision)
    assert desk.broker.end(desk.names.of("events"), 0) == end


def test_a_gap_has_no_line_to_replace() -> None:
    with pytest.raises(Fatal, match="seqs 9 to 9 are missing before it"):
        parked_at(10).replay(Decision(fix=LINES[11]))


def test_a_worker_that_is_not_strict_any_more_folds_on() -> None:
    desk = parked_at(10, bad_marker(LINES[10]))
    desk.strict = "none"
    outcome = desk.replay()
    assert outcome.parked is None
    assert desk.overview(S).quality == {"fault": 1}


def test_a_new_epoch_is_not_parked() -> None:
    desk = parked_at(10, b"{")
    for line in LINES:
        desk.sink.send(OutRecord("events", 0, S.encode(), line, [("epoch", b"1")]))
    desk.work()
    assert (desk.overview(S).state, desk.overview(S).epoch) == (clean().state, 1)
    assert desk.replay().sent == 0


def test_a_session_without_dead_letters_or_state_is_named() -> None:
    desk = parked_at(10, b"{")
    with parked.find(desk.reader, desk.names, "nobody") as known:
        assert known is None
    with pytest.raises(Fatal, match="has no dead letters"):
        parked.require_state(None, "nobody", desk.names)
    foreign = Names("sessions.", "another")
    desk.broker.create(foreign.of("state"), 1)
    with (
        parked.find(desk.reader, foreign, S) as known,
        pytest.raises(Fatal, match="application another holds no state"),
    ):
        parked.require_state(known, S, foreign)


class Halved(MemoryReader):
    """Ends of the state topic fall into the middle of a transaction at first."""

    halved = True

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        first, end = super().bounds(topic, partition)
        if topic.endswith(".state") and self.halved:
            self.halved = False
            return first, end - 2  # without the transaction's marker and the head
        return first, end


def test_a_state_that_is_being_written_is_looked_at_again() -> None:
    desk = Desk()
    long = simulate(5, events=5000, features=())
    desk.feed(long.id, *long.lines, b"{")
    desk.strict = "*"
    desk.work()
    reader = Halved(desk.broker)
    states = parked.StateReader(reader, desk.names, long.id, 0)
    state = states.look()
    assert state is not None
    assert state.parked is not None
    assert not reader.halved


def test_a_state_that_cannot_be_read_is_said() -> None:
    desk = parked_at(10, b"{")
    desk.broker.append(desk.names.of("state"), 0, S.encode(), b'{"version":99}')
    with pytest.raises(Fatal, match="is version 99, this program reads up to 3"), desk.found():
        pass


def test_a_value_too_large_for_its_letter_is_read_from_the_events() -> None:
    desk = parked_at(10, b"{")
    letter = desk.letters()[3]
    cut = as_received(changed(letter, value=None))
    assert whole(cut, desk.reader).value == letter.value


def test_foreseen_is_what_happens() -> None:
    desk = Desk()
    desk.feed(S, *LINES[:10], b"{", *LINES[11:15], b"[", *LINES[16:])
    desk.work()
    with desk.found() as known:
        assert known.state is not None
        plan = planned(known, Decision(fix=LINES[10]), desk.reader, known.in_order())
        seen = parked.foresee(known.state, known.at, plan)
    assert (seen.count, seen.next_seq, seen.parked) == (6, 14, True)
    assert seen.stop is not None
    assert (seen.stop.first, seen.stop.reason) == (15, "not-avro")
    assert known.at == Place("sessions.events", 0, len(LINES))


def test_a_batch_that_only_puts_aside_is_remembered() -> None:
    partition = Partition()
    partition.feed(S, [*LINES[:5], b"{"])
    partition.fold()
    sent = partition.plan(S, Decision(fix=LINES[5]))
    partition.feed(S, [LINES[6]])
    partition.fold()
    partition.sends(sent)
    partition.fold()
    held = partition.state(S).parked
    assert held is not None
    assert (held.at, held.tail) == (None, 6)
