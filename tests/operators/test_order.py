"""Duplicates, gaps, windows, generations: projection.md §3."""

import pytest

from operators.changes import SessionOverview
from operators.events import Line
from operators.order import DIGESTS
from operators.session import Out, Session, enter_epoch, fold
from tests.operators.build import lines_of, published, tell
from tests.operators.records import (
    packed,
    record,
    replacing,
    turn_start,
    user,
)

HEADER = {"type": "session", "id": "s-1", "version": 0, "cwd": "/w"}


def shown(*lines: Line) -> tuple[int, dict[str, int]]:
    folded = fold(lines, "s-1")
    return folded.overview.next_seq, folded.overview.quality


def test_an_equal_line_again_publishes_nothing() -> None:
    assert published(user(seq=0, time=0), user(seq=0, time=0))[1] == []


def test_another_line_of_the_same_seq_is_a_conflict_and_the_first_stays() -> None:
    told = tell(user("one", seq=0), user("two", seq=0))
    assert told.quality == {"seq_conflict": 1}
    assert b"one" in bytes(told.data("user:0").content)


def test_a_line_older_than_the_last_64_is_not_compared() -> None:
    records = [user(str(n)) for n in range(DIGESTS + 1)]
    assert tell(*records, user("other", seq=0)).quality == {}
    assert tell(*records, user("other", seq=1)).quality == {"seq_conflict": 1}


def test_a_conflicting_line_counts_each_time() -> None:
    told = tell(user("one", seq=0), user("two", seq=0), user("two", seq=0))
    assert told.quality == {"seq_conflict": 2}


def test_of_a_packed_row_that_overlaps_the_new_members_are_folded() -> None:
    told = tell(packed("a", "b"), packed("x", "y", "c", seq0=0, time0=0))
    assert bytes(told.data("assistant:0").blocks) == b'[{"type":"text","text":"abc"}]'
    assert (told.overview.next_seq, told.quality) == (3, {})


def test_a_line_that_overlapped_is_no_conflict_when_it_comes_again() -> None:
    short, long = (packed(*words, seq0=0, time0=0) for words in (("a",), ("a", "b")))
    assert shown(*lines_of(short, long, short, long)) == (2, {})


def test_a_gap_has_a_row_and_the_fold_goes_on() -> None:
    told = tell(turn_start(), user(seq=4))
    row = told.row("gap:4")
    assert (row.anchor_seq, row.anchor_rank, row.visibility) == (1, 0, "auxiliary")
    assert (row.data.first, row.data.last, row.time, row.rev, row.turn) == (1, 3, None, 4, 1)
    assert (told.keys(), told.quality) == (["gap:4", "user:4"], {"gap": 1})


@pytest.mark.parametrize("seq", [1, 3])
def test_what_arrives_late_for_a_gap_is_refused(seq: int) -> None:
    told = tell(user(), user(seq=4), user(seq=seq))
    assert told.refused == [("late", seq)]
    assert told.quality == {"fault": 1, "gap": 1}
    assert told.overview.next_seq == 5


def test_before_a_window_is_late_too_each_time() -> None:
    told = tell(user(seq=7), user(seq=3), user(seq=3))
    assert told.refused == [("late", 3), ("late", 3)]
    assert told.quality == {"fault": 2}


def test_a_fault_takes_its_seq_and_makes_no_row() -> None:
    told = tell(user(), user(surfaceOp="appendix"), user())
    assert (told.refused, told.keys()) == ([("surfaceop-invalid", 1)], ["user:0", "user:2"])
    assert (told.counts, told.quality) == ({"user": 2}, {"fault": 1})


def test_a_fault_moves_next_seq_alone() -> None:
    overview = tell(user(), record("turn/start", {"turn": 1}, surfaceOp="append")).overview
    assert (overview.as_of_seq, overview.next_seq, overview.seq) == (0, 2, 1)
    assert (overview.last_time, overview.shapes) == (0, ())


def test_a_faulted_line_again_is_silent() -> None:
    assert published(user(surfaceOp=1, seq=0), user(surfaceOp=1, seq=0))[1] == []


def test_a_fault_beyond_the_next_seq_leaves_a_gap() -> None:
    told = tell(user(), user(surfaceOp=None, seq=3))
    assert (told.keys(), told.quality) == (["user:0", "gap:3"], {"fault": 1, "gap": 1})


def test_the_first_header_counts_and_later_ones_are_silent() -> None:
    first, *_, other = published(HEADER, user(), HEADER | {"cwd": "/other"})
    assert other == []
    (overview,) = first
    assert isinstance(overview, SessionOverview)
    assert (overview.seq, overview.next_seq, overview.as_of_seq) == (-1, 0, None)
    assert tell(HEADER, user(), HEADER | {"cwd": "/other"}).overview.cwd == "/w"


def test_a_header_after_events_still_counts() -> None:
    assert tell(user(), HEADER).overview.cwd == "/w"


# --- generations ----------------------------------------------------------------------------------


def test_a_higher_epoch_starts_anew_and_says_so() -> None:
    out, state = Out(), Session("s-1")
    state.take(lines_of(user())[0], out)
    entered = enter_epoch(state, 2, out)
    assert entered is not None
    *_, reset, overview = out.changes(entered)
    assert (reset.op, reset.seq, reset.epoch, reset.position) == ("reset", -1, 2, -1)  # type: ignore[union-attr]
    assert isinstance(overview, SessionOverview)
    assert (overview.seq, overview.epoch, overview.counts) == (-1, 2, {})


def test_what_the_old_epoch_published_in_the_batch_stays_before_the_reset() -> None:
    out, state = Out(), Session("s-1")
    state.take(lines_of(user("old"))[0], out)
    entered = enter_epoch(state, 1, out)
    assert entered is not None
    entered.take(lines_of(user("new"))[0], out)
    told = [(type(change).__name__, change.epoch) for change in out.changes(entered)]  # type: ignore[union-attr]
    assert told == [
        ("SurfaceChange", 0),
        ("TranscriptRow", 0),
        ("SurfaceChange", 1),
        ("SurfaceChange", 1),
        ("TranscriptRow", 1),
        ("SessionOverview", 1),
    ]


def test_a_lower_epoch_is_stale_and_an_equal_one_goes_on() -> None:
    state, out = Session("s-1", epoch=3), Out()
    assert enter_epoch(state, 2, out) is None
    assert enter_epoch(state, 3, out) is state
    assert not out.changed


# --- strict ---------------------------------------------------------------------------------------


def strictly(*lines: Line, first_seq: int = 0) -> tuple[int, list[tuple[str, int | None]]]:
    state, out = Session("s-1", strict=True, first_seq=first_seq), Out()
    for line in lines:
        state.take(line, out)
    return state.next_seq, [(refused.reason, refused.seq) for refused in out.refused]


@pytest.mark.parametrize(
    ("seqs", "refused"),
    [((0, 2), 2), ((0, 0), 0), ((1,), 1)],
    ids=["a gap", "a duplicate", "another first seq"],
)
def test_strict_refuses(seqs: tuple[int, ...], refused: int) -> None:
    lines = lines_of(*(user(seq=seq) for seq in seqs))
    assert strictly(*lines)[1] == [("seq-not-contiguous", refused)]


def test_strict_takes_no_seq_for_what_it_refuses() -> None:
    unknown = lines_of(user(), record("acme/new"))
    assert strictly(*unknown) == (1, [("unknown-required-event", 1)])
    bad = lines_of(user(), replacing(user(), 4, 4))
    assert strictly(*bad) == (1, [("replace-start-not-found", 1)])


def test_strict_may_start_elsewhere() -> None:
    assert strictly(*lines_of(user(), user(), first=5), first_seq=5) == (7, [])


def test_times_may_go_back() -> None:
    told = tell(user(time=90), user(time=10), {**user(), "time": "soon"})
    assert [row.time for row in told.rows.values()] == [90, 10, None]
    assert told.overview.last_time == 10
