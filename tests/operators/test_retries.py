"""Retry rows: projection.md §5.6."""

from typing import Any

import pytest

from tests.operators.build import json_of, published, rows_in, tell
from tests.operators.records import (
    Json,
    delta,
    record,
    retry,
    retry_started,
    step_end,
    step_start,
    turn_end,
    turn_start,
)

OPEN = (turn_start(), step_start())  # the next seq is 2


def test_a_row_exists_from_the_first_attempt_seen_whatever_its_number() -> None:
    told = tell(*OPEN, retry(3))
    row = told.row("retry:2")
    assert (row.anchor_seq, row.time, row.visibility) == (2, 20, "transcript")
    data: Any = row.data
    assert (data.retry_id, data.provider, data.mode, data.status) == (
        "r",
        "p",
        "normal",
        "scheduled",
    )
    (attempt,) = data.attempts
    assert (attempt.seq, attempt.time, attempt.retry, attempt.delay_ms) == (2, 20, 3, 7)
    assert (attempt.max_retries, json_of(attempt.failure)) == (None, {"code": "X"})


def test_attempts_gather_in_one_row_at_the_first() -> None:
    told = tell(*OPEN, retry(1), retry_started(1), retry(2))
    assert (told.keys(), told.at("retry:2"), told.row("retry:2").rev) == (["retry:2"], (2, 0), 4)
    data = told.data("retry:2")
    assert ([attempt.seq for attempt in data.attempts], data.status) == ([2, 4], "scheduled")
    assert told.counts["retries"] == 2


@pytest.mark.parametrize(
    ("log", "status"),
    [
        ((retry(1), retry_started(1)), "started"),
        ((retry(1), retry_started(2)), "scheduled"),
        ((retry(1), retry(2), retry_started(1)), "scheduled"),
        ((retry(1), retry(2), retry_started(2)), "started"),
        ((retry(1), retry_started(1, id_="q")), "scheduled"),
        ((retry(1), step_end()), "cancelled"),
        ((retry(1), turn_end()), "cancelled"),
        ((retry(1), retry_started(1), step_end()), "started"),
        (
            (record("llm/retry", {"retryId": "r"}), record("llm/retry-started", {"retryId": "r"})),
            "scheduled",
        ),
    ],
)
def test_status_is_the_last_attempts(log: tuple[Json, ...], status: str) -> None:
    assert tell(*OPEN, *log).data("retry:2").status == status


def test_a_start_again_publishes_nothing() -> None:
    assert rows_in(published(*OPEN, retry(), retry_started(), retry_started())[-1]) == []


@pytest.mark.parametrize("id_", [None, ""])
def test_without_an_id_there_is_no_row_but_the_text_is_discarded(id_: str | None) -> None:
    told = tell(*OPEN, delta("x"), retry(id_=id_))
    assert (told.keys(), told.counts["retries"]) == ([], 1)


@pytest.mark.parametrize("boundary", [step_end(), turn_end()])
def test_after_its_boundary_it_is_cancelled_at_once(boundary: Json) -> None:
    told = tell(*OPEN, boundary, retry())
    assert (told.data("retry:3").status, told.row("retry:3").rev) == ("cancelled", 3)


def test_a_closed_turns_retry_leaves_when_its_number_ends_again() -> None:
    told = tell(turn_start(), turn_end(), retry(), turn_end())
    assert (told.data("retry:2").status, len(told.state.retries.table)) == ("cancelled", 0)


def test_an_id_of_a_turn_that_ended_is_a_new_row() -> None:
    told = tell(turn_start(), retry(), turn_end(), turn_start(2), retry(2, turn=2))
    assert [key for key in told.rows if key.startswith("retry")] == ["retry:1", "retry:4"]


def test_a_frozen_row_stays_when_a_retry_comes_late() -> None:
    told = tell(*OPEN, delta("x"), step_end(), retry())
    assert told.data("assistant:2").status == "interrupted"
