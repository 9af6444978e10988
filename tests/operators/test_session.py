"""The door: pure steps, staged copies, whole logs."""

import pytest

from operators.changes import SessionOverview
from operators.events import Fault
from operators.session import Out, Session, fold, step
from tests.operators.build import lines_of, tell
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    compaction_start,
    delta,
    done,
    nested,
    retry,
    run,
    say,
    splice,
    step_start,
    summary,
    turn_start,
    user,
)

LOG: tuple[Json, ...] = (
    splice("m-1"),
    user(),
    turn_start(),
    step_start(),
    delta("x"),
    delta("y"),
    retry(),
    say("x", calls=("a",)),
    call(),
    nested(),
    run(),
    compaction_start(),
    summary(),
    checkpoint(1, 1, [1, 12]),
    done(source=12),
)


def test_a_step_changes_nothing_it_was_given() -> None:
    lines = lines_of(*LOG)
    states = [Session("s-1")]
    for line in lines:
        states.append(step(states[-1], line)[0])
    overviews = [state.overview() for state in states]
    for at, line in enumerate(lines):  # again from every state, in any order
        after, changes = step(states[at], line)
        assert after.overview() == overviews[at + 1]
        assert changes
    assert [state.overview() for state in states] == overviews
    assert states[-1].overview() == fold(lines, "s-1").overview


@pytest.mark.parametrize("kept", range(len(LOG)))
def test_a_copy_that_is_dropped_leaves_no_trace(kept: int) -> None:
    lines = lines_of(*LOG)
    state, twin = Session("s-1"), Session("s-1")
    for line in lines[:kept]:
        state.take(line, Out())
        twin.take(line, Out())
    staged = state.fork()
    for line in lines[kept:]:
        staged.take(line, Out())
    assert state.overview() == twin.overview()
    assert state.open_rows() == twin.open_rows()
    first, second = Out(), Out()
    for line in lines[kept:]:
        state.take(line, first)
        twin.take(line, second)
    assert first.changes(state) == second.changes(twin)


def test_the_overview_comes_last() -> None:
    _, changes = step(Session("s-1"), lines_of(user())[0])
    assert isinstance(changes[-1], SessionOverview)
    assert all(change.session == "s-1" for change in changes)  # type: ignore[union-attr]


def test_a_whole_log_ends_with_its_running_rows() -> None:
    told = tell(turn_start(), step_start(), delta("x"), delta("y"))
    (row,) = told.state.open_rows()
    assert told.rows == {row.key: row}
    assert row.rev == 3


def test_a_line_that_is_no_event_is_handed_back() -> None:
    folded = fold([Fault("not-json", "what is this", None)], "s-1")
    (refused,) = folded.refused
    assert (refused.reason, refused.message, refused.seq) == ("not-json", "what is this", None)
    assert (folded.overview.next_seq, folded.overview.quality) == (0, {"fault": 1})
