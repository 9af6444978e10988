"""A session's own counts, usage and times: projection.md §6, readers.md §2 and §3."""

import pytest

from operators.changes import UsageData
from operators.totals import bounded, elapsed
from tests.operators.build import tell
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    compaction_end,
    compaction_start,
    delta,
    done,
    record,
    replacing,
    result,
    retry,
    run,
    say,
    spent,
    splice,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    usage_chunk,
    user,
)

OPEN = (turn_start(), step_start())  # the next seq is 2
SEED = record("session/end-seed", {"inherited": True})


def test_counts_are_of_rows_and_events_and_absent_at_zero() -> None:
    log = (user(), *OPEN, say("x"), say(""), call(), result(failed=True), retry(), run(), done())
    told = tell(*log, turn_end(), turn_start(2), turn_end(2, reason=None))
    assert told.counts == {
        "assistant": 1,
        "commands": 1,
        "retries": 1,
        "tool_calls": 1,
        "tool_errors": 1,
        "turns_completed": 1,
        "turns_unknown": 1,
        "user": 1,
    }


@pytest.mark.parametrize(
    ("log", "count"),
    [
        ((delta("x"),), 1),
        ((delta(" "),), 0),
        ((delta("x"), retry()), 0),
        ((delta("x"), say("x")), 1),
        ((delta("x"), say("", calls=("a",))), 0),
        ((delta("x"), step_end()), 1),
        ((delta(" "), step_end()), 0),
    ],
)
def test_assistant_rows_count_while_they_are_visible(log: tuple[Json, ...], count: int) -> None:
    assert tell(*OPEN, *log).counts.get("assistant", 0) == count


def test_an_interruption_is_no_error_until_its_result_says_so() -> None:
    assert tell(*OPEN, call(), step_end()).counts == {"tool_calls": 1}
    told = tell(*OPEN, call(), step_end(), result(failed=True))
    assert told.counts == {"tool_calls": 1, "tool_errors": 1}


# --- a fork's cut ---------------------------------------------------------------------------------

BEFORE = (
    user(),
    record("session/title", {"title": "parent"}),
    *OPEN,
    delta("x"),
    usage_chunk(3),
    call(),
    run(),
    compaction_start(),
    summary(usage=spent(9)),
    splice("m-1"),
    splice(removed=1),
)


def test_a_tagged_end_seed_starts_anew() -> None:
    told = tell(*BEFORE, SEED)
    overview = told.overview
    assert (told.counts, overview.title, overview.inherited_until) == ({}, None, len(BEFORE))
    assert overview.usage == overview.compaction_usage == UsageData()
    assert (overview.model_ms, overview.tool_ms, overview.open_turn) == (0, 0, 1)
    assert len(told.rows) == 5


def test_an_untagged_one_is_a_restart() -> None:
    told = tell(user(), record("session/end-seed", {}))
    assert (told.counts, told.overview.inherited_until) == ({"user": 1}, None)


def test_the_last_tagged_one_counts() -> None:
    told = tell(user(), SEED, user(), SEED, user(), user())
    assert (told.counts, told.overview.inherited_until) == ({"user": 2}, 3)


def test_the_inherited_inbox_claims_nothing() -> None:
    assert tell(*BEFORE, SEED, user()).keys()[-1] == f"user:{len(BEFORE) + 1}"


def test_after_the_cut_only_what_anchors_there_counts() -> None:
    log = (*BEFORE, SEED, result(failed=True), say("x", usage=spent(4)), turn_end())
    told = tell(*log)
    assert told.counts == {"assistant": 1, "turns_completed": 1}
    assert told.overview.usage == UsageData(uncached_input=10, output=4)
    frozen = tell(*BEFORE, SEED, turn_end())
    assert frozen.counts == {"assistant": 1, "turns_completed": 1}


def test_what_failed_before_the_cut_is_not_taken_back() -> None:
    log = (user(), compaction_start(), compaction_end(error="x"), SEED, checkpoint(0, 0))
    assert tell(*log).counts == {"compactions_landed": 1}


@pytest.mark.parametrize(("length", "count"), [(0, 3), (1, 2), (2, 1), (3, 0), (9, 0)])
def test_a_seed_length_is_never_counted(length: int, count: int) -> None:
    header = {"type": "session", "id": "s-1", "seedLength": length}
    title = record("session/title", {"title": "parent"}, seq=0, time=0)
    told = tell(header, title, user(), user(seq=1), user(), user(seq=2))
    assert told.counts.get("user", 0) == min(count, 2)
    assert told.overview.title == ("parent" if length == 0 else None)
    assert told.overview.inherited_until == length


# --- usage ----------------------------------------------------------------------------------------


def test_all_buckets_and_absent_is_zero() -> None:
    full = spent(2) | {"cacheReadTokens": 3, "cacheWriteTokens": 4, "reasoningTokens": 1}
    told = tell(*OPEN, say("x", usage=full))
    assert told.overview.usage == UsageData(10, 2, 3, 4, 1)
    assert told.overview.prompt_tokens == 17


def test_a_compactions_usage_stands_apart() -> None:
    overview = tell(user(), summary(usage=spent(9)), summary(usage=spent(1))).overview
    assert (overview.usage.output, overview.compaction_usage.output) == (0, 10)


def test_late_samples_of_a_closed_turn() -> None:
    late = (say("y", usage=spent(2)), usage_chunk(9))
    told = tell(*OPEN, say("x", usage=spent(4)), turn_end(), *late)
    assert told.overview.usage.output == 6


def test_the_prompt_is_unknown_after_a_compaction_until_a_step_measures_it() -> None:
    log = (user(), *OPEN, say("x", usage=spent(1, prompt=50)), checkpoint(0, 0))
    assert tell(*log).overview.prompt_tokens is None
    assert tell(*log, say("y", usage=spent(1, prompt=7))).overview.prompt_tokens == 7


def test_sums_stop_at_the_ends_of_a_long() -> None:
    assert (bounded(2**70), bounded(-(2**70)), bounded(5)) == (2**63 - 1, -(2**63), 5)


# --- model and tool time --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "model_ms"),
    [
        ((say("x"),), 10),
        ((say("x"), say("y")), 10),
        ((say("x", step=2),), 0),
        ((step_end(9), say("x")), 0),
        ((step_start(time=15), say("x", time=16)), 1),
        ((say("x", time=3),), 0),
        ((user(), replacing(say("x"), 2, 2)), 20),
    ],
)
def test_model_time(log: tuple[Json, ...], model_ms: int) -> None:
    assert tell(*OPEN, *log).overview.model_ms == model_ms


@pytest.mark.parametrize(
    ("log", "tool_ms"),
    [
        ((call(), result()), 10),
        ((call("a"), call("b"), result("b"), result("a")), 40),
        ((call(), call(), result()), 10),
        ((call(), result(), result()), 10),
        ((call(), turn_end(), result()), 0),
        ((call(), step_end(), result()), 20),
        ((result(),), 0),
        ((call(), result(time=1)), 0),
    ],
)
def test_tool_time(log: tuple[Json, ...], tool_ms: int) -> None:
    assert tell(*OPEN, *log).overview.tool_ms == tool_ms


def test_an_unknown_time_measures_nothing() -> None:
    assert (elapsed(None, 5), elapsed(5, None), elapsed(7, 5), elapsed(5, 7)) == (None, None, 0, 2)
