"""Tool rows, paired through the announcing message: projection.md §5.2."""

from typing import Any

import pytest

from tests.operators.build import Told, json_of, published, rows_in, tell
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    record,
    replacing,
    result,
    say,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

OPEN = (turn_start(), step_start())  # the next seq is 2
STAND_IN = {"name": "Interrupted", "code": "interrupted"}


def tool(told: Told, key: str = "tool:3") -> Any:
    return told.data(key)


# --- announced or not -----------------------------------------------------------------------------


def test_an_announced_call_is_in_the_transcript() -> None:
    told = tell(*OPEN, say(calls=("a",)), call())
    row = told.row("tool:3")
    assert (row.anchor_seq, row.time, row.visibility) == (3, 30, "transcript")
    data: Any = row.data
    assert (data.call_id, data.name, data.arguments, data.status) == ("a", "read", "{}", "running")
    assert (data.announced_by, data.call_seq, data.call_time) == (2, 3, 30)
    assert (data.result_seq, data.result_time, json_of(data.content)) == (None, None, [])
    assert told.quality == {}


@pytest.mark.parametrize(
    "before",
    [
        (),
        (say(calls=("b",)),),
        (say("x"), replacing(say(calls=("a",)), 2, 2)),
    ],
    ids=["nothing", "another id", "a replacement copy only"],
)
def test_an_unannounced_call_is_auxiliary_and_noted(before: tuple[Json, ...]) -> None:
    told = tell(*OPEN, *before, call())
    key = f"tool:{2 + len(before)}"
    assert (told.visible(key), told.quality["unannounced_call"]) == (False, 1)
    told = tell(*OPEN, *before, call(), result())
    assert told.visible(key)


def test_in_a_window_an_unannounced_call_is_no_fact() -> None:
    assert tell(call(), first=3).quality == {}
    assert tell(user(), call(seq=4)).quality == {"gap": 1}


@pytest.mark.parametrize(
    ("message", "announced_by"),
    [(say(calls=("a",)), 3), (say(calls=("a",), step=2), None), (say(calls=("a",), turn=2), None)],
)
def test_a_later_message_announces_in_the_same_step_alone(
    message: Json, announced_by: int | None
) -> None:
    told = tell(*OPEN, call(), message)
    assert tool(told, "tool:2").announced_by == announced_by
    assert told.visible("tool:2") is (announced_by is not None)
    assert told.quality == {"unannounced_call": 1}


def test_a_compaction_unpairs_no_card() -> None:
    log = (*OPEN, say(calls=("a",)), call(), checkpoint(2, 2), result())
    told = tell(*log)
    assert (tool(told).announced_by, tool(told).status, told.at("tool:3")) == (2, "ok", (3, 0))


def test_announcements_of_two_open_turns_do_not_end_together() -> None:
    both = (turn_start(), say(calls=("a",)), turn_start(2), say(calls=("a",), turn=2), turn_end(2))
    assert tell(*both, call()).data("tool:5").announced_by == 1


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("failed", "status"), [(False, "ok"), (True, "error"), ("yes", "ok")])
def test_a_result_joins_its_call(failed: Any, status: str) -> None:
    told = tell(*OPEN, say(calls=("a",)), call(), result(failed=failed))
    data = tool(told)
    assert (data.status, data.is_error, data.result_seq, data.result_rank) == (
        status,
        status == "error",
        4,
        0,
    )
    assert (data.result_time, told.at("tool:3"), told.row("tool:3").rev) == (40, (3, 0), 4)
    assert told.row("tool:3").time == 30


def test_error_and_meta_pass_through() -> None:
    made = result(failed=True)
    made["data"] |= {"error": {"name": "E", "code": "C"}, "meta": {"n": 1}}
    data = tool(tell(*OPEN, say(calls=("a",)), call(), made))
    assert (json_of(data.error), json_of(data.meta)) == ({"name": "E", "code": "C"}, {"n": 1})


def test_a_result_without_a_call_makes_a_row_without_a_name() -> None:
    told = tell(*OPEN, say(calls=("a",)), result())
    row = told.row("tool:3")
    assert (row.anchor_seq, row.time, row.visibility) == (3, 30, "transcript")
    assert (tool(told).name, tool(told).call_seq, tool(told).announced_by) == (None, None, 2)
    assert tell(*OPEN, result()).visible("tool:2")


def test_a_call_of_the_same_step_completes_it_and_it_keeps_its_key() -> None:
    told = tell(*OPEN, result(), call())
    assert (told.keys(), told.at("tool:2"), told.row("tool:2").time) == (["tool:2"], (3, 0), 30)
    assert (tool(told, "tool:2").status, tool(told, "tool:2").name) == ("ok", "read")


@pytest.mark.parametrize("elsewhere", [call(step=2), call(turn=2)])
def test_a_reused_id_elsewhere_is_a_new_row(elsewhere: Json) -> None:
    told = tell(*OPEN, result(), elsewhere)
    assert told.keys() == ["tool:2", "tool:3"]
    assert (tool(told, "tool:2").name, tool(told).status) == (None, "running")


def test_a_result_joins_the_latest_open_call_of_its_id() -> None:
    told = tell(*OPEN, call(), call(), result(words="one"), result(words="two"))
    assert (tool(told, "tool:3").result_seq, tool(told, "tool:2").result_seq) == (4, 5)


def test_a_reused_id_joins_the_open_one() -> None:
    told = tell(*OPEN, call(), result(), call(), result())
    assert (tool(told, "tool:2").result_seq, tool(told, "tool:4").result_seq) == (3, 5)


def test_a_second_result_is_ignored_and_counted() -> None:
    log = (*OPEN, call(), result(words="one"), result(words="two"))
    told = tell(*log)
    assert (told.keys(), told.quality["result_dropped"]) == (["tool:2"], 1)
    assert b"one" in bytes(tool(told, "tool:2").content)
    assert rows_in(published(*log)[-1]) == []
    assert tell(*OPEN, result(), result()).quality["result_dropped"] == 1


def test_parallel_calls_keep_their_call_order() -> None:
    told = tell(*OPEN, call("a"), call("b"), result("b"), result("a"))
    assert told.keys() == ["tool:2", "tool:3"]


def test_a_prune_touches_no_row() -> None:
    log = (*OPEN, call(), result(words="long"), replacing(result(words="short"), 3, 3))
    assert rows_in(published(*log)[-1]) == []
    assert b"long" in bytes(tool(tell(*log), "tool:2").content)


def test_without_an_id_nothing_changes() -> None:
    told = tell(call(None), record("tool/result", {"content": []}, surfaceOp="append"))
    assert (told.keys(), told.quality) == ([], {"malformed": 2, "reader:toolPairing": 1})
    assert told.nodes == [1]


# --- interrupted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", [step_end(), turn_end()])
def test_open_calls_end_with_their_step_or_turn(boundary: Json) -> None:
    told = tell(*OPEN, say(calls=("a",)), call(), boundary)
    data = tool(told)
    assert (data.status, json_of(data.error), json_of(data.content)) == (
        "interrupted",
        STAND_IN,
        [],
    )
    assert (data.result_seq, data.result_rank, data.result_time) == (4, -80, 40)
    assert (told.at("tool:3"), told.row("tool:3").rev) == ((3, 0), 4)


def test_a_call_after_its_boundary_is_interrupted_at_once() -> None:
    told = tell(*OPEN, step_end(), call())
    assert (tool(told).status, tool(told).result_seq, tool(told).result_time) == (
        "interrupted",
        2,
        20,
    )
    assert told.row("tool:3").rev == 3


def test_a_logged_result_replaces_the_stand_in() -> None:
    for boundary in (step_end(), turn_end()):
        told = tell(*OPEN, say(calls=("a",)), call(), boundary, result())
        data = tool(told)
        assert (data.status, data.error, data.result_seq, data.result_rank) == ("ok", None, 5, 0)
        assert data.announced_by == 2


# --- closed turns (§5.7) --------------------------------------------------------------------------


def test_a_call_for_a_closed_turn_is_interrupted_at_its_own_seq() -> None:
    told = tell(turn_start(), turn_end(), call(), call())
    assert [tool(told, key).result_seq for key in ("tool:2", "tool:3")] == [2, 3]
    assert tool(told, "tool:2").result_rank == -80


def test_a_result_whose_call_was_forgotten_is_like_one_without_a_call() -> None:
    told = tell(turn_start(), call(), result(), turn_end(), result())
    assert (told.keys(), tool(told, "tool:4").name) == (["tool:1", "turn:3", "tool:4"], None)
    assert told.quality["unannounced_call"] == 1


def test_a_call_without_a_logged_result_is_kept_until_its_number_ends_again() -> None:
    kept = (turn_start(), call(), turn_end())
    assert len(tell(*kept).state.tools.table) == 1
    assert len(tell(*kept, result()).state.tools.table) == 1
    for again in ((result(),), (turn_start(), result())):
        told = tell(*kept, *again, turn_end())
        assert (len(told.state.tools.table), tool(told, "tool:1").status) == (0, "ok")
        assert len(told.state.tools.by_id) == len(told.state.tools.unpaired) == 0


def test_a_turn_that_ended_leaves_nothing_of_its_tools() -> None:
    state = tell(*OPEN, say(calls=("a",)), call(), result(), step_end(), turn_end()).state
    assert (len(state.tools.table), len(state.tools.announced), len(state.tools.by_id)) == (0, 0, 0)
    assert (len(state.steps.table), state.steps.current, state.turns.records) == (0, None, {})
