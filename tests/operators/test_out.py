"""One batch's changes, coalesced: streams.md §2 *Coalescing*."""

from typing import Any

from operators.changes import AssistantData, Change, PartialText
from operators.session import Out, Session
from tests.operators.build import lines_of
from tests.operators.records import (
    Json,
    delta,
    retry,
    say,
    step_start,
    turn_start,
    user,
)


def batch(*records: Json) -> list[Change]:
    state, out = Session("s-1"), Out()
    for line in lines_of(*records):
        state.take(line, out)
    return out.changes(state)


def names(changes: list[Change]) -> list[str]:
    return [type(change).__name__ for change in changes]


OPEN = (turn_start(), step_start())


def test_the_order_is_surface_rows_partials_overview() -> None:
    changes = batch(user(), *OPEN, delta("x"), delta("y"), user())
    order = ["SurfaceChange"] * 2 + ["TranscriptRow"] * 3 + ["PartialText", "SessionOverview"]
    assert names(changes) == order


def test_only_the_last_upsert_of_a_row_goes_out() -> None:
    changes: list[Any] = batch(*OPEN, delta("x"), say("done"))
    (row,) = (change for change in changes if hasattr(change, "anchor_seq"))
    assert (row.data.status, row.rev) == ("settled", 3)


def test_partials_are_joined_per_block() -> None:
    log = (delta("a"), delta("b"), delta("c"), delta("x", 1), delta("d"), delta("y", 1))
    changes = batch(*OPEN, *log)
    partials = [change for change in changes if isinstance(change, PartialText)]
    assert [(p.block, p.offset, p.text) for p in partials] == [(0, 3, "d"), (1, 1, "y")]
    grown = batch(*OPEN, delta("a"), delta("b"), delta("c"))
    (joined,) = (change for change in grown if isinstance(change, PartialText))
    assert (joined.offset, joined.text, joined.first_seq, joined.last_seq) == (1, "bc", 3, 4)
    assert (joined.seq, joined.time) == (4, 40)


def test_a_published_row_holds_what_partials_before_it_said() -> None:
    changes: list[Any] = batch(*OPEN, delta("a"), delta("b"), delta("x", 1), delta("c"))
    row = next(change for change in changes if hasattr(change, "anchor_seq"))
    assert bytes(row.data.blocks) == b'[{"type":"text","text":"ab"},{"type":"text","text":"x"}]'
    assert (row.rev, changes[-2].text, changes[-2].offset) == (4, "c", 2)


def test_a_row_that_came_and_went_in_one_batch_is_deleted_once() -> None:
    changes: list[Any] = batch(*OPEN, delta("a"), delta("b"), retry())
    rows = [(c.key, c.deleted) for c in changes if hasattr(c, "anchor_seq")]
    assert rows == [("assistant:2", True), ("retry:4", False)]
    assert "PartialText" not in names(changes)


def test_what_changed_nothing_says_nothing() -> None:
    assert batch() == []


def test_a_file_has_no_live_reader() -> None:
    state, out = Session("s-1"), Out(partials=False)
    for line in lines_of(*OPEN, delta("a"), delta("b")):
        state.take(line, out)
    assert names(out.changes(state)) == ["TranscriptRow", "SessionOverview"]
    (row,) = state.open_rows()
    assert isinstance(row.data, AssistantData)
    assert bytes(row.data.blocks) == b'[{"type":"text","text":"ab"}]'
