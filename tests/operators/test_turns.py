"""Turn rows, outcomes, and what is forgotten: projection.md §5.6, §5.7."""

from typing import Any

import pytest

from operators.changes import UsageData
from operators.turns import Turns
from tests.operators.build import json_of, published, rows_in, tell
from tests.operators.records import (
    Json,
    attempt,
    call,
    call_delta,
    delta,
    replacing,
    result,
    retry,
    retry_started,
    say,
    spent,
    step_end,
    step_start,
    streamed,
    turn_end,
    turn_start,
    usage_chunk,
    user,
)

OPEN = (turn_start(), step_start())  # the next seq is 2


def turn(*records: Json) -> Any:
    """The data of the last turn row."""
    told = tell(*records)
    return next(row.data for row in reversed(told.rows.values()) if row.kind == "turn")


# --- the turn row ---------------------------------------------------------------------------------


def test_the_turn_row_stands_after_its_end() -> None:
    told = tell(*OPEN, say("hi"), step_end(), turn_end())
    row = told.row("turn:4")
    assert (row.anchor_seq, row.anchor_rank, row.visibility) == (4, 10, "auxiliary")
    assert (row.turn, row.step, row.time, row.rev) == (1, None, 40, 4)
    data: Any = row.data
    assert (data.reason, json_of(data.reason_detail)) == ("completed", {"kind": "completed"})
    assert (data.steps, data.tool_calls, data.tool_errors, data.usage) == (1, 0, 0, None)
    assert (data.start_time, data.end_time, data.closing_seq) == (0, 40, 2)


def test_no_row_before_the_end() -> None:
    assert tell(*OPEN).keys() == []


@pytest.mark.parametrize(
    ("end", "reason", "detail"),
    [
        (turn_end(reason=None), None, None),
        (turn_end(reason={"kind": "blocked"}), "blocked", {"kind": "blocked"}),
        (turn_end(reason={"x": 1}), None, {"x": 1}),
        (turn_end(reason=["x"]), None, ["x"]),
    ],
)
def test_reasons_pass_through(end: Json, reason: str | None, detail: Any) -> None:
    data = turn(turn_start(), end)
    assert (data.reason, json_of(data.reason_detail)) == (reason, detail)


def test_tools_and_errors_are_its_own() -> None:
    log = (*OPEN, call("a"), call("b"), call("c"), result("a"), result("b", failed=True))
    data = turn(*log, replacing(result("b", words="x", failed=True), 6, 6), step_end(), turn_end())
    assert (data.steps, data.tool_calls, data.tool_errors) == (1, 3, 1)


def test_usage_is_the_last_sample_of_each_attempt() -> None:
    steps = (usage_chunk(1), usage_chunk(2), say("x", usage=spent(3)), step_end())
    data = turn(*OPEN, *steps, step_start(2), say("y", step=2, usage=spent(4)), turn_end())
    assert data.usage == UsageData(uncached_input=20, output=7)


@pytest.mark.parametrize(
    ("attempts", "output"),
    [
        ((usage_chunk(1), retry(), usage_chunk(2)), 3),
        ((usage_chunk(1), retry(), retry_started(), usage_chunk(2)), 3),
        ((usage_chunk(1), retry_started(), usage_chunk(2)), 3),
        ((usage_chunk(1), retry(), say("x", usage=spent(5))), 6),
        ((say("x", usage=spent(5)), say("y", usage=spent(6))), 6),
        ((usage_chunk(1), step_start(), usage_chunk(2)), 2),
    ],
)
def test_failed_attempts_count_too(attempts: tuple[Json, ...], output: int) -> None:
    assert turn(*OPEN, *attempts, turn_end()).usage.output == output


def test_an_attempts_own_record_belongs_to_the_attempt_that_ended() -> None:
    def sample(output: int) -> Json:
        return attempt(streamed({"type": "usage", "usage": spent(output)}))

    log = (*OPEN, retry(), sample(1), retry_started(), say("x", usage=spent(5)), turn_end())
    assert turn(*log).usage.output == 6
    log = (*OPEN, sample(1), retry(), retry_started(), say("x", usage=spent(5)), turn_end())
    assert turn(*log).usage.output == 6


def test_replacement_copies_count_never() -> None:
    copy = replacing(say("y", usage=spent(9)), 2, 2)
    assert turn(*OPEN, say("x", usage=spent(5)), copy, turn_end()).usage.output == 5


# --- times ----------------------------------------------------------------------------------------


def test_time_to_first_token_is_the_first_steps() -> None:
    log = (*OPEN, delta("x"), say("x"), step_end(), step_start(2), delta("y", step=2))
    assert turn(*log, say("y", step=2), turn_end()).ttft_ms == 10


@pytest.mark.parametrize(
    "log",
    [
        (*OPEN, delta("x"), step_end()),
        (*OPEN, say("x"), step_end()),
        (turn_start(), delta("x"), say("x")),
        (*OPEN, step_end(), step_start(2), delta("x", step=2), say("x", step=2)),
        (step_start(), delta("x"), say("x")),
    ],
    ids=["no message", "no token", "no step start", "another step's", "no turn start"],
)
def test_else_it_is_null(log: tuple[Json, ...]) -> None:
    assert turn(*log, turn_end()).ttft_ms is None


def test_decode_figures_sum_over_steps_that_have_both() -> None:
    first = (delta("x"), say("x", usage=spent(4)), step_end(), step_start(2))
    second = (say("y", step=2, usage=spent(9)), step_end(2), step_start(3), delta("z", step=3))
    data = turn(*OPEN, *first, *second, say("z", step=3, usage=spent(1)), turn_end())
    assert (data.decode_ms, data.decode_tokens) == (20, 5)
    data = turn(*OPEN, delta("x"), say("x"), turn_end())
    assert (data.decode_ms, data.decode_tokens) == (None, None)


def test_each_difference_is_clamped() -> None:
    back = say("x", usage=spent(4), time=5)
    data = turn(turn_start(), step_start(time=50), delta("x", time=20), back, turn_end())
    assert (data.ttft_ms, data.decode_ms, data.decode_tokens) == (0, 0, 4)


def test_the_second_message_of_a_step_adds_nothing() -> None:
    data = turn(*OPEN, delta("x"), *(say("x", usage=spent(4)) for _ in "ab"), turn_end())
    assert (data.decode_ms, data.decode_tokens) == (10, 4)


# --- closing row, errors, max tokens --------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "closing"),
    [
        ((say("x"), say("", calls=("a",))), 2),
        ((say(" "),), None),
        ((say("", {"type": "reasoning", "text": "x"}),), None),
        ((delta("x"), step_end()), 3),
        ((call_delta("{"), step_end()), None),
        ((say("x", interrupted=True),), 2),
        ((say("x"), step_start(2), delta("y", step=2)), 5),
    ],
)
def test_the_closing_row_is_the_latest_with_text(
    log: tuple[Json, ...], closing: int | None
) -> None:
    assert turn(*OPEN, *log, turn_end()).closing_seq == closing


def test_an_error_has_a_row() -> None:
    failure = {"message": "no", "code": "SERVER"}
    told = tell(turn_start(), turn_end(reason={"kind": "error", "error": failure}))
    assert told.keys() == ["turn-error:1", "turn:1"]
    row = told.row("turn-error:1")
    data: Any = row.data
    assert (told.at("turn-error:1"), row.time, row.turn) == ((1, 0), 10, 1)
    assert (data.message, data.code, data.masked) == ("no", "SERVER", False)


@pytest.mark.parametrize(
    ("reason", "message", "code"),
    [
        ({"error": {"message": "no", "code": "AUTH"}}, None, "AUTH"),
        ({"step": 1, "failure": {"message": "no", "code": "X"}}, "no", "X"),
        ({"step": 1, "message": "no", "code": "X"}, "no", "X"),
        ({"step": 1, "message": "no"}, "no", None),
        ({}, None, None),
    ],
)
def test_errors_of_every_age_read_alike(
    reason: Json, message: str | None, code: str | None
) -> None:
    data = tell(turn_end(reason={"kind": "error"} | reason)).data("turn-error:0")
    assert (data.message, data.code, data.masked) == (message, code, code == "AUTH")


@pytest.mark.parametrize(
    ("log", "at", "time", "closing"),
    [
        ((say("x"), step_end()), (2, 5), 20, 2),
        ((delta("x"), step_end()), (3, -85), 30, 3),
        ((delta("x"),), (3, -85), 30, 3),
        ((), (2, 0), 20, None),
    ],
    ids=["settled", "frozen by its step", "frozen by its turn", "no closing row"],
)
def test_max_tokens_stands_at_the_closing_row(
    log: tuple[Json, ...], at: tuple[int, int], time: int, closing: int | None
) -> None:
    told = tell(*OPEN, *log, turn_end(reason="max-tokens"))
    (key,) = (key for key in told.rows if key.startswith("max-tokens"))
    assert (told.at(key), told.row(key).time) == (at, time)
    assert (told.data(key).closing_seq, told.visible(key)) == (closing, True)


# --- the open turn and step -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "place"),
    [
        ((), (None, None)),
        ((turn_start(),), (1, None)),
        ((turn_start(), step_start(2)), (1, 2)),
        ((turn_start(), step_start(2), step_end(2)), (1, None)),
        ((turn_start(), step_start(2), turn_end()), (None, None)),
        ((turn_start(), step_start(2), turn_start(7)), (7, None)),
    ],
)
def test_rows_without_numbers_stand_in_the_open_turn_and_step(
    log: tuple[Json, ...], place: tuple[int | None, int | None]
) -> None:
    told = tell(*log, user())
    row = told.row(f"user:{len(log)}")
    assert (row.turn, row.step) == place


def test_numbers_that_are_none_are_null() -> None:
    told = tell(turn_start(None), step_start(None))  # type: ignore[arg-type]
    assert (told.quality, told.overview.open_turn) == ({"malformed": 2}, None)
    assert rows_in(published(turn_end(None))[0])[0].turn is None


def test_closed_numbers_are_ranges() -> None:
    turns = Turns()
    for number in (1, 2, 5, 4, 3, 9):
        turns.end(number)
    assert turns.closed == [(1, 5), (9, 9)]
    assert [n for n in range(11) if turns.is_closed(n)] == [1, 2, 3, 4, 5, 9]
