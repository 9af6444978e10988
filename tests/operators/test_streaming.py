"""What a step publishes while it streams; attempts that stand for chunks: projection.md §5.1."""

from typing import Any

import pytest
from msgspec.json import encode

from operators.changes import PartialText, SessionOverview
from operators.session import Session, step
from schemas.inbound import read_line
from tests.operators.build import json_of, published, rows_in, tell
from tests.operators.records import (
    attempt,
    block_end,
    block_start,
    call,
    call_delta,
    delta,
    packed,
    retry,
    spent,
    step_end,
    step_start,
    streamed,
    text,
    turn_start,
    usage_chunk,
)

OPEN = (turn_start(), step_start())  # the next seq is 2
ROW = "assistant:2"
TEXT = {"type": "text-delta", "index": 0, "text": "hi"}


# --- attempts -------------------------------------------------------------------------------------


def test_an_attempt_stands_for_its_chunks() -> None:
    stream = [streamed(TEXT, 15), streamed({"type": "usage", "usage": spent(4)})]
    told = tell(*OPEN, attempt(*stream))
    row = told.row(ROW)
    assert (json_of(row.data.blocks), row.anchor_seq, row.time) == ([text("hi")], 2, 20)
    assert (told.data(ROW).first_token_time, json_of(told.data(ROW).usage)) == (15, spent(4))
    assert tell(*OPEN, attempt(*stream), step_end()).data(ROW).status == "interrupted"


def test_an_attempt_that_says_nothing_publishes_no_row() -> None:
    assert rows_in(published(*OPEN, delta("x"), attempt())[-1]) == []


def test_runs_of_an_attempt_have_no_seqs() -> None:
    run = {"type": "text-chunks", "index": 0, "time0": 15, "dt": [1], "texts": [" ", "x"]}
    told = tell(*OPEN, attempt(run))
    assert (told.at(ROW), told.data(ROW).first_token_time) == ((2, 0), 15)


# --- while it streams -----------------------------------------------------------------------------


def kinds(records: tuple[dict[str, Any], ...]) -> str:
    """What the last line publishes: R a row, P a partial."""
    letters = {"TranscriptRow": "R", "PartialText": "P"}
    return "".join(letters.get(type(c).__name__, "") for c in published(*records)[-1])


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ((block_start(),), "R"),
        ((delta("x"), delta("y")), "P"),
        ((delta("x"), delta("")), ""),
        ((delta("x"), block_end(text("x"))), "R"),
        ((block_start(), delta(" ")), "R"),  # the first token
        ((delta(" "), delta(" ")), "P"),
        ((delta(" "), delta("x")), "R"),  # visible now
        ((delta("x"), usage_chunk(1)), "R"),
        ((delta("x"), usage_chunk(1), usage_chunk(1)), ""),
        ((delta("x"), usage_chunk(1), usage_chunk(2)), "R"),
        ((call_delta("", name="a"), call_delta("{")), "P"),
        ((call_delta("{", name="a"), call_delta("}", name="b")), "R"),
        ((call_delta("{", name="a"), call_delta("}", name="a")), "P"),
        ((delta("x"), retry()), "RR"),
        ((delta("x"), packed("y", "z")), "P"),
        ((delta("x"), delta("y" * 65536)), "R"),
        ((delta("x"), delta("y" * 65535)), "P"),
    ],
)
def test_what_publishes_a_row_and_what_a_partial(
    chunks: tuple[dict[str, Any], ...], expected: str
) -> None:
    assert kinds((*OPEN, *chunks)) == expected


def test_a_partial_names_block_offset_and_range() -> None:
    lines = published(*OPEN, delta("thought", kind="reasoning"), delta("é🙂", 5), packed("a", "b"))
    reasoning = published(*OPEN, delta("é🙂"), packed("a", "b"))[-1][0]
    assert isinstance(reasoning, PartialText)
    assert (reasoning.key, reasoning.offset, reasoning.text) == (ROW, 2, "ab")
    assert (reasoning.first_seq, reasoning.last_seq, reasoning.seq) == (3, 4, 4)
    assert (reasoning.turn, reasoning.step, reasoning.time) == (1, 1, 31)
    assert type(lines[-1][0]).__name__ == "TranscriptRow"  # text where reasoning was
    grown = published(*OPEN, delta("t", kind="reasoning"), delta("x", 5), delta("y", 5))[-1][0]
    assert isinstance(grown, PartialText)
    assert (grown.block, grown.block_type, grown.offset) == (1, "text", 1)


def test_the_joined_rows_rev_is_the_last_partials() -> None:
    assert tell(*OPEN, delta("x"), delta("y"), call()).row(ROW).rev == 3


def test_an_attempt_that_changes_nothing_leaves_the_rev() -> None:
    chunk = {"type": "chunk", "time": 1, "chunk": {"type": "block-start", "index": 0}}
    chunk["chunk"] |= {"blockType": "text"}  # type: ignore[operator]
    delta = {"type": "text-delta", "index": 0, "text": "\u2028"}
    stream = [chunk, {"type": "chunk", "time": 1, "chunk": delta}]
    data = {"turn": 1, "step": 1, "stream": stream}
    line = {"type": "assistant/attempt", "time": 0, "data": data}
    state, _ = step(Session("s"), read_line(encode({**line, "seq": 0})))
    state, changes = step(state, read_line(encode({**line, "seq": 1})))
    assert [type(change) for change in changes] == [SessionOverview]
    assert [row.rev for row in state.open_rows()] == [0]
