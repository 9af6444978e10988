"""In what order a terminal shows rows, and that nothing on it is taken back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from operators import changes as c
from operators.changes import RowData, TranscriptRow
from pipeline.render import plain
from pipeline.scroll import Scroll
from tests.pipeline.test_render import row as bare

EMPTY = Raw(b"[]")


def row(kind: str, seq: int, data: RowData, **fields: Any) -> TranscriptRow:
    named = {"key": f"{kind}:{seq}", "anchor_seq": seq, "rev": seq} | fields
    return bare(kind, data, **named)


def user(seq: int) -> TranscriptRow:
    return row("user", seq, c.MessageData(None, Raw(b'"hi"'), Raw(b"{}")))


def tool(seq: int, status: str, **fields: Any) -> TranscriptRow:
    return row("tool", seq, c.ToolData("c", "bash", None, status, **fields))


def assistant(seq: int, status: str, **fields: Any) -> TranscriptRow:
    return row("assistant", seq, c.AssistantData(status), **fields)


def compaction(seq: int, status: str, **data: Any) -> TranscriptRow:
    visibility = "transcript" if status == "landed" else "auxiliary"
    return row("compaction", seq, c.CompactionData("k", "auto", status, **data),
               visibility=visibility)  # fmt: skip


def command(seq: int, status: str) -> TranscriptRow:
    return row("command", seq, c.CommandData("i", "do", None, status))


def retry(seq: int, status: str, attempts: int = 1) -> TranscriptRow:
    tries = tuple(c.Attempt(seq + at, 0, at, 3, 1) for at in range(attempts))
    return row("retry", seq, c.RetryData("r", None, None, status, tries))


def play(*steps: list[TranscriptRow], auxiliary: bool = False) -> list[list[str]]:
    """What each step shows (again: with a star), and what is left at the end."""
    scroll = Scroll(plain, auxiliary=auxiliary)
    shown = [[p.row.key + "*" * p.again for p in scroll.take(rows)] for rows in steps]
    return [*shown, [piece.row.key + "*" * piece.again for piece in scroll.rest()]]


def test_a_row_that_runs_holds_up_what_stands_after_it() -> None:
    assert play(
        [user(1)], [tool(2, "running")], [tool(3, "running")], [tool(3, "ok")], [tool(2, "error")]
    ) == [["user:1"], [], [], [], ["tool:2", "tool:3"], []]


def test_what_still_runs_at_the_end_is_shown_as_it_stands() -> None:
    assert play([tool(2, "running"), assistant(3, "settled")]) == [[], ["tool:2", "assistant:3"]]


def test_a_call_is_not_settled_before_its_nested_ones() -> None:
    nested = (c.SubCall("n", "x", None, "running", None, None, 1, None),)
    outer = (c.SubCall("o", "x", None, "ok", None, None, 1, 2, nested),)
    done = (c.SubCall("n", "x", None, "interrupted", None, None, 1, 4),)
    assert play([tool(2, "ok", sub_calls=outer)], [tool(2, "ok", sub_calls=done)]) == [
        [],
        ["tool:2"],
        [],
    ]


def test_a_row_that_went_away_or_moved_before_it_was_shown_was_never_there() -> None:
    gone = msgspec.structs.replace(assistant(3, "running"), deleted=True, data=None)
    moved = assistant(2, "interrupted", key="assistant:2", anchor_seq=9)
    assert play([assistant(2, "running"), assistant(3, "running"), user(4)], [gone], [moved]) == [
        [],
        [],
        ["user:4", "assistant:2"],
        [],
    ]


def test_what_changes_after_all_is_shown_again_and_only_if_one_sees_it() -> None:
    late = tool(2, "ok", content=Raw(b'"late"'))
    unseen = msgspec.structs.replace(late, rev=99, time=5)
    assert play([tool(2, "interrupted")], [late], [unseen], [user(7)]) == [
        ["tool:2"],
        ["tool:2*"],
        [],
        ["user:7"],
        [],
    ]


def test_what_is_no_part_of_the_transcript_after_all_is_withdrawn() -> None:
    marker = compaction(5, "landed")
    gone = msgspec.structs.replace(marker, deleted=True, data=None)
    assert play([marker], [gone], [gone], [marker]) == [
        ["compaction:5"],
        ["compaction:5*"],
        [],
        ["compaction:5"],
        [],
    ]


def test_a_marker_waits_for_its_end_unless_the_log_goes_on() -> None:
    landed = compaction(5, "landed", start_seq=3)
    ended = compaction(5, "landed", start_seq=3, end_time=9, duration_ms=4)
    assert play([compaction(5, "running", start_seq=3)], [landed], [ended]) == [
        [],
        [],
        ["compaction:5"],
        [],
    ]
    assert play([landed], [user(8)], [ended]) == [
        [],
        ["compaction:5", "user:8"],
        ["compaction:5*"],
        [],
    ]


@pytest.mark.parametrize("auxiliary", [False, True])
def test_a_compaction_that_runs_holds_up_nothing(auxiliary: bool) -> None:
    running = compaction(3, "running")
    assert play([running], [user(4)], [compaction(3, "failed")], auxiliary=auxiliary) == [
        [],
        ["user:4"],
        ["compaction:3"] if auxiliary else [],
        [],
    ]


def test_a_command_is_waited_for_until_the_next_message() -> None:
    assert play([command(2, "running")], [assistant(3, "settled")], [command(2, "success")]) == [
        [],
        [],
        ["command:2", "assistant:3"],
        [],
    ]
    assert play([command(2, "running"), user(5)], [command(2, "success")]) == [
        ["command:2", "user:5"],
        ["command:2*"],
        [],
    ]


def test_a_retry_is_shown_with_all_its_attempts_once_something_came_of_it() -> None:
    error = row("turn-error", 8, c.TurnErrorData("no", None, masked=False))
    assert play(
        [retry(2, "scheduled")], [retry(2, "started")], [retry(2, "scheduled", 2)], [error],
        [retry(2, "started", 2)], [retry(2, "cancelled", 3)],
    ) == [[], [], [], ["retry:2", "turn-error:8"], ["retry:2*"], ["retry:2*"], []]  # fmt: skip
    assert play([retry(2, "cancelled")]) == [["retry:2"], []]
    assert play([retry(2, "started"), user(3)], [retry(2, "started", 2)], [user(9)]) == [
        ["retry:2", "user:3"],
        ["retry:2*"],
        ["user:9"],
        [],
    ]


def test_auxiliary_rows_are_counted_or_shown() -> None:
    gap = row("gap", 3, c.GapData(1, 2), visibility="auxiliary")
    assert play([gap, user(4)], auxiliary=True) == [["gap:3", "user:4"], []]
    scroll = Scroll(plain)
    assert [piece.row.key for piece in scroll.take([gap, user(4)])] == ["user:4"]
    assert scroll.hidden == {"gap:3"}


def test_what_is_underway_is_a_compaction_before_all_else() -> None:
    scroll = Scroll(plain)
    scroll.take([user(1), tool(2, "running"), tool(3, "running")])
    assert scroll.underway == tool(2, "running")
    scroll.take([compaction(5, "running")])
    assert scroll.underway == compaction(5, "running")
    scroll.take([compaction(5, "landed"), tool(2, "ok"), tool(3, "ok")])
    assert scroll.underway is None
