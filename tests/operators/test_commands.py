"""Commands, and /compact joined to its marker: projection.md §5.4."""

from typing import Any

import pytest

from tests.operators.build import Told, published, rows_in, tell
from tests.operators.records import (
    Json,
    checkpoint,
    compaction_end,
    compaction_start,
    done,
    run,
    say,
    summary,
    turn_start,
    user,
)


def joins(*records: Json) -> dict[str, int | None]:
    """Checkpoint seq each command row carries."""
    told = tell(user(), *records)
    rows = (row for row in told.rows.values() if row.kind == "command")
    found: dict[str, int | None] = {}
    for row in rows:
        data: Any = row.data
        found[row.key] = data.compaction and data.compaction.checkpoint_seq
    return found


def test_a_command_runs_and_is_done() -> None:
    told = tell(turn_start(), run("c", "plan", " off"), done(words="fine"))
    row = told.row("command:1")
    assert (row.anchor_seq, row.time, row.turn, row.visibility) == (1, 10, 1, "transcript")
    data: Any = row.data
    assert (data.name, data.args, data.status, data.text) == ("plan", " off", "success", "fine")
    assert (data.run_seq, data.done_seq, data.done_time, row.rev) == (1, 2, 20, 2)
    assert tell(run()).data("command:0").status == "running"


def test_a_done_without_its_run() -> None:
    told = tell(user(), done(kind="error"))
    data = told.data("command:1")
    assert (data.name, data.args, data.run_seq, data.status) == (None, None, None, "error")
    told = tell(user(), done(), user(), run(name="plan"))
    row = told.row("command:1")
    assert (told.at("command:1"), row.time, row.data.name) == ((3, 0), 30, "plan")
    assert told.counts["commands"] == 1


def test_a_second_done_replaces_the_outcome() -> None:
    told = tell(run(), done(kind="error", words="one"), done(words="two"))
    assert (told.data("command:0").text, told.data("command:0").done_seq) == ("two", 2)
    again = tell(user(), done(words="one"), done(words="two"))
    assert (again.keys(), again.at("command:1")) == (["user:0", "command:1"], (1, 0))


def test_two_runs_are_two_rows_and_a_done_goes_to_the_latest() -> None:
    told = tell(run(), run(), done())
    assert [told.data(key).status for key in told.rows] == ["running", "success"]


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [(0, "success", 0), (0, "error", None), (-1, "success", None), (True, "success", None)],
)
def test_a_source_counts_with_success_and_as_a_seq(
    source: Any, kind: str, expected: int | None
) -> None:
    assert (
        tell(run(), done(source=source, kind=kind)).data("command:0").source_event_seq == expected
    )


def test_without_an_id_nothing_changes() -> None:
    told = tell(run(None), done(None))
    assert (told.keys(), told.quality) == ([], {"malformed": 2})


# --- the join: user is 0, so the first record is 1 ------------------------------------------------


def landed(command: str | None = None, id_: str | None = "k") -> tuple[Json, Json]:
    """A summary and the checkpoint that cites it, after one record: 2 and 3."""
    return summary(id_=id_), checkpoint(0, 0, [0, 2], id_=id_, command=command)


@pytest.mark.parametrize(
    "end",
    [
        (),
        (done(),),
        (done(kind="error"),),
        (done(source=2),),
    ],
    ids=["never finished", "success without a source", "error", "both proofs"],
)
def test_by_the_checkpoints_command_id_whatever_the_outcome(end: tuple[Json, ...]) -> None:
    assert joins(run(), *landed("c"), *end) == {"command:1": 3}


@pytest.mark.parametrize("name", ["compact", "plan"])
def test_by_the_id_the_name_does_not_matter(name: str) -> None:
    assert joins(run(name=name), *landed("c")) == {"command:1": 3}


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ((run(), *landed(), done(source=2)), 3),
        ((run(name="plan"), *landed(), done(source=2)), None),
        ((run(), *landed(), done(source=2, kind="error")), None),
        ((run(), *landed(), done()), None),
        ((run(), *landed(), done(source=3)), None),
        ((run(), *landed("other"), done(source=2)), None),
        ((run(), *landed(), done(source=2), checkpoint(3, 3, [3, 2], id_="j")), None),
        ((run(), *landed("c"), done(source=0)), 3),
    ],
)
def test_by_the_summary_it_reports(log: tuple[Json, ...], expected: int | None) -> None:
    assert joins(*log) == {"command:1": expected}


def test_two_claims_of_one_summary_join_nothing() -> None:
    both = (run("c"), *landed(), run("d"), done("c", 2))
    assert joins(*both) == {"command:1": 3, "command:4": None}
    assert joins(*both, done("d", 2)) == {"command:1": None, "command:4": None}
    assert joins(*both, done("d", 2), done("d")) == {"command:1": 3, "command:4": None}


def test_two_claims_leave_the_id_as_proof() -> None:
    log = (run("c"), *landed("c"), run("d"), done("c", 2), done("d", 2))
    assert joins(*log) == {"command:1": 3, "command:4": None}


def test_proofs_that_disagree_join_nothing() -> None:
    second = (summary(id_="j"), checkpoint(3, 3, [3, 4], id_="j"))
    log = (run("c"), *landed("c"), *second)
    assert joins(*log) == {"command:1": 3}
    assert joins(*log, done("c", 4)) == {"command:1": None}


def test_two_checkpoints_of_one_command_join_nothing() -> None:
    assert joins(run(), *landed("c"), checkpoint(3, 3, id_="j", command="c")) == {"command:1": None}


def test_two_runs_of_one_id_join_nothing() -> None:
    assert joins(run(), *landed("c"), run()) == {"command:1": None, "command:4": None}


def test_a_done_before_its_run_joins_when_the_run_comes() -> None:
    log = (done("c", 2), *landed())
    assert joins(*log) == {"command:1": None}
    assert joins(*log, run()) == {"command:1": 3}


# --- what a join shows ----------------------------------------------------------------------------


def joined() -> tuple[Json, ...]:
    return (run(), compaction_start(command="c"), summary(command="c"), user("between"))


def test_the_command_row_moves_to_the_checkpoint_and_keeps_its_key_and_time() -> None:
    log = (say("x"), *joined(), checkpoint(0, 0, [0, 2, 3], command="c"), compaction_end(), done())
    told = tell(*log)
    assert told.keys() == ["assistant:0", "user:4", "command:1"]
    row = told.row("command:1")
    assert (told.at("command:1"), row.time, row.rev) == ((5, 0), 10, 7)
    data: Any = row.data
    assert (data.text, data.compaction.summary, data.compaction.duration_ms) == ("ok", "sum", 40)


def test_the_separate_row_is_deleted_and_comes_back_under_its_own_key() -> None:
    log = (user(), run(), *landed(), done(source=2), run("d"), done("d", 2))
    lines = published(*log)
    (marker,) = rows_in(lines[3])
    assert (marker.key, marker.deleted) == ("compaction:3", False)
    at_join = {row.key: row for row in rows_in(lines[4])}
    gone = at_join["compaction:3"]
    assert (gone.deleted, gone.data, gone.rev, gone.anchor_seq) == (True, None, 4, 3)
    assert at_join["command:1"].anchor_seq == 3
    parted = {row.key: row for row in rows_in(lines[6])}
    assert (parted["compaction:3"].deleted, parted["compaction:3"].anchor_seq) == (False, 3)
    assert (parted["command:1"].anchor_seq, parted["command:1"].rev) == (1, 6)


def test_a_compact_that_landed_nothing_is_an_ordinary_command() -> None:
    told = tell(run(), done(words="nothing to compact"))
    assert (told.data("command:0").compaction, told.keys()) == (None, ["command:0"])


def test_a_failed_command_keeps_its_own_outcome() -> None:
    told: Told = tell(user(), run(), *landed("c"), done(kind="error", words="late"))
    data = told.data("command:1")
    assert (data.status, data.text, data.compaction.status) == ("error", "late", "landed")


def test_the_end_of_a_joined_compaction_shows_in_the_command() -> None:
    log = (user(), run(), compaction_start(), checkpoint(0, 0, command="c"), compaction_end())
    assert [row.key for row in rows_in(published(*log)[-1])] == ["command:1"]


def test_an_automatic_one_keeps_its_own_row() -> None:
    told = tell(user(), run(), *landed(), done())
    assert told.keys() == ["user:0", "command:1", "compaction:3"]
