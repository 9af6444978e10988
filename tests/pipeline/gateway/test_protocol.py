from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway import protocol
from pipeline.gateway.cursor import Position, to_text
from pipeline.gateway.frames import Append, Current, Frame, Problem, Replay, Row, Snapshot
from pipeline.gateway.protocol import (
    EVERYTHING,
    MAX_MESSAGE,
    MAX_SESSIONS,
    Answered,
    Pong,
    Subscribe,
    Unsubscribe,
    answer,
    check,
    reaches,
    read_message,
)
from tests.pipeline.gateway.live import OFFSETS, FixedCut, at, overview, row, text


def told(cut: Any, cursor: Position | None, session: str = "s") -> tuple[Frame, ...]:
    found = answer(cut, session, "transcript", cursor)
    assert isinstance(found, Answered)
    return found.frames


# --- the three answers


def test_nothing_was_missed() -> None:
    assert told(FixedCut([]), at()) == (Current("s", 0),)


def test_corpus_15_exactly_what_was_missed_follows_in_the_order_of_its_events() -> None:
    missed = [overview(7), text("more", 2, 6), row("assistant:1", 5), row("user:1", 3)]
    frames = told(FixedCut(missed), at())
    assert frames[0] == Replay("s", 0, 4)
    revs = [frame.rev for frame in frames[1:4] if isinstance(frame, Row | Append)]
    assert revs == [3, 5, 6]


def test_a_cursor_is_exclusive_and_of_the_places_of_the_view() -> None:
    cut = FixedCut([])
    told(cut, at())
    since = {place: 10 for place in OFFSETS if place[0] != "surface"}
    assert cut.asked == [("s", "transcript", since, protocol.REPLAY_FRAMES)]


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        (None, "new"),
        (at(epochs={"other": 0}), "new"),
        (at({("surface", 0): 10}), "new"),
        (at(log="other"), "log"),
    ],
)
def test_what_cannot_be_resumed_is_a_snapshot_with_the_reason(
    cursor: Position | None, reason: str
) -> None:
    (frame,) = told(FixedCut([]), cursor)
    assert isinstance(frame, Snapshot)
    assert (frame.reason, frame.has_more, len(frame.rows or ())) == (reason, True, 1)


def test_corpus_17_a_session_begun_anew_is_a_snapshot_of_its_epoch() -> None:
    (frame,) = told(FixedCut([], epoch=3), at(epochs={"s": 2}))
    assert isinstance(frame, Snapshot)
    assert (frame.reason, frame.epoch) == ("epoch", 3)


def test_a_cursor_of_a_later_epoch_is_of_a_gateway_that_is_ahead() -> None:
    assert told(FixedCut([], epoch=1), at(epochs={"s": 2})) == (Current("s", 1),)


def test_more_than_is_worth_a_replay_is_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    (frame,) = told(FixedCut(None), at())
    assert isinstance(frame, Snapshot)
    assert frame.reason == "too-much"
    monkeypatch.setattr(protocol, "REPLAY_BYTES", 10)
    (frame,) = told(FixedCut([row()]), at())
    assert isinstance(frame, Snapshot)


def test_a_cursor_from_the_future_is_a_problem_with_a_remedy() -> None:
    beyond = at(dict.fromkeys(OFFSETS, 12))
    problem = answer(FixedCut([]), "s", "transcript", beyond)
    assert isinstance(problem, Problem)
    assert problem.code == "future"
    assert "leave it out" in problem.message


def test_a_cursor_ahead_of_this_gateway_alone_is_none() -> None:
    ends = dict.fromkeys(OFFSETS, 12)
    assert told(FixedCut([], ends=ends), at(ends)) == (Current("s", 0),)


def test_a_session_that_is_not_there_is_a_problem() -> None:
    problem = answer(FixedCut([]), "x", "transcript", None)
    assert problem == Problem("unknown-session", "there is no such session", "x")


def test_all_sessions_are_answered_by_the_offsets_alone() -> None:
    found = answer(FixedCut([]), EVERYTHING, "overview", at({("overview", 0): 10}, epochs={}))
    assert isinstance(found, Answered)
    assert found.frames == (Current("", 0),)
    fresh = answer(FixedCut([]), EVERYTHING, "overview", None)
    assert isinstance(fresh, Answered)
    assert isinstance(fresh.frames[0], Snapshot)
    assert fresh.frames[0].overviews == ()


def test_a_gateway_that_is_behind_a_cursor_does_not_reach_it() -> None:
    assert reaches(OFFSETS, at())
    assert not reaches({**OFFSETS, ("partials", 0): 9}, at())
    assert not reaches({}, at())


# --- messages


def test_messages_are_read() -> None:
    cursor = to_text(at())
    asked = {"op": "subscribe", "id": "a", "view": "surface", "sessions": ["s"], "gen": 3}
    assert read_message(json.dumps({**asked, "cursor": cursor})) == Subscribe(
        "surface", ("s",), cursor, "a", 3
    )
    assert read_message('{"op":"unsubscribe","id":"a"}') == Unsubscribe("a")
    assert read_message('{"op":"pong"}') == Pong()
    assert read_message('{"op":"subscribe","view":"overview"}') == Subscribe("overview")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "message"),
        ("[" * 9_000, "message"),
        ('{"op":"shout"}', "message"),
        ('{"op":"subscribe","sessions":["s"],"more":1}', "message"),
        ('{"op":"subscribe","view":"all","sessions":["s"]}', "message"),
        ('{"op":"subscribe","sessions":["s"],"gen":-1}', "message"),
        (json.dumps({"op": "subscribe", "sessions": ["s"] * (MAX_SESSIONS + 1)}), "message"),
        (json.dumps({"op": "subscribe", "sessions": ["s" * MAX_MESSAGE]}), "too-large"),
        ('{"op":"subscribe"}', "sessions"),
        ('{"op":"subscribe","sessions":["s",""]}', "sessions"),
        ('{"op":"subscribe","sessions":["s"],"cursor":"nonsense"}', "cursor"),
        (b"\xff\xfe", "message"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(message: str | bytes, code: str) -> None:
    found = read_message(message)
    assert isinstance(found, Problem)
    assert found.code == code


@given(st.text() | st.binary())
def test_no_message_raises(message: str | bytes) -> None:
    assert read_message(message) is not None


def test_a_subscription_that_is_well_formed_has_no_problem() -> None:
    assert check(Subscribe(sessions=("s",), cursor=to_text(at()))) is None
