"""The surface fold: projection.md §4, and its windows, §7."""

from typing import Any

import pytest

from operators.changes import SurfaceChange
from tests.operators.build import Told, json_of, tell
from tests.operators.records import (
    checkpoint,
    record,
    replacing,
    result,
    say,
    system,
    user,
)


def last(told: Told) -> SurfaceChange:
    return told.surface[-1]


def users(count: int) -> list[dict[str, Any]]:
    return [user(str(n), id_=f"m-{n}") for n in range(count)]


def test_append_goes_to_the_tail() -> None:
    told = tell(*users(3))
    assert told.nodes == [0, 1, 2]
    change = last(told)
    assert (change.op, change.seq, change.position, change.generation) == ("append", 2, 2, 0)
    assert (change.start, change.end, change.shadowed, change.partial) == (None, None, (), False)
    assert (change.type, change.time, json_of(change.message)["id"]) == ("user/message", 20, "m-2")


def test_replace_takes_the_place_of_what_it_shadows() -> None:
    told = tell(*users(4), replacing(user(), 1, 2))
    assert told.nodes == [0, 4, 3]
    change = last(told)
    assert (change.op, change.start, change.end, change.shadowed) == ("replace", 1, 2, (1, 2))
    assert (change.position, change.generation, told.state.surface.generation) == (1, 1, 1)


def test_a_range_is_of_positions_not_of_numbers() -> None:
    first = replacing(user(), 0, 0)  # node 2 stands before node 1 now
    assert tell(*users(2), first, replacing(user(), 2, 1)).nodes == [3]
    told = tell(*users(2), first, replacing(user(), 1, 2))
    assert told.refused == [("replace-start-after-end", 3)]


def test_the_node_of_an_empty_message_stays_and_projects_to_nothing() -> None:
    told = tell(say(""), say("hi"))
    assert told.nodes == [0, 1]
    assert told.surface[0].message is None
    assert json_of(told.surface[1].message)["role"] == "assistant"


# --- faults ---------------------------------------------------------------------------------------

OP = {"op": "replace", "start": 0, "end": 0}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({**user(), "surfaceOp": None}, "surfaceop-invalid"),
        ({**user(), "surfaceOp": "replace"}, "surfaceop-invalid"),
        ({**user(), "surfaceOp": {**OP, "more": 1}}, "surfaceop-invalid-replace"),
        ({**user(), "surfaceOp": {"op": "replace", "start": 0}}, "surfaceop-invalid-replace"),
        ({**user(), "surfaceOp": {**OP, "endSeq": 0}}, "surfaceop-invalid-replace"),
        ({**user(), "surfaceOp": {**OP, "end": True}}, "surfaceop-invalid-replace"),
        ({"type": "user/message", "data": user()["data"]}, "surfaceop-missing"),
        (record("turn/start", {"turn": 1}, surfaceOp="append"), "surfaceop-on-log-only"),
        (record("turn/start", {"turn": 1}, surfaceOp=None), "surfaceop-on-log-only"),
        (record("acme/x", surfaceOp="append"), "surfaceop-on-log-only"),
        (record("session/title", sourceEventSeqs=[0]), "sources-on-log-only"),
        (record("session/title", sourceEventSeqs=None), "sources-on-log-only"),
        (replacing(user(), 7, 9), "replace-start-not-found"),
        (replacing(user(), 0, 9), "replace-end-not-found"),
        (replacing(user(), 3, 3), "replace-start-not-found"),
        (replacing(user(), 1, 0, []), "replace-start-after-end"),
        ({**replacing(user(), 0, 0), "sourceEventSeqs": None}, "sources-not-array"),
        ({**user(), "sourceEventSeqs": {}}, "sources-not-array"),
        (replacing(user(), 0, 0, []), "sources-empty"),
        ({**user(), "sourceEventSeqs": []}, "sources-empty"),
        ({**user(), "sourceEventSeqs": [0, "1"]}, "sources-element"),
        ({**user(), "sourceEventSeqs": [[1, 0]]}, "sources-element"),
        ({**user(), "sourceEventSeqs": [1, 1, -1]}, "sources-element"),
        ({**user(), "sourceEventSeqs": [9, 0, 0]}, "sources-duplicate"),
        ({**user(), "sourceEventSeqs": [0, [0, 1]]}, "sources-duplicate"),
        ({**user(), "sourceEventSeqs": [3]}, "sources-not-earlier"),
        (replacing(user(), 0, 1, [0, 3]), "sources-not-earlier"),
        (replacing(user(), 0, 1, [0]), "sources-missing-shadowed"),
        ({"type": "user/message", "data": {}, "surfaceOp": OP}, "sources-missing-shadowed"),
    ],
)
def test_rejected(line: dict[str, Any], reason: str) -> None:
    told = tell(*users(2), record("plan/mode"), line)
    assert told.refused == [(reason, 3)]
    assert (told.nodes, len(told.surface), list(told.rows)) == ([0, 1], 2, ["user:0", "user:1"])


def test_an_assistant_append_may_know_that_it_has_no_chunks() -> None:
    assert tell({**say("hi"), "sourceEventSeqs": []}).refused == []


def test_sources_may_cite_more_and_in_ranges() -> None:
    told = tell(*users(3), record("plan/mode"), replacing(user(), 0, 1, [[0, 3]]))
    assert (told.nodes, told.overview.shapes) == ([4, 2], ("replace:start", "sources:ranges"))


def test_a_faulted_node_is_none() -> None:
    told = tell(user(), user(surfaceOp=1), replacing(user(), 1, 1))
    assert told.refused[1] == ("replace-start-not-found", 2)


# --- rewrites -------------------------------------------------------------------------------------


def direct(words: str, failed: Any = False, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"id": "r", "role": "tool", "source": {"kind": "tool", "callId": "a"}}
    message |= {"toolCallId": "a", "content": [{"type": "text", "text": words}], "isError": failed}
    data = {"turn": 1, "step": 1, "message": message | more}
    return record("tool/result", data, surfaceOp="append")


def test_a_rewrite_changes_the_content_of_one_result() -> None:
    told = tell(direct("long"), replacing(direct("short"), 0, 0))
    assert (told.nodes, told.refused) == ([1], [])


@pytest.mark.parametrize(
    ("log", "rewrite", "reason"),
    [
        ([user()], replacing(direct("x"), 0, 0), "rewrite-wrong-target"),
        ([direct("x"), direct("y")], replacing(direct("x"), 0, 1), "rewrite-not-one-node"),
        ([direct("x")], replacing(direct("y", failed=True), 0, 0), "rewrite-changes-more"),
        ([direct("x", n=1)], replacing(direct("x", n=True), 0, 0), "rewrite-changes-more"),
        ([direct("x", n=None)], replacing(direct("x"), 0, 0), "rewrite-changes-more"),
        ([direct("x", n=1)], replacing(direct("y", n=1.0), 0, 0), None),
        ([direct("x", n={"a": 1, "b": 2})], replacing(direct("y", n={"b": 2, "a": 1}), 0, 0), None),
    ],
)
def test_rewrites(log: list[dict[str, Any]], rewrite: dict[str, Any], reason: str | None) -> None:
    refused = tell(*log, rewrite).refused
    assert refused == ([] if reason is None else [(reason, len(log))])


def test_another_type_may_replace_a_result() -> None:
    assert tell(direct("x"), replacing(user(), 0, 0)).nodes == [1]


# --- the protected head ---------------------------------------------------------------------------


def test_the_system_message_at_the_head_is_replaced_by_its_like_alone() -> None:
    assert tell(system(), user(), replacing(system("new"), 0, 0)).nodes == [2, 1]
    for covering in (replacing(user(), 0, 0), replacing(system(), 0, 1)):
        assert tell(system(), user(), covering).refused == [("head-protected", 2)]


def test_a_later_system_message_is_not_protected() -> None:
    assert tell(user(), system(), replacing(user(), 1, 1)).nodes == [0, 2]


def test_the_replaced_head_is_protected_again() -> None:
    told = tell(system(), replacing(system("new"), 0, 0), replacing(user(), 1, 1))
    assert told.refused == [("head-protected", 2)]


def test_the_rewrite_comes_before_the_head() -> None:
    told = tell(system(), replacing(result(), 0, 0))
    assert told.refused == [("rewrite-wrong-target", 1)]


# --- images ---------------------------------------------------------------------------------------


def offload(*targets: tuple[int, list[int]]) -> dict[str, Any]:
    made = [{"seq": seq, "imageIndexes": images} for seq, images in targets]
    return record("image/offload", {"targets": made})


def test_an_offload_amends_and_adds_no_node() -> None:
    told = tell(user(), result(), offload((0, [0, 2]), (1, [1])))
    change = last(told)
    assert (change.op, change.position, change.generation) == ("amend", -1, 0)
    assert (change.start, change.shadowed, change.message) == (None, (), None)
    assert [(t.seq, t.images) for t in change.targets] == [(0, (0, 2)), (1, (1,))]
    assert (told.nodes, told.keys()) == ([0, 1], ["user:0", "tool:1"])
    assert told.quality == {"reader:toolPairing": 1}


def test_targets_that_are_no_such_node_are_noted_one_by_one() -> None:
    told = tell(user(), say("hi"), replacing(user(), 0, 0), offload((0, [0]), (1, [0]), (2, [0])))
    assert [t.seq for t in last(told).targets] == [2]
    assert told.quality == {"malformed": 2}
    told = tell(user(), offload((9, [0])))
    assert (len(told.surface), told.quality) == (1, {"malformed": 1})


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replace", "nodes", "shadowed"),
    [
        (replacing(user(), 2, 11, [2, 11]), [10, 13, 12], (11,)),
        (replacing(user(), 2, 11, [2, 10, 11]), [13, 12], (10, 11)),
        (replacing(user(), 2, 4, [2, 3, 4]), [13, 10, 11, 12], ()),
        (replacing(user(), 2, 4, [2, 4, 11]), [10, 13, 12], (11,)),
        (replacing(user(), 11, 2, [2, 11]), [10, 13, 12], (11,)),
    ],
)
def test_an_endpoint_before_a_window(
    replace: dict[str, Any], nodes: list[int], shadowed: tuple[int, ...]
) -> None:
    told = tell(*users(3), replace, first=10)
    assert (told.nodes, last(told).shadowed, last(told).partial) == (nodes, shadowed, True)
    assert last(told).generation == 1


def test_in_a_gap_it_stands_after_the_last_node_before_its_start() -> None:
    told = tell(user(), user(seq=5), user(), replacing(user(), 2, 3))
    assert (told.nodes, last(told).partial, last(told).position) == ([0, 7, 5, 6], True, 1)


def test_a_known_endpoint_must_be_cited_and_an_expected_one_be_there() -> None:
    told = tell(*users(2), replacing(user(), 2, 11, [2]), replacing(user(), 2, 14), first=10)
    assert told.refused == [("sources-missing-shadowed", 12), ("replace-end-not-found", 13)]


def test_whole_ranges_in_a_window_are_not_partial() -> None:
    told = tell(*users(2), replacing(user(), 10, 11), first=10)
    assert (told.nodes, last(told).partial) == ([12], False)


def test_what_cannot_be_checked_in_a_window_is_accepted() -> None:
    unseen_target = tell(replacing(result("b"), 2, 2), first=10)
    assert (unseen_target.nodes, unseen_target.refused) == ([10], [])
    maybe_head = tell(system(), user(), replacing(user(), 10, 11), first=10)
    assert (maybe_head.nodes, maybe_head.refused) == ([12], [])
    after_a_gap = tell(record("plan/mode"), {**system(), "seq": 4}, replacing(user(), 4, 4))
    assert after_a_gap.refused == []


def test_what_can_be_checked_in_a_window_is() -> None:
    told = tell(direct("x"), replacing(direct("y"), 2, 10), first=10)
    assert told.refused == [("rewrite-not-one-node", 11)]
    known_head = tell(system(), user(seq=4), replacing(user(), 0, 4))
    assert known_head.refused == [("head-protected", 5)]


def test_partial_replacements_each_stand_right_after_the_last_earlier_node() -> None:
    told = tell(user(), user(seq=5), *(replacing(user(), n, n) for n in (2, 2, 3)))
    assert told.nodes == [0, 8, 7, 6, 5]
    assert [change.position for change in told.surface if change.partial] == [1, 1, 1]


def test_a_checkpoint_is_a_node_as_any_other() -> None:
    told = tell(*users(2), checkpoint(0, 1, [0, 1]), user())
    assert told.nodes == [2, 3]
