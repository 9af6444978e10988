"""Rows of messages, unknown events, and what a replacement may change: projection.md §5."""

from typing import Any

import pytest

from tests.operators.build import json_of, published, rows_in, tell
from tests.operators.records import (
    Json,
    call,
    checkpoint,
    compaction_start,
    delta,
    done,
    record,
    replacing,
    result,
    retry,
    retry_started,
    run,
    say,
    step_end,
    step_start,
    system,
    turn_end,
    turn_start,
    user,
)


def test_a_users_message() -> None:
    told = tell(turn_start(), step_start(), user("hi", source={"kind": "user", "rpcId": 1}))
    row = told.row("user:2")
    assert (row.anchor_seq, row.anchor_rank, row.rev, row.visibility) == (2, 0, 2, "transcript")
    assert (row.turn, row.step, row.time, row.truncated, row.deleted) == (1, 1, 20, (), False)
    data: Any = row.data
    assert (data.message_id, data.producer, data.form) == ("m-1", None, None)
    assert json_of(data.source) == {"kind": "user", "rpcId": 1}


@pytest.mark.parametrize(
    ("source", "producer", "form"),
    [
        ({"kind": "plugin", "plugin": "hooks", "form": "notice"}, "hooks", "notice"),
        ({"kind": "plugin"}, "plugin", None),
        (
            {
                "kind": "session-reference",
                "references": [{"label": x} for x in ("b", "", "a", "b")],
            },
            "b, a",
            None,
        ),
        ({"kind": "session-reference", "references": []}, "session-reference", None),
        ({"kind": "agent-instructions", "changes": [{"path": "x"}, {"path": "x"}]}, "x", None),
        (
            {"kind": "workspace-instructions", "changes": [{"path": "p"}, {"path": "q"}]},
            "p, q",
            None,
        ),
        ({"kind": "workspace-instructions", "changes": [{}]}, "workspace-instructions", None),
        ({"kind": "skill-invocation", "name": "s", "form": "instructions"}, "s", "instructions"),
        ({"kind": "skill-invocation", "name": ""}, "skill-invocation", None),
        ({"kind": "goal", "form": "letter"}, "goal", None),
        ({"kind": "goal", "form": "recall"}, "goal", "recall"),
    ],
)
def test_producer_and_form(source: Json, producer: str, form: str | None) -> None:
    told = tell(user(source=source))
    data = told.data("context:0")
    assert (data.producer, data.form) == (producer, form)
    assert told.counts == {"context": 1}


def test_a_developer_message_is_context_and_a_system_message_auxiliary() -> None:
    told = tell(system("x", "developer"), system())
    assert told.visible("context:0")
    assert (told.visible("system:1"), told.data("system:1").producer) == (False, None)
    assert told.counts == {"context": 1}
    assert (told.row("system:1").turn, told.row("system:1").step) == (1, 1)


@pytest.mark.parametrize(("ignorable", "fact"), [(True, 0), (False, 1), (None, 1)])
def test_an_unknown_event_is_kept_opaque(ignorable: bool | None, fact: int) -> None:
    envelope = {} if ignorable is None else {"ignorable": ignorable}
    told = tell(turn_start(), record("acme/new", {"turn": 9}, **envelope))
    row = told.row("unknown:1")
    data: Any = row.data
    assert (row.visibility, row.turn, row.time) == ("auxiliary", 1, 10)
    assert (data.type, data.ignorable) == ("acme/new", ignorable is True)
    assert told.quality.get("unknown_required_event", 0) == fact
    assert told.quality.get("malformed", 0) == (ignorable is False)


def test_an_ignorable_unknown_may_carry_a_marker_that_means_nothing() -> None:
    told = tell(record("acme/new", surfaceOp="append", ignorable=True))
    assert (told.keys(), told.nodes, told.refused) == (["unknown:0"], [], [])


def test_known_types_are_interpreted_though_ignorable() -> None:
    assert tell(user(ignorable=True)).keys() == ["user:0"]


def test_known_log_only_types_make_no_row() -> None:
    told = tell(record("plan/mode", {"active": True}), record("session/title", {"title": "T"}))
    assert (told.keys(), told.quality, told.overview.title) == ([], {}, "T")


@pytest.mark.parametrize(
    "copy",
    [
        replacing(user("copy"), 2, 2),
        replacing(say("copy"), 3, 3),
        replacing(result(words="copy"), 4, 4),
        replacing(system("copy"), 2, 4, [2, 3, 4]),
        replacing(user("copy", source={"kind": "goal"}), 2, 4, [2, 3, 4]),
    ],
)
def test_no_replacement_but_a_checkpoint_changes_a_row(copy: Json) -> None:
    log = (turn_start(), step_start(), user(), say("x"), result(), delta("y", step=2))
    assert rows_in(published(*log, copy)[-1]) == []


def test_rows_sort_by_anchor_rank_and_key() -> None:
    told = tell(record("turn/end", {"turn": 1, "reason": {"kind": "error"}}))
    assert told.keys() == ["turn-error:0", "turn:0"]


def test_what_the_log_does_not_say_is_null() -> None:
    bare = {"type": "user/message", "surfaceOp": "append"}
    for told in (tell(bare), tell(bare | {"data": None})):
        data = told.data("context:0")
        assert (data.message_id, bytes(data.content), bytes(data.source)) == (
            None,
            b"null",
            b"null",
        )


OPEN = (turn_start(), step_start())  # the next seq is 2
ELSEWHERE = {"turn": 7, "step": 8}


@pytest.mark.parametrize(
    ("key", "log", "place", "time"),
    [
        ("user:2", (user(),), (1, 1), 20),
        ("system:2", (system(),), (1, 1), 20),
        ("assistant:2", (delta("x", turn=7, step=8),), (7, 8), 20),
        ("assistant:2", (delta(" "), delta("x")), (1, 1), 30),
        ("assistant:2", (delta("x"), say("x")), (1, 1), 30),
        ("assistant:2", (delta("x"), turn_end()), (1, 1), 30),
        ("assistant:2", (say("x", turn=None, step=None),), (1, 1), 20),
        ("assistant:2", (say("x", turn=7, step=None),), (7, None), 20),
        ("tool:2", (call(), result()), (1, 1), 20),
        ("tool:2", (result(turn=7, step=8),), (7, 8), 20),
        ("tool:2", (result(), call()), (1, 1), 30),
        ("tool:2", (call(turn=None, step=None), step_end()), (1, 1), 20),
        ("command:2", (run(), turn_end(), done()), (1, 1), 20),
        ("command:2", (done(), turn_end(), run()), (None, None), 40),
        ("command:2", (run(), turn_end(), user(), checkpoint(4, 4, command="c")), (1, 1), 20),
        ("compaction:2", (compaction_start(), step_end()), (1, 1), 20),
        (
            "compaction:2",
            (compaction_start(), user(), turn_end(), checkpoint(3, 3)),
            (None, None),
            50,
        ),
        ("retry:2", (retry(step=8, turn=7), retry_started(step=8, turn=7)), (7, 8), 20),
        ("turn-error:2", (turn_end(reason={"kind": "error"}),), (1, None), 20),
        ("turn:2", (turn_end(),), (1, None), 20),
        ("max-tokens:3", (say("x"), turn_end(reason="max-tokens")), (1, None), 20),
        ("gap:5", (user(seq=5),), (1, 1), None),
        ("unknown:2", (record("acme/x", ELSEWHERE),), (1, 1), 20),
    ],
)
def test_turn_step_and_time_of_each_kind(
    key: str, log: tuple[Json, ...], place: tuple[int | None, int | None], time: int | None
) -> None:
    row = tell(*OPEN, *log).row(key)
    assert ((row.turn, row.step), row.time) == (place, time)
