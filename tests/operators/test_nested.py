"""Nested dispatches under a call: projection.md §5.2."""

from typing import Any

import pytest

from operators.changes import SubCall
from operators.nested import MAX_DEPTH
from tests.operators.build import Told, json_of, published, rows_in, tell
from tests.operators.records import (
    Json,
    call,
    nested,
    result,
    step_end,
    step_start,
    turn_end,
    turn_start,
)

OPEN = (turn_start(), step_start(), call())  # the root is tool:2, the next seq is 3


def tree(subs: tuple[SubCall, ...]) -> Any:
    return {sub.call_id: tree(sub.sub_calls) for sub in subs}


def subs(told: Told, key: str = "tool:2") -> tuple[SubCall, ...]:
    found: tuple[SubCall, ...] = told.data(key).sub_calls
    return found


def dropped(told: Told) -> int:
    return told.quality.get("dispatch_dropped", 0)


def test_a_start_and_its_settling() -> None:
    (sub,) = subs(tell(*OPEN, nested()))
    assert (sub.name, json_of(sub.arguments), sub.status) == ("s", {}, "running")
    assert (sub.start_seq, sub.end_seq, sub.content, sub.error) == (3, None, None, None)
    told = tell(*OPEN, nested(), nested(settled=True))
    (sub,) = subs(told)
    assert (sub.status, sub.start_seq, sub.end_seq, told.row("tool:2").rev) == ("ok", 3, 4, 4)


def test_a_settling_without_a_start_still_makes_the_child() -> None:
    (sub,) = subs(tell(*OPEN, nested(settled=True)))
    assert (sub.status, sub.start_seq, sub.end_seq, sub.name) == ("ok", None, 3, "s")
    (sub,) = subs(tell(*OPEN, nested(settled=True), nested()))
    assert (sub.status, sub.start_seq, sub.end_seq) == ("ok", 4, 3)


def test_a_start_again_publishes_nothing() -> None:
    assert rows_in(published(*OPEN, nested(), nested())[-1]) == []


def test_order_of_first_mention() -> None:
    told = tell(
        *OPEN, nested("b"), nested("a1"), nested("c", parent="b"), nested("b", settled=True)
    )
    assert list(tree(subs(told))) == ["b", "a1"]
    assert tree(subs(told)) == {"b": {"c": {}}, "a1": {}}


def test_a_child_shows_when_its_parent_was_mentioned() -> None:
    orphan = (*OPEN, nested("c", parent="p"))
    assert rows_in(published(*orphan)[-1]) == []
    assert [row.kind for row in rows_in(published(*orphan, step_end())[-1])] == ["tool"]
    assert rows_in(published(*orphan, result(), step_end())[-1]) == []
    assert tree(subs(tell(*orphan, nested("p")))) == {"p": {"c": {}}}
    assert tree(subs(tell(*orphan, nested("p", settled=True)))) == {"p": {"c": {}}}


def test_before_the_root_exists_they_wait() -> None:
    told = tell(turn_start(), step_start(), nested(), nested(settled=True), call())
    (sub,) = subs(told, "tool:4")
    assert (sub.start_seq, sub.end_seq, sub.status, told.row("tool:4").rev) == (2, 3, "ok", 4)
    told = tell(turn_start(), step_start(), nested(settled=True), result())
    assert tree(subs(told, "tool:3")) == {"s": {}}


def test_what_waits_when_a_turn_ends_is_dropped_and_counted() -> None:
    told = tell(turn_start(), nested("s"), nested("t"), turn_end(), call())
    assert (dropped(told), subs(told, "tool:4")) == (2, ())


@pytest.mark.parametrize(
    "edges",
    [
        [nested("s", parent="s")],
        [nested("s"), nested("s", parent="t")],
        [nested("a")],
        [nested("s", parent="t"), nested("t", parent="s")],
        [nested(root=None)],
        [nested(root="")],
        [nested(parent=None)],
    ],
    ids=["self", "second parent", "the root", "cycle", "no root", "empty root", "no parent"],
)
def test_an_edge_that_cannot_be_is_dropped_and_counted(edges: list[Json]) -> None:
    log = (*OPEN, *edges)
    assert dropped(tell(*log)) == 1
    assert rows_in(published(*log)[-1]) == []


def test_deeper_than_the_bound_is_dropped() -> None:
    chain = [nested(str(n), parent="a" if n == 1 else str(n - 1)) for n in range(1, MAX_DEPTH + 2)]
    told = tell(*OPEN, *chain)
    assert dropped(told) == 1
    depth, found = 0, subs(told)
    while found:
        depth, found = depth + 1, found[0].sub_calls
    assert depth == MAX_DEPTH


@pytest.mark.parametrize("boundary", [step_end(), turn_end()])
def test_they_end_with_the_roots_step_even_if_the_root_has_its_result(boundary: Json) -> None:
    told = tell(*OPEN, nested(), result(), boundary)
    (sub,) = subs(told)
    assert (sub.status, sub.end_seq, json_of(sub.error)) == (
        "interrupted",
        5,
        {"name": "Interrupted", "code": "interrupted"},
    )
    assert (told.data("tool:2").status, told.row("tool:2").rev) == ("ok", 5)


def test_after_the_boundary_at_once_and_a_settling_replaces_it() -> None:
    (sub,) = subs(tell(*OPEN, step_end(), nested()))
    assert (sub.status, sub.start_seq, sub.end_seq) == ("interrupted", 4, 3)
    (sub,) = subs(tell(*OPEN, step_end(), nested(), nested(settled=True)))
    assert (sub.status, sub.end_seq) == ("ok", 5)


def test_a_kept_call_of_a_closed_turn_takes_them_interrupted_at_their_own_seq() -> None:
    (sub,) = subs(tell(*OPEN, turn_end(), nested()))
    assert (sub.status, sub.start_seq, sub.end_seq) == ("interrupted", 4, 4)


def test_under_a_kept_call_of_a_turn_that_opened_again_they_end_with_it() -> None:
    (sub,) = subs(tell(*OPEN, turn_end(), turn_start(), nested(), turn_end()))
    assert (sub.status, sub.start_seq, sub.end_seq) == ("interrupted", 5, 6)


def test_they_hang_in_the_latest_row_of_a_reused_id() -> None:
    told = tell(*OPEN, nested("s"), result(), call(), nested("t"))
    assert (tree(subs(told)), tree(subs(told, "tool:5"))) == ({"s": {}}, {"t": {}})
