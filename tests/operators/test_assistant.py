"""Assistant rows: blocks, first token, freezing, publishing: projection.md §5.1."""

from typing import Any

import pytest

from tests.operators.build import Told, json_of, published, rows_in, tell
from tests.operators.records import (
    announced,
    attempt,
    block_end,
    block_start,
    call_delta,
    delta,
    packed,
    replacing,
    retry,
    say,
    spent,
    step_end,
    step_start,
    streamed,
    text,
    turn_end,
    turn_start,
    usage_chunk,
)

OPEN = (turn_start(), step_start())  # the next seq is 2
ROW = "assistant:2"


def blocks(told: Told, key: str = ROW) -> Any:
    return json_of(told.data(key).blocks)


# --- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([block_start()], [text("")]),
        ([delta("a"), delta("b")], [text("ab")]),
        ([delta("b", 1), delta("a", 0)], [text("a"), text("b")]),
        ([delta("a", kind="reasoning")], [{"type": "reasoning", "text": "a"}]),
        ([delta("a"), block_start()], [text("")]),
        ([delta("a"), block_end(text("final"))], [text("final")]),
        ([block_start("image")], [{"type": "image"}]),
        (
            [call_delta("{", id_="a", name="x"), call_delta("}", id_="b", name="y")],
            [{"type": "tool-call", "id": "a", "name": "y", "arguments": "{}"}],
        ),
        ([call_delta(id_="a")], [{"type": "tool-call", "id": "a", "name": None, "arguments": ""}]),
        ([delta("a"), delta("b", kind="reasoning")], [{"type": "reasoning", "text": "b"}]),
        ([packed("a", "b", "c")], [text("abc")]),
    ],
)
def test_blocks_accumulate_by_index(
    chunks: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    told = tell(*OPEN, *chunks)
    assert blocks(told) == expected
    assert told.data(ROW).status == "running"


def test_the_final_message_replaces_all_blocks() -> None:
    told = tell(*OPEN, delta("draft"), usage_chunk(3), say("final", usage=spent(5), calls=("a",)))
    row = told.row(ROW)
    assert blocks(told) == [text("final"), announced("a")]
    assert (row.anchor_seq, row.anchor_rank, row.time, row.rev) == (4, 0, 40, 4)
    data: Any = row.data
    assert (data.status, data.message_id, data.provider, data.model) == ("settled", "a", "p", "m")
    assert (data.step_start_time, data.first_token_time, data.completed_time) == (10, 20, 40)


def test_a_settled_rows_usage_is_its_messages() -> None:
    stream = [streamed({"type": "usage", "usage": spent(7)})]
    assert json_of(tell(*OPEN, say("x", usage=spent(5))).data(ROW).usage) == spent(5)
    assert json_of(tell(*OPEN, say("x", stream=stream)).data(ROW).usage) == spent(7)
    assert tell(*OPEN, usage_chunk(3), say("x")).data("assistant:3").usage is None


# --- when there is a row, and where ---------------------------------------------------------------


def test_no_row_before_the_first_block() -> None:
    assert tell(*OPEN, usage_chunk(3)).keys() == []


@pytest.mark.parametrize(
    ("chunks", "anchor", "is_visible"),
    [
        ([block_start()], 2, False),
        ([delta("\ufeff "), delta("x")], 3, True),
        ([delta("\x1f")], 2, True),
        ([delta("\x85")], 2, True),
        ([call_delta("{}", name="read")], 2, False),
        ([usage_chunk(1), block_start()], 2, False),
        ([block_start(), block_start("image", 1)], 3, True),
        ([delta(" "), block_end(text("x"))], 3, True),
        ([delta("x"), block_end(text(" "))], 2, False),
        ([delta("x"), block_start()], 2, False),
        ([delta("x"), delta(" ", kind="reasoning")], 2, False),
        ([delta("x"), delta("y", 1), block_end(text(" "))], 2, True),
        ([packed(" ", "x")], 3, True),
    ],
)
def test_a_running_row_stands_at_its_first_visible_chunk_else_its_first(
    chunks: list[dict[str, Any]], anchor: int, is_visible: bool
) -> None:
    told = tell(*OPEN, *chunks)
    (key,) = told.keys()
    assert (told.at(key), told.visible(key)) == ((anchor, 0), is_visible)
    assert told.row(key).time == (anchor * 10 if chunks[0]["type"] != "text-chunks" else 21)


@pytest.mark.parametrize(
    ("message", "is_visible"),
    [
        (say("hi"), True),
        (say(""), False),
        (say(" \ufeff"), False),
        (say("", calls=("a",)), False),
        (say("", {"type": "reasoning", "text": "x"}), True),
        (say("", {"type": "image"}), True),
        (say("", interrupted=True), True),
    ],
)
def test_a_step_without_visible_content_is_auxiliary(
    message: dict[str, Any], is_visible: bool
) -> None:
    told = tell(*OPEN, message)
    assert told.visible(ROW) is is_visible
    assert told.counts.get("assistant", 0) == is_visible


def test_an_interrupted_message_keeps_its_own_seq() -> None:
    told = tell(*OPEN, say("par", interrupted=True), step_end(), turn_end())
    assert (told.at(ROW), told.data(ROW).status) == ((2, 0), "interrupted")


@pytest.mark.parametrize("boundary", [step_end(), turn_end()])
@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        ([delta("x")], "interrupted"),
        ([call_delta(id_="a")], "interrupted"),
        ([delta(" ")], None),
        ([block_start("image")], None),
    ],
)
def test_what_a_boundary_freezes(
    chunks: list[dict[str, Any]], status: str | None, boundary: dict[str, Any]
) -> None:
    told = tell(*OPEN, *chunks, boundary)
    if status is None:
        assert not told.has(ROW)
        return
    row = told.row(ROW)
    assert (row.anchor_seq, row.anchor_rank, row.time, row.rev) == (3, -90, 30, 3)
    data: Any = row.data
    assert (data.status, data.completed_time) == (status, None)
    assert told.visible(ROW)


def test_a_removed_row_is_published_once_as_it_stood() -> None:
    *_, removal, closing = published(*OPEN, delta(" "), step_end(), turn_end())
    (row,) = rows_in(removal)
    assert (row.deleted, row.data, row.rev, row.visibility) == (True, None, 3, "auxiliary")
    assert (row.anchor_seq, row.turn, row.step, row.time) == (2, 1, 1, 20)
    assert [row.kind for row in rows_in(closing)] == ["turn"]


# --- first token ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "time"),
    [
        ([block_start(), delta(""), delta("x")], 40),
        ([delta(" ")], 20),
        ([call_delta(""), call_delta("{")], 30),
        ([call_delta("", name="")], 20),
        ([block_end(text("x"))], None),
        ([usage_chunk(4)], None),
        ([packed("", "x")], 21),
    ],
)
def test_first_token(chunks: list[dict[str, Any]], time: int | None) -> None:
    told = tell(*OPEN, *chunks, say("done"))
    (key,) = told.keys()
    assert told.data(key).first_token_time == time


def test_a_retry_discards_the_blocks_and_keeps_the_first_token() -> None:
    told = tell(*OPEN, delta("one"), retry(), delta("two"), say("end"))
    assert told.keys() == ["retry:3", "assistant:4"]
    assert told.data("assistant:4").first_token_time == 20


def test_a_message_streams_its_own_first_token() -> None:
    stream = [streamed({"type": "text-delta", "index": 0, "text": "x"}, time=15)]
    assert tell(*OPEN, say("x", stream=stream)).data(ROW).first_token_time == 15
    assert tell(*OPEN, delta("x"), say("x", stream=stream)).data(ROW).first_token_time == 20


def test_a_new_step_start_of_the_same_numbers_starts_afresh() -> None:
    told = tell(*OPEN, delta("one"), step_start(), delta("two"), say("two"))
    assert told.data(ROW).status == "interrupted"
    assert told.at(ROW) == (3, -90)
    data = told.data("assistant:4")
    assert (data.status, data.step_start_time, data.first_token_time) == ("settled", 30, 40)


TEXT = {"type": "text-delta", "index": 0, "text": "hi"}

# --- after the end --------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [delta("late"), usage_chunk(9), attempt(streamed(TEXT))])
@pytest.mark.parametrize("end", [say("final"), step_end()])
def test_late_chunks_change_no_row(late: dict[str, Any], end: dict[str, Any]) -> None:
    assert rows_in(published(*OPEN, delta("x"), end, late)[-1]) == []


def test_a_second_message_of_a_step_has_its_own_row() -> None:
    told = tell(*OPEN, delta("x"), say("one"), say("two"))
    assert told.keys() == ["assistant:2", "assistant:4"]
    assert (told.at("assistant:2"), told.at("assistant:4")) == ((3, 0), (4, 0))
    assert told.counts["assistant"] == 2


def test_a_message_after_its_step_closed_settles_the_frozen_row() -> None:
    told = tell(*OPEN, delta("x"), step_end(), say("final"))
    assert (told.keys(), told.at(ROW), told.data(ROW).status) == ([ROW], (4, 0), "settled")
    assert told.counts["assistant"] == 1


def test_a_replacement_copy_changes_no_row() -> None:
    lines = published(*OPEN, say("one"), replacing(say("copy"), 2, 2))
    assert rows_in(lines[-1]) == []
    running = published(*OPEN, say("one", step=2), delta("x"), replacing(say("copy"), 2, 2))
    assert rows_in(running[-1]) == []
