from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway.changes import Change
from pipeline.gateway.coalescing import Coalesced, Shared, coalesce, shared_of
from pipeline.gateway.frames import Append, Current, Keyed, Overview, Row
from pipeline.gateway.keyed import KeyedStore
from tests.pipeline.gateway.live import overview, row, step, text


def fewer(*changes: Change) -> Coalesced:
    return coalesce([shared_of(change) for change in changes])


def told(*changes: Change) -> list[Any]:
    """What is left: kinds with what tells them apart."""
    found: list[Any] = []
    for shared in fewer(*changes).frames:
        frame = shared.frame
        if isinstance(frame, Append):
            found.append((frame.key, frame.block, frame.offset, frame.text, frame.rev))
        elif isinstance(frame, Row):
            found.append((frame.key, frame.rev))
        elif isinstance(frame, Overview):
            found.append(frame.seq)
    return found


def test_text_side_by_side_is_joined() -> None:
    found = fewer(text("ab", 0, 2), text("\U0001f600", 2, 3), text("d", 3, 4))
    assert [shared.frame for shared in found.frames] == [
        Append("s", 0, "assistant:1", 4, 0, "text", 0, "ab\U0001f600d")
    ]
    assert (found.joined, found.superseded) == (2, 0)


def test_text_of_other_rows_and_sessions_in_between_does_not_matter() -> None:
    other = text("x", 0, 3, key="assistant:2")
    far = text("y", 0, 9, session="t")
    assert told(text("a", 0, 2), other, far, text("b", 1, 4)) == [
        ("assistant:1", 0, 0, "ab", 4),
        ("assistant:2", 0, 0, "x", 3),
        ("assistant:1", 0, 0, "y", 9),
    ]


def test_text_is_not_joined_over_another_block_of_its_row() -> None:
    block = text("x", 0, 3, block=1)
    assert len(told(text("a", 0, 2), block, text("b", 1, 4))) == 3


def test_text_is_not_joined_over_a_hole() -> None:
    assert len(told(text("a", 0, 2), text("b", 2, 4))) == 2


def test_text_is_not_joined_over_a_structural_change_of_its_session() -> None:
    assert len(told(text("a", 0, 2), row("user:3", 3), text("b", 1, 4))) == 3
    found = fewer(text("a", 0, 2), step(3), text("b", 1, 4))
    assert len(found.frames) == 3
    other = row("user:3", 3, session="t")
    assert len(told(text("a", 0, 2), other, text("b", 1, 4))) == 2


def test_text_is_not_joined_over_an_answer() -> None:
    frames = [shared_of(text("a", 0, 2)), Shared(Current("s", 0)), shared_of(text("b", 1, 3))]
    assert len(coalesce(frames).frames) == 3


def test_an_upsert_supersedes_what_came_before_of_its_row_and_no_more() -> None:
    frames = (row("assistant:1", 1), text("a", 0, 2), row("user:3", 3), row("assistant:1", 4))
    assert told(*frames, text("b", 1, 5)) == [
        ("user:3", 3),
        ("assistant:1", 4),
        ("assistant:1", 0, 1, "b", 5),
    ]


def test_text_that_came_early_is_not_superseded_by_the_row_it_is_for() -> None:
    assert told(text("a", 0, 9), row("assistant:1", 4)) == [
        ("assistant:1", 0, 0, "a", 9),
        ("assistant:1", 4),
    ]


def test_an_overview_supersedes_one_of_equal_seq_and_steps_of_a_surface_are_all_kept() -> None:
    assert told(overview(3), overview(3), overview(4)) == [4]
    assert len(fewer(step(1), step(2)).frames) == 2


def test_an_epoch_that_is_over_is_superseded() -> None:
    assert told(row("user:1", 7), overview(7), overview(-1, epoch=1)) == [-1]


def test_a_frame_is_serialised_once_for_all() -> None:
    shared = shared_of(row())
    assert shared.payload is shared.payload
    assert shared.event is shared.event
    assert shared.payload in shared.event


# --- whatever is left out, a client ends with the same


def started(rev: int) -> Change:
    blocks = [{"type": "text", "text": ""}, {"type": "text", "text": ""}]
    return row("assistant:1", rev, data={"blocks": blocks}, anchor_seq=1)


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """A row that is begun anew, lengthened in two blocks, amid others."""
    found, lengths = [started(0)], [0, 0]
    for rev in range(1, draw(st.integers(1, 12))):
        kind = draw(st.sampled_from("ttttrso"))
        if kind == "t":
            block = draw(st.integers(0, 1))
            words = draw(st.text("a\U0001f600", min_size=1, max_size=3))
            found.append(text(words, lengths[block], rev, block=block))
            lengths[block] += len(words)
        elif kind == "r":
            found.append(started(rev))
            lengths = [0, 0]
        else:
            found.append(row("user:0", rev) if kind == "s" else overview(rev))
    return found


@given(histories(), st.integers(0, 12))
def test_coalescing_does_not_show(history: list[Change], read: int) -> None:
    whole, less = KeyedStore(), KeyedStore()
    frames = [shared_of(change) for change in history]
    for shared in frames:
        whole.apply(decoded(shared))
    for shared in frames[:read]:  # taken before it was too much
        less.apply(decoded(shared))
    found = coalesce(frames[read:])
    for shared in found.frames:
        less.apply(decoded(shared))
    assert less.session("s").rows == whole.session("s").rows
    assert less.session("s").overview == whole.session("s").overview
    assert not less.session("s").wanted
    assert len(found.frames) + found.joined + found.superseded == len(frames[read:])


def decoded(shared: Shared) -> dict[str, Any]:
    import json

    assert isinstance(shared.frame, Keyed)
    frame: dict[str, Any] = json.loads(shared.payload)
    return frame
