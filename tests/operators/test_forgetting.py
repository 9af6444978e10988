"""What an ended turn leaves, and what comes late for it: projection.md §5.7."""

import pytest

from tests.operators.build import tell
from tests.operators.records import (
    Json,
    attempt,
    call,
    delta,
    retry,
    say,
    spent,
    step_end,
    step_start,
    streamed,
    turn_end,
    turn_start,
    usage_chunk,
)

OPEN = (turn_start(), step_start())  # the next seq is 2
TEXT = {"type": "text-delta", "index": 0, "text": "y"}
CLOSED = (turn_start(), step_start(), say("x"), step_end(), turn_end())  # the next seq is 5


@pytest.mark.parametrize("late", [delta("y"), usage_chunk(3), attempt(streamed(TEXT))])
def test_a_chunk_or_attempt_for_a_closed_turn_changes_nothing(late: Json) -> None:
    told = tell(*CLOSED, late)
    assert (told.keys(), told.overview.usage.output) == (["assistant:2", "turn:4"], 0)
    assert (len(told.state.steps.table), told.state.turns.records) == (0, {})


def test_a_late_message_makes_a_settled_row_without_step_start() -> None:
    stream = [streamed({"type": "text-delta", "index": 0, "text": "x"}, 7)]
    told = tell(*CLOSED, say("late", usage=spent(3), stream=stream))
    data = told.data("assistant:5")
    assert (data.status, data.step_start_time, data.first_token_time) == ("settled", None, 7)
    assert told.overview.usage.output == 3
    assert tell(*CLOSED, say("late")).data("assistant:5").first_token_time is None


def test_what_comes_late_stays_until_that_number_ends_again() -> None:
    assert len(tell(*CLOSED, say("late")).state.turns.records) == 1
    told = tell(*CLOSED, say("late"), turn_end())
    assert (told.state.turns.records, len(told.state.steps.table)) == ({}, 0)
    assert told.data("turn:6").closing_seq == 5


def test_a_turn_start_of_a_closed_number_opens_it_again() -> None:
    told = tell(*CLOSED, turn_start(), step_start(), delta("y"))
    assert told.data("assistant:7").status == "running"
    assert (told.overview.open_turn, told.overview.state) == (1, "running")


def test_in_a_number_that_opened_again_nothing_is_late() -> None:
    told = tell(*CLOSED, turn_start(), delta("y"), call(), retry())
    assert not told.has("assistant:6")  # the retry discarded what was streaming
    assert told.data("tool:7").status == "running"
    assert told.data("retry:8").status == "scheduled"
    assert tell(*CLOSED, turn_start(), delta("y")).data("assistant:6").status == "running"


def test_a_step_start_in_a_closed_turn_opens_that_step_alone() -> None:
    told = tell(*CLOSED, step_start(), delta("y"), delta("z", step=2))
    assert told.data("assistant:6").status == "running"
    assert len(told.rows) == 3
    assert told.overview.open_turn is None


def test_a_turn_number_opened_again_adds_usage_anew() -> None:
    again = (turn_start(), say("y", usage=spent(2)), turn_end())
    told = tell(*OPEN, say("x", usage=spent(3)), turn_end(), *again)
    assert told.overview.usage.output == 5
    assert told.data("turn:6").usage.output == 2
