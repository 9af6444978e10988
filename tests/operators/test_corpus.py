"""Faults that viewers of agent sessions are known for, as logs: what the fold makes of them.

Each test is named by the number that the fault has in the project's corpus of public bug reports;
`tests/test_corpus_numbers.py` knows all numbers, and the rooms that the others are shown in. Every
log here also keeps the laws: live is replay, and what comes again is silent.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from operators.out import Out
from operators.session import Session
from tests.laws.folding import one_by_one
from tests.laws.test_replay_is_live import agree
from tests.operators.build import Told, json_of, lines_of, tell
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    compaction_end,
    compaction_start,
    delta,
    nested,
    record,
    replacing,
    result,
    retry,
    retry_started,
    say,
    spent,
    step_end,
    step_start,
    summary,
    text,
    turn_end,
    turn_start,
    usage_chunk,
    user,
)

CITED = [1, 2, 3, 6]
COMPACTED: list[Json] = [
    turn_start(),
    user("one", id_="m-1"),
    say("two"),
    user("three", id_="m-3"),
    say("four"),
    compaction_start(),
    summary("what was said", shadowedSeqs=[1, 2, 3]),
    checkpoint(1, 3, CITED),
    compaction_end(),
]
UNKNOWN: list[Json] = [user(), record("x-plug/thing", {"any": 1}), say("go on")]
ODD: list[Json] = [
    turn_start(),
    user("hi", source={"kind": "user", "later": True}) | {"extra": {"a": 1}},
    user("by a new kind", id_="m-2", source={"kind": "newly-made", "x": 1}),
    say("yes", {"type": "hologram", "data": 1}),
    turn_end(reason={"kind": "tired", "since": 3}),
]
PARALLEL: list[Json] = [
    turn_start(),
    step_start(),
    say("", calls=("a", "b", "c")),
    call("a"),
    call("b"),
    call("c"),
    result("b"),
    turn_end(reason="interrupted"),
]
CRASHED: list[Json] = [turn_start(), step_start(), say("", calls=("x",)), call("x")]
FAILED_TWICE: list[Json] = [
    turn_start(),
    step_start(),
    retry(1),
    retry_started(1),
    retry(2),
    retry_started(2),
    turn_end(reason={"kind": "error", "error": {"code": "X", "message": "it would not"}}),
]
SPENT: list[Json] = [
    turn_start(),
    step_start(),
    usage_chunk(1),
    usage_chunk(7),
    say("done", usage=spent(9)),
    step_end(),
    turn_end(),
]
UNPRICED: list[Json] = [user("a"), say("b"), checkpoint(0, 1, [0, 1], id_=None)]
HALVES: list[Json] = [
    turn_start(),
    step_start(),
    delta("ok \ud83d"),
    delta("\ude00"),
]
BACK_IN_TIME: list[Json] = [
    user("first", id_="a", time=100),
    user("second", id_="b", time=99),
    user("third", id_="c", time=100),
]
LOGS = {
    "1": COMPACTED,
    "9": UNKNOWN,
    "10": ODD,
    "28": PARALLEL,
    "29": [*CRASHED, turn_end(reason="interrupted")],
    "30": FAILED_TWICE,
    "32": SPENT,
    "35": UNPRICED,
    "38": HALVES,
    "51": BACK_IN_TIME,
}


@pytest.mark.parametrize("number", LOGS)
def test_every_log_of_the_corpus_keeps_the_laws(number: str) -> None:
    lines = lines_of(*LOGS[number])
    agree(lines)
    state, _ = one_by_one(lines)
    before, again = state.overview(), Out()
    for line in lines:
        state.take(line, again)
    assert state.overview() == before
    assert again.changes(state) == []


def rows(told: Told, kind: str) -> list[Any]:
    """In transcript order."""
    return [row for row in told.rows.values() if row.kind == kind]


# --- compaction -----------------------------------------------------------------------------------


def test_corpus_01_a_compaction_takes_nothing_from_what_was_read() -> None:
    told = tell(*COMPACTED)
    seqs = [row.anchor_seq for row in told.rows.values() if row.visibility == "transcript"]
    assert seqs == [1, 2, 3, 4, 7]
    (marker,) = rows(told, "compaction")
    assert marker.data.checkpoint_seq == 7
    assert told.nodes == [7, 4]


def test_corpus_02_a_marker_stands_where_the_log_put_it() -> None:
    told = tell(*COMPACTED, user("later", id_="m-9"))
    (marker,) = rows(told, "compaction")
    assert (marker.anchor_seq, marker.data.status) == (7, "landed")
    assert marker.data.summary == "what was said"
    assert [row.anchor_seq for row in told.rows.values()] == sorted(
        row.anchor_seq for row in told.rows.values()
    )


def test_corpus_04_what_is_sent_again_is_silent_and_what_is_logged_again_is_new() -> None:
    """A known message id under a new seq is what the log says: a row and a node of its own (the
    spec knows messages by their seq). Under its old seq it is a redelivery."""
    told = tell(*COMPACTED)
    state = told.state.fork()
    again = Out()
    for line in lines_of(*COMPACTED):
        state.take(line, again)
    assert again.changes(state) == []
    more = tell(*COMPACTED, user("one", id_="m-1"), say("two"))
    assert more.nodes == [7, 4, 9, 10]
    assert more.keys() == [*told.keys(), "user:9", "assistant:10"]


def test_corpus_05_a_checkpoint_is_a_marker_and_nobodys_message() -> None:
    told = tell(*COMPACTED)
    assert not told.has("user:7")
    assert not told.has("context:7")
    (marker,) = rows(told, "compaction")
    assert marker.data.summary == "what was said"
    assert b"framed" not in msgspec.json.encode([row.data for row in told.rows.values()])


def test_corpus_06_a_count_that_the_log_does_not_give_is_unknown_and_not_zero() -> None:
    data = {"summary": [text("s")], "compactionId": "k"}
    told = tell(
        user("a"), say("b"), record("compaction/summary", data), checkpoint(0, 1, [0, 1, 2])
    )
    (marker,) = rows(told, "compaction")
    assert (marker.data.item_count, marker.data.token_count) == (None, None)
    assert (marker.data.duration_ms, marker.data.trigger) == (None, "auto")
    assert told.overview.prompt_tokens is None


def test_corpus_08_a_compaction_that_failed_or_was_left_changes_no_surface() -> None:
    failed = tell(user(), say("x"), compaction_start(), compaction_end(error="no room"))
    (row,) = rows(failed, "compaction")
    assert (row.data.status, row.data.error) == ("failed", "no room")
    assert row.visibility == "auxiliary"
    assert failed.nodes == [0, 1]
    left = tell(user(), say("x"), compaction_start(), record("session/end-seed", {}))
    (row,) = rows(left, "compaction")
    assert row.data.status == "stale"
    assert left.overview.state != "compacting"
    assert left.nodes == [0, 1]


# --- what is unknown ------------------------------------------------------------------------------


def test_corpus_09_an_unknown_type_is_a_row_and_no_end() -> None:
    told = tell(*UNKNOWN)
    assert told.keys() == ["user:0", "unknown:1", "assistant:2"]
    assert told.data("unknown:1").type == "x-plug/thing"
    assert told.quality["unknown_required_event"] == 1
    strict, out = Session("s-1", strict=True), Out()
    for line in lines_of(*UNKNOWN):
        strict.take(line, out)
    assert [refused.seq for refused in out.refused][:1] == [1]


def test_corpus_10_a_new_key_or_word_is_shown_as_it_is() -> None:
    told = tell(*ODD)
    assert json_of(told.data("user:1").source) == {"kind": "user", "later": True}
    assert told.data("context:2").producer == "newly-made"
    assert json_of(told.data("assistant:3").blocks)[1] == {"type": "hologram", "data": 1}
    assert told.data("turn:4").reason == "tired"
    assert told.refused == []


def test_corpus_14_one_version_number_two_shapes() -> None:
    flat = {"content": [text("hi")], "source": {"kind": "user"}}
    told = tell(
        {"type": "session", "version": 0, "id": "s-1", "createdAt": 1},
        record("user/message", flat, surfaceOp="append"),
        user("with an id", id_="m-2"),
    )
    assert told.data("user:0").message_id == "legacy:0"
    assert told.data("user:1").message_id == "m-2"


def test_corpus_19_text_before_what_announces_it() -> None:
    """The spec waits for nobody: what was left out is a gap, and a late arrival a dead letter."""
    early = [turn_start(), delta("early", seq=3), step_start(seq=2)]
    told = tell(*early)
    (gap,) = rows(told, "gap")
    assert (gap.data.first, gap.data.last) == (1, 2)
    assert told.quality["gap"] == 1
    assert told.refused == [("late", 2)]
    assert json_of(told.data("assistant:3").blocks)[0]["text"] == "early"


# --- tools, turns, errors -------------------------------------------------------------------------


def test_corpus_28_parallel_calls_of_which_some_were_interrupted() -> None:
    told = tell(*PARALLEL)
    tools = rows(told, "tool")
    assert [row.data.call_id for row in tools] == ["a", "b", "c"]
    assert [row.data.status for row in tools] == ["interrupted", "ok", "interrupted"]
    assert all(row.visibility == "transcript" for row in tools)


def test_corpus_29_a_crash_is_an_open_turn_and_later_an_interrupted_one() -> None:
    silent = tell(*CRASHED)
    assert (silent.overview.state, silent.overview.open_turn) == ("running", 1)
    assert silent.data("tool:3").status == "running"
    told = tell(*LOGS["29"])
    assert told.overview.state == "interrupted"
    assert told.data("tool:3").status == "interrupted"
    assert told.overview.tool_ms == 0


def test_corpus_30_the_last_error_is_shown_beside_the_retries() -> None:
    told = tell(*FAILED_TWICE)
    (retries,) = rows(told, "retry")
    assert len(retries.data.attempts) == 2
    (error,) = rows(told, "turn-error")
    assert error.data.message == "it would not"
    assert told.overview.state == "failed"


# --- figures --------------------------------------------------------------------------------------


def test_corpus_32_usage_that_is_repeated_is_counted_once() -> None:
    told = tell(*SPENT)
    assert told.overview.usage.output == 9
    assert told.data("turn:6").usage.output == 9


def test_corpus_34_the_context_after_a_compaction_is_unknown_until_it_is_measured() -> None:
    big = [turn_start(), user(), step_start(), say("x", usage=spent(5, 180_000)), step_end()]
    assert tell(*big).overview.prompt_tokens == 180_000
    compacted = [*big, compaction_start(), summary(), checkpoint(1, 3, [1, 3, 6]), compaction_end()]
    assert tell(*compacted).overview.prompt_tokens is None
    measured = [*compacted, step_start(2), say("y", step=2, usage=spent(5, 9_000)), step_end(2)]
    assert tell(*measured).overview.prompt_tokens == 9_000


def test_corpus_35_a_replacement_that_nobody_priced() -> None:
    told = tell(*UNPRICED)
    (marker,) = rows(told, "compaction")
    assert marker.data.token_count is None
    assert told.nodes == [2]
    assert told.refused == []


def test_corpus_36_calls_inside_of_calls_hang_where_they_belong_or_are_counted() -> None:
    told = tell(
        turn_start(),
        say("", calls=("a",)),
        nested("deep", parent="middle", root="a"),  # its parent is not known yet
        call("a"),
        nested("middle", parent="a", root="a"),
        nested("nowhere", parent=None, root=None),
    )
    (middle,) = told.data("tool:3").sub_calls
    assert middle.call_id == "middle"
    assert [each.call_id for each in middle.sub_calls] == ["deep"]
    assert sum(told.quality.values()) == 1


def test_corpus_38_halves_of_a_character_meet_again() -> None:
    told = tell(*HALVES)
    (row,) = rows(told, "assistant")
    assert json_of(row.data.blocks)[0]["text"] == "ok \U0001f600"


# --- isolation and order --------------------------------------------------------------------------


def test_corpus_48_what_is_refused_at_one_seq_stops_nothing_behind_it() -> None:
    bad = replacing(user("bad", id_="x"), 90, 91)
    told = tell(user("a"), say("b"), user("c", id_="m-2"), say("d"), user("e"), bad, user("f"))
    assert [seq for _, seq in told.refused] == [5]
    assert told.nodes == [0, 1, 2, 3, 4, 6]
    assert told.quality["fault"] == 1


def test_corpus_51_order_is_that_of_the_log_and_not_of_the_clock() -> None:
    told = tell(*BACK_IN_TIME)
    assert [row.anchor_seq for row in told.rows.values()] == [0, 1, 2]
    assert [row.time for row in told.rows.values()] == [100, 99, 100]
