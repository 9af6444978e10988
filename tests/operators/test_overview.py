"""The overview: projection.md §6."""

from typing import Any

import pytest

from operators.events import Shape
from operators.overview import SHAPE_NAMES, shape_names
from tests.operators.build import tell
from tests.operators.records import (
    Json,
    compaction_end,
    compaction_start,
    record,
    say,
    turn_end,
    turn_start,
    user,
)

ERROR = {"kind": "error", "error": {"message": "no", "code": "X"}}


@pytest.mark.parametrize(
    ("log", "state"),
    [
        ((), "idle"),
        ((turn_start(),), "running"),
        ((turn_start(), turn_end()), "idle"),
        ((turn_start(), turn_end(reason=ERROR)), "failed"),
        ((turn_start(), turn_end(reason="interrupted")), "interrupted"),
        ((turn_start(), turn_end(reason="aborted")), "idle"),
        ((turn_start(), turn_end(reason="max-tokens")), "idle"),
        ((turn_start(), turn_end(reason=ERROR), turn_start(2)), "running"),
        ((turn_start(), compaction_start()), "compacting"),
        ((compaction_start(), compaction_end(error="x")), "idle"),
        ((turn_start(), compaction_start(), compaction_end(error="x")), "running"),
    ],
)
def test_state(log: tuple[Json, ...], state: str) -> None:
    assert tell(*log).overview.state == state


def test_the_headers_fields() -> None:
    header = {
        "type": "session",
        "id": "s-1",
        "cwd": "/w",
        "createdAt": 7,
        "parentSession": "p",
        "origin": "subagent",
        "delegationDepth": 2,
        "more": 1,
    }
    o = tell(header).overview
    assert (o.cwd, o.created_at, o.parent, o.origin, o.depth) == ("/w", 7, "p", "subagent", 2)


def test_figures_of_the_moment() -> None:
    told = tell(user(), turn_start(3), user())
    o = told.overview
    assert (o.as_of_seq, o.next_seq, o.seq, o.last_time, o.open_turn) == (2, 3, 2, 20, 3)
    assert (o.surface_nodes, o.generation, o.session, o.epoch) == (2, 0, "s-1", 0)


def context(**data: Any) -> Json:
    return record("request/context", {"provider": "p", "model": "m", **data})


def test_route_and_window_are_the_newest() -> None:
    config = {"header": {"config": {"provider": "h", "model": "n"}}}
    assert tell(context(contextWindow=9)).overview.context_window == 9
    assert tell(context(contextWindow=9), context()).overview.context_window is None
    o = tell(context(), record("request/header", config)).overview
    assert (o.provider, o.model) == ("h", "n")
    o = tell(record("request/header", config), say("x")).overview
    assert (o.provider, o.model) == ("p", "m")


def test_the_last_title_wins() -> None:
    told = tell(*(record("session/title", {"title": title}) for title in ("a", "b", None)))
    assert told.overview.title == "b"


def test_shapes_are_sorted_names_of_accepted_events() -> None:
    every = shape_names(sum(Shape))
    assert every == tuple(sorted(every))
    assert len(every) == len(SHAPE_NAMES) == len(Shape)
    refused = {**user(), "surfaceOp": {"op": "replace", "start": 7, "end": 7}}
    assert tell(refused).overview.shapes == ()


def test_a_header_says_nothing_of_the_shapes() -> None:
    assert tell({"type": "session", "id": "s-1", "version": 4}).overview.shapes == ()
