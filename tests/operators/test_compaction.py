"""Compaction markers: the three conditions and what a marker says: projection.md §5.3."""

from typing import Any

import pytest

from operators.changes import CompactionData
from tests.operators.build import published, rows_in, tell
from tests.operators.records import (
    Json,
    appended,
    checkpoint,
    compaction_end,
    compaction_start,
    done,
    record,
    replacing,
    run,
    say,
    summary,
    text,
    turn_start,
    user,
)

MARK = {"kind": "compact-checkpoint", "compactionId": "k"}


def markers(*records: Json) -> list[Any]:
    """The data of all compaction rows, in transcript order."""
    return [row.data for row in tell(*records).rows.values() if row.kind == "compaction"]


# --- what is a checkpoint -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "is_marker"),
    [
        (checkpoint(0, 0), True),
        (replacing(user(source={"kind": "plugin", "plugin": "compact"}), 0, 0), True),
        (user(source=MARK), False),
        (replacing(user(source={"kind": "plugin", "plugin": "Compact"}), 0, 0), False),
        (replacing(user(source={"kind": "compact"}), 0, 0), False),
        (replacing(user(), 0, 0), False),
        (replacing(say("x"), 0, 0), False),
    ],
)
def test_three_conditions(line: Json, is_marker: bool) -> None:
    told = tell(user("x", id_="x"), line)
    assert (told.counts.get("compactions_landed", 0) == 1) is is_marker
    assert told.has("compaction:1") is is_marker


def test_an_appended_compaction_source_is_context() -> None:
    assert tell(user(source=MARK)).keys() == ["context:0"]


def test_a_refused_checkpoint_marks_nothing() -> None:
    told = tell(user(), checkpoint(0, 0, [9]))
    assert (told.keys(), told.counts) == (["user:0"], {"user": 1})


def test_the_marker_stands_at_the_checkpoint_and_everything_stays() -> None:
    told = tell(user(), say("x"), compaction_start(), summary(), checkpoint(0, 1, [2, 3, 0, 1]))
    assert told.keys() == ["user:0", "assistant:1", "compaction:2"]
    row = told.row("compaction:2")
    assert (told.at("compaction:2"), row.time, row.visibility) == ((4, 0), 40, "transcript")
    assert row.data == CompactionData("k", "auto", "landed", 4, "sum", 3, 1, 9, 2, 20)


def test_without_bracket_or_id_what_the_log_does_not_say_is_null() -> None:
    source = {"kind": "plugin", "plugin": "compact"}
    (data,) = markers(user(), replacing(user(source=source), 0, 0))
    assert data == CompactionData(None, None, "landed", 1)


# --- the summary ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cites", "seq"),
    [([0, 1], 1), ([2, 0, 1], 2), ([0, [1, 2]], 1), ([[1, 2], 0], 1), ([0], None)],
)
def test_the_first_cited_in_source_order(cites: list[Any], seq: int | None) -> None:
    log = (user(), summary("one"), summary("two"), checkpoint(0, 0, cites))
    (data,) = markers(*log)
    assert data.summary_seq == seq


def test_a_blank_one_is_the_first_all_the_same() -> None:
    (data,) = markers(user(), summary(" \ufeff"), summary("two"), checkpoint(0, 0, [0, 1, 2]))
    assert (data.summary, data.summary_seq, data.item_count) == (None, 1, 1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"summary": [text("a"), {"type": "image"}, text("b")]}, ("ab", 1, 9)),
        ({"shadowedSeqs": [0, 4.0, 5]}, ("sum", 3, 9)),
        ({"shadowedSeqs": [0, "1"]}, ("sum", None, 9)),
        ({"shadowedSeqs": None}, ("sum", None, 9)),
        ({"shadowedTokenCount": -1}, ("sum", 1, None)),
        ({"shadowedTokenCount": 1.5}, ("sum", 1, None)),
        ({"shadowedTokenCount": 0}, ("sum", 1, 0)),
        ({"summary": "text"}, (None, 1, 9)),
    ],
)
def test_its_figures(fields: Json, expected: tuple[Any, ...]) -> None:
    (data,) = markers(user(), summary(**fields), checkpoint(0, 0, [0, 1]))
    assert (data.summary, data.item_count, data.token_count) == expected


@pytest.mark.parametrize(
    ("log", "seqs"),
    [
        ((summary(), checkpoint(0, 0)), [1]),
        ((summary(id_="other"), checkpoint(0, 0)), [None]),
        ((summary(), summary(), checkpoint(0, 0)), [None]),
        ((checkpoint(0, 0), summary()), [None]),
        ((summary(), checkpoint(0, 0, [0, 1]), checkpoint(2, 2)), [1, None]),
        ((summary(), checkpoint(0, 0), checkpoint(2, 2, [2, 1])), [None, 1]),
        ((summary(), checkpoint(0, 0, [0, 1], id_="j"), checkpoint(2, 2)), [1, None]),
    ],
)
def test_uncited_the_only_earlier_one_of_its_id(
    log: tuple[Json, ...], seqs: list[int | None]
) -> None:
    assert [data.summary_seq for data in markers(user(), *log)] == seqs


# --- trigger --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "trigger"),
    [
        ((compaction_start(), summary(), checkpoint(0, 0, [0, 2])), "auto"),
        ((compaction_start(command="c"), summary(), checkpoint(0, 0)), "manual"),
        ((compaction_start(), summary(command="c"), checkpoint(0, 0, [0, 2])), "manual"),
        ((compaction_start(), summary(), checkpoint(0, 0, command="c")), "manual"),
        ((compaction_start(), summary(), checkpoint(0, 0), compaction_end(command="c")), "manual"),
        ((checkpoint(0, 0, id_=None),), None),
        ((checkpoint(0, 0, id_=None, command="c"),), "manual"),
        ((compaction_start(command="c"),), "manual"),
        ((compaction_start(), summary(command="c")), "manual"),
        ((compaction_start(), checkpoint(0, 0), summary(command="c")), "auto"),
    ],
)
def test_trigger(log: tuple[Json, ...], trigger: str | None) -> None:
    (data,) = markers(user(), *log)
    assert data.trigger == trigger


def test_a_joined_one_is_manual() -> None:
    told = tell(
        user(), run(), summary(id_=None), checkpoint(0, 0, [0, 2], id_=None), done(source=2)
    )
    assert told.data("command:1").compaction.trigger == "manual"


# --- progress -------------------------------------------------------------------------------------


def test_a_running_one_is_an_auxiliary_row_that_turns_into_the_marker() -> None:
    told = tell(user(), turn_start(), compaction_start())
    row = told.row("compaction:2")
    assert (told.at("compaction:2"), row.time, row.turn) == ((2, 0), 20, 1)
    assert (row.visibility, row.data.status, row.data.start_time) == ("auxiliary", "running", 20)
    assert told.overview.state == "compacting"
    told = tell(user(), turn_start(), compaction_start(), checkpoint(0, 0), compaction_end())
    assert told.row("compaction:2").visibility == "transcript"
    data = told.data("compaction:2")
    assert (data.status, data.end_time, data.duration_ms, data.error) == ("landed", 40, 20, None)


def test_a_failed_one_never_becomes_a_marker() -> None:
    told = tell(compaction_start(), compaction_end(error="no room"))
    row = told.row("compaction:0")
    assert (row.visibility, row.data.status, row.data.error) == ("auxiliary", "failed", "no room")
    assert (row.data.duration_ms, told.overview.state) == (10, "idle")
    assert told.counts == {"compactions_failed": 1}


def test_one_that_ended_without_a_checkpoint_has_failed() -> None:
    assert tell(compaction_start(), compaction_end()).data("compaction:0").status == "failed"


def test_a_failure_at_the_commit_leaves_a_summary_alone() -> None:
    told = tell(compaction_start(), summary(), compaction_end(error="x"))
    assert told.data("compaction:0").summary is None


@pytest.mark.parametrize("tag", [{}, {"inherited": True}])
def test_a_start_before_an_end_seed_is_stale(tag: Json) -> None:
    told = tell(compaction_start(), record("session/end-seed", tag))
    assert (told.data("compaction:0").status, told.overview.state) == ("stale", "idle")
    assert told.visible("compaction:0") is False
    landed = tell(user(), compaction_start(), record("session/end-seed", tag), checkpoint(0, 0))
    assert landed.data("compaction:1").status == "landed"


def test_an_end_that_says_nothing_new_publishes_nothing() -> None:
    log = (user(), compaction_start(), checkpoint(0, 0), compaction_end())
    assert rows_in(published(*log, compaction_end() | {"time": 30})[-1]) == []


def test_a_second_checkpoint_of_one_id_is_a_marker_of_its_own() -> None:
    told = tell(user(), compaction_start(), checkpoint(0, 0), checkpoint(2, 2))
    assert told.keys() == ["user:0", "compaction:1", "compaction:3"]
    second = told.data("compaction:3")
    assert (second.checkpoint_seq, second.start_seq, second.compaction_id) == (3, 1, "k")
    assert told.counts["compactions_landed"] == 2


def test_a_failed_one_that_lands_after_all_is_counted_once() -> None:
    told = tell(user(), compaction_start(), compaction_end(error="x"), checkpoint(0, 0))
    assert told.counts == {"user": 1, "compactions_landed": 1}


def test_a_compaction_changes_no_other_row() -> None:
    log = (user(), say("x"), compaction_start(), summary(), checkpoint(0, 1, [0, 1, 3]))
    assert [row.kind for row in rows_in(published(*log)[-1])] == ["compaction"]


def test_a_legacy_bracket_without_an_id_marks_by_its_checkpoint_alone() -> None:
    source = {"kind": "plugin", "plugin": "compact"}
    wrapped = appended("user/message", {"content": [text("x")], "source": source})
    log = (
        user(),
        record("compact/start", {"turn": 1}),
        record("compact/summary", summary()["data"] | {"compactionId": None}),
    )
    told = tell(*log, replacing(wrapped, 0, 0, [0, 2]), record("compact/end", {"turn": 1}))
    assert told.keys() == ["user:0", "compaction:3"]
    assert told.data("compaction:3") == CompactionData(None, None, "landed", 3, "sum", 2, 1, 9)
