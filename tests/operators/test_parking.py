"""What parks a session, what is taken while it is parked, and when it goes on: streams.md §2."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operators.events import Line
from operators.parking import Mark, take
from operators.session import Out, Session, enter_epoch
from schemas.inbound import read_line
from tests.operators.records import Json, packed, record, turn_start, user

HEADER = read_line(b'{"type":"session","version":4,"id":"s-1","cwd":"/w"}')
UNREADABLE = read_line(b"{")


def event(seq: int, words: str = "hello", **more: Any) -> Line:
    made: Json = {"seq": seq, "time": seq, **user(words), **more}
    return read_line(json.dumps(made).encode())


def other(made: Json, seq: int) -> Line:
    return read_line(json.dumps({"seq": seq, "time": seq, **made}).encode())


BAD: dict[str, Any] = {"surfaceOp": 7}
REQUIRED = record("future/thing", {})


class Log:
    """A strict session and what was refused of it."""

    def __init__(self, *lines: Line) -> None:
        self.session = Session("s-1")
        self.session.park_at_faults(True)
        self.refused: list[tuple[str, int | None]] = []
        self.quiet = True
        self.at = 0
        self.live(*lines)

    def _take(self, line: Line, mark: Mark) -> None:
        out = Out()
        take(self.session, line, mark, out)
        self.refused += [(refused.reason, refused.seq) for refused in out.refused]
        self.quiet = not (out.changed or out.kept or out.refused)

    def live(self, *lines: Line) -> None:
        for line in lines:
            self._take(line, Mark(self.at))
            self.at += 1

    def again(self, line: Line, at: int, *, skip: bool = False, through: int = -1) -> None:
        self._take(line, Mark(at, True, skip, through))

    @property
    def state(self) -> str:
        return self.session.overview().state

    @property
    def next_seq(self) -> int:
        return self.session.next_seq


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (UNREADABLE, ("not-json", None)),
        (event(1, **BAD), ("surfaceop-invalid", 1)),
        (event(2), ("seq-not-contiguous", 2)),
        (event(3, **BAD), ("seq-not-contiguous", 3)),
        (other(REQUIRED, 1), ("unknown-required-event", 1)),
    ],
)
def test_any_fault_or_gap_parks_and_what_follows_waits(
    bad: Line, reason: tuple[str, int | None]
) -> None:
    log = Log(event(0), bad, event(1), event(2))
    assert log.refused == [reason, ("parked", 1), ("parked", 2)]
    assert (log.state, log.next_seq) == ("parked", 1)
    assert log.session.overview().quality == {}


def test_a_first_line_that_is_not_the_first_parks() -> None:
    log = Log(event(3))
    assert (log.refused, log.state) == ([("seq-not-contiguous", 3)], "parked")
    log.again(event(3), 0, skip=True, through=0)
    assert (log.state, log.next_seq) == ("idle", 4)
    log.live(event(1))
    assert log.refused[1:] == [("late", 1)]
    log.again(event(1), 1, skip=True, through=1)
    assert (log.state, log.session.overview().quality) == ("idle", {"fault": 1})


def test_a_redelivery_is_silent_parked_or_not() -> None:
    log = Log(HEADER, event(0), event(0), HEADER)
    assert (log.refused, log.quiet) == ([], True)
    log.live(UNREADABLE, event(0))
    assert log.quiet
    log.live(HEADER)
    assert (log.refused, log.quiet) == ([("not-json", None)], True)


def test_a_packed_row_that_overlaps_goes_on() -> None:
    log = Log(other(turn_start(), 0))
    for words in (("a", "b"), ("a", "b", "c")):
        made = {"seq0": 1, "time0": 1, **packed(*words)}
        log.live(read_line(json.dumps(made).encode()))
    assert (log.refused, log.next_seq) == ([], 4)


def test_another_line_of_a_seq_that_was_taken_counts_and_parks_nothing() -> None:
    log = Log(event(0), event(0, "other"), UNREADABLE, event(0, "third"))
    assert log.refused == [("not-json", None)]
    assert log.session.overview().quality == {"seq_conflict": 2}
    log.again(event(0, "third"), 3)
    assert log.session.overview().quality == {"seq_conflict": 2}


def test_it_goes_on_once_the_replay_reached_the_last_that_was_put_aside() -> None:
    log = Log(event(0), event(1, **BAD), event(2))
    log.again(event(1), 1)
    log.live(event(3))
    log.again(event(2), 2, through=2)
    assert (log.state, log.next_seq) == ("parked", 3)
    log.live(event(4))
    log.again(event(3), 3, through=3)
    assert log.state == "parked"
    log.again(event(4), 4, through=4)
    assert (log.state, log.next_seq) == ("idle", 5)


def test_nothing_behind_what_stands_in_the_way_is_taken() -> None:
    log = Log(event(0), UNREADABLE, event(1), event(2))
    for _ in range(2):
        log.again(UNREADABLE, 1)
        log.again(event(1), 2)
        log.again(event(2), 3, through=3)
        assert (log.state, log.next_seq) == ("parked", 1)
    log.again(UNREADABLE, 1, skip=True)
    log.again(event(1), 2)
    log.again(event(2), 3, through=3)
    assert (log.state, log.next_seq) == ("idle", 3)


def test_what_was_missing_is_taken_before_the_line_that_missed_it() -> None:
    log = Log(event(0), event(3), event(1), event(2))
    log.again(event(1), 2)
    log.again(event(2), 3)
    log.again(event(3), 1, through=3)
    assert (log.state, log.next_seq, log.session.overview().quality) == ("idle", 4, {})


def test_a_second_fault_is_a_letter_of_its_own_reason() -> None:
    log = Log(event(0), event(1, **BAD), event(2, **BAD))
    log.again(event(1), 1)
    log.again(event(2, **BAD), 2, through=2)
    assert log.refused[2:] == [("surfaceop-invalid", 2)]
    assert log.session.parked is not None
    assert (log.session.parked.since, log.session.parked.at) == (1, 2)


def test_what_is_given_up_takes_its_seq_and_is_given_up_once() -> None:
    log = Log(event(0), event(1, **BAD), event(2))
    for _ in range(2):
        log.again(event(1, **BAD), 1, skip=True)
        log.again(event(2), 2, through=2)
    assert (log.state, log.next_seq) == ("idle", 3)
    assert log.session.overview().quality == {"fault": 1}
    assert log.session.overview().counts == {"user": 2}
    assert log.refused == [("surfaceop-invalid", 1), ("parked", 2)]


def test_a_line_that_misses_others_and_is_bad_itself_parks_twice() -> None:
    log = Log(event(0), event(2, **BAD))
    log.again(event(2, **BAD), 1, skip=True, through=1)
    assert log.refused == [("seq-not-contiguous", 2), ("surfaceop-invalid", 2)]
    assert (log.state, log.next_seq) == ("parked", 2)
    log.again(event(2, **BAD), 1, skip=True, through=1)
    assert (log.state, log.next_seq) == ("idle", 3)
    assert log.session.overview().quality == {"fault": 1, "gap": 1}


def test_a_refused_line_leaves_the_digests_as_they_were() -> None:
    log = Log(*(event(seq) for seq in range(70)), event(70, **BAD))
    log.live(event(6, "other"))
    assert log.session.overview().quality == {"seq_conflict": 1}


def test_a_new_epoch_begins_strictly_and_unparked() -> None:
    log = Log(event(0), UNREADABLE)
    entered = enter_epoch(log.session, 1, Out())
    assert entered is not None
    assert (entered.parked, entered.parks, entered.strict) == (None, True, True)


def test_a_session_that_is_not_strict_any_more_is_folded_on_by_a_replay() -> None:
    log = Log(event(0), event(1, **BAD), event(2))
    log.session.park_at_faults(False)
    log.live(event(3))
    assert log.refused[-1] == ("parked", 3)
    log.again(event(1, **BAD), 1)
    log.again(event(2), 2)
    log.again(event(3), 3, through=3)
    assert (log.state, log.next_seq) == ("idle", 4)
