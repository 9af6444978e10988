"""Goal, to-dos, plan mode, permissions and subagents (readers.md §6, §7)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from operators.readers.permissions import Bundle, Knobs, Presets
from operators.readers.plans import PlanValue
from operators.readers.subagents import Active, IdentityValue, TimingValue
from tests.operators.readers.hostile import CHANGE, CLEARED, GOAL
from tests.operators.readers.playing import Playing, tell
from tests.operators.records import record, turn_end, turn_start, user

Json = dict[str, Any]


def goal(change: Any) -> Json:
    return record("goal/change", change)


def blocked(reason: Any) -> Json:
    inner = {**GOAL, "phase": "blocked", "blockedReason": reason}
    return {**CHANGE, "operation": "block", "goal": inner}


@pytest.mark.parametrize(
    "wrong",
    [
        {key: value for key, value in CHANGE.items() if key != "kind"},
        {**CHANGE, "version": 2},
        {**CHANGE, "extra": None},
        {**CHANGE, "operation": "clear"},
        {**CHANGE, "operation": ["create"]},
        {**CHANGE, "updatedAt": 0},
        {**CHANGE, "roundsStarted": -1},
        {**CHANGE, "roundsStarted": True},
        {**CHANGE, "goal": {**GOAL, "objective": "  "}},
        {**CHANGE, "goal": {**GOAL, "phase": {}}},
        {**CHANGE, "goal": {**GOAL, "phase": "blocked"}},
        {**CHANGE, "goal": {**GOAL, "blockedReason": {"code": "c", "message": "m"}}},
        {**CHANGE, "goal": {**GOAL, "revision": 1.5}},
        {**CHANGE, "goal": [GOAL]},
        {**CLEARED, "cleared": None},
        blocked({"code": "c"}),
        "goal",
        None,
    ],
)
def test_a_malformed_goal_is_skipped(wrong: Any) -> None:
    played = tell(goal(CHANGE), goal(wrong))
    told = played.rooms["goal"].reference()
    assert told == {"goal": GOAL, "roundsStarted": 0, "createdAt": 1, "updatedAt": 2}
    assert played.quality == {"reader:goal": 1}


def test_a_goal_is_blocked_cleared_and_set_again() -> None:
    reason = {"code": "c", "message": "m"}
    played = tell(goal(CHANGE), goal(blocked(reason)))
    assert played.rooms["goal"].reference()["goal"]["blockedReason"] == reason
    assert tell(goal(CHANGE), goal(CLEARED)).rooms["goal"].value() is None
    assert tell(goal(CLEARED), goal({**CHANGE, "version": 1.0})).rooms["goal"].value() is not None


def todos(*items: Any) -> Json:
    return record("todo/write", {"todos": list(items)})


def test_todos_end_with_the_next_turn_not_with_their_own() -> None:
    item = {"content": "a", "status": "pending"}
    assert tell(todos(item), turn_end()).rooms["todos"].reference() == [item]
    assert tell(todos(item), todos()).rooms["todos"].value() == Raw(b"[]")
    assert tell(todos(item), turn_start()).rooms["todos"].value() == Raw(b"null")
    played = tell(todos(item), record("todo/write", {"todos": "all"}))
    assert played.rooms["todos"].reference() == [item]
    assert played.quality == {"reader:todos": 1}


def run(args: str | None = " go", id_: str | None = "k", name: str = "plan") -> Json:
    return record("command/run", {"commandId": id_, "name": name, "args": args})


def done(kind: str = "success", id_: str | None = "k") -> Json:
    return record("command/done", {"commandId": id_, "kind": kind})


def mode(active: Any) -> Json:
    return record("plan/mode", {"active": active})


@pytest.mark.parametrize(
    ("log", "active", "pending"),
    [
        ([run()], False, True),
        ([run("off")], False, False),
        ([run(), done()], False, True),
        ([run(), done(id_="other")], False, True),
        ([run(), done("error")], False, False),
        ([run(), done(), run(), done("error")], False, False),
        ([run(None), done()], False, False),
        ([run(name="compact"), done()], False, False),
        ([mode(True), run("\ufeffoff "), done()], True, True),
        ([mode(True), run(), done()], True, False),
        ([run(), mode(True)], True, False),
        ([run("off"), mode(True)], True, True),
        ([run(), done(), mode(True), mode("no")], True, False),
    ],
)
def test_plan(log: list[Json], active: bool, pending: bool) -> None:
    assert tell(*log).rooms["plan"].value() == PlanValue(active, pending)


def knobs(*log: tuple[str, Any]) -> Playing:
    keys = {"permission/preset": "preset", "sandbox/mode": "mode", "approval/policy": "policy"}
    return tell(*(record(type_, {keys[type_]: value}) for type_, value in log))


@pytest.mark.parametrize(
    ("log", "current"),
    [
        ([], "workspace-write"),
        ([("permission/preset", "danger-full-access")], "workspace-write"),
        ([("sandbox/mode", "read-only")], "custom"),
        (
            [("sandbox/mode", "danger-full-access"), ("approval/policy", "never")],
            "danger-full-access",
        ),
        ([("sandbox/mode", "danger-full-access"), ("sandbox/mode", 5)], "custom"),
    ],
)
def test_permissions(log: list[tuple[str, Any]], current: str) -> None:
    assert knobs(*log).rooms["permissions"].value().current() == current


def test_a_named_preset_counts_before_the_first_equal_one() -> None:
    same = Bundle("read-only", "ask")
    presets = Presets((("a", same), ("b", same)), same)
    assert Knobs("b").current(presets) == "b"
    assert Knobs("c").current(presets) == "a"


def describe(**more: Any) -> Json:
    data = {"version": 2, "mode": "one-shot", "provider": "p"}
    return record("subagent/descriptor", {**data, **more})


def timing(*log: Json) -> TimingValue:
    played = tell(*log)
    value: TimingValue = played.rooms["timing"].value(played.session.last_time)
    return value


def test_time_before_a_descriptor_does_not_count() -> None:
    assert timing(turn_start(), turn_end()) == TimingValue(0, None, None)
    log = [turn_start(), describe(), turn_end(), turn_start(2), user()]
    assert timing(*log[:2]) == TimingValue(0, Active(0, 10), None)
    assert timing(*log[:3]) == TimingValue(20, None, True)
    assert timing(*log) == TimingValue(20, Active(30, 40), None)


def test_every_descriptor_begins_anew_and_time_may_go_back() -> None:
    log = [describe(), turn_start(), turn_end(), turn_start(2), describe(), turn_end(2, "aborted")]
    assert timing(*log) == TimingValue(20, None, False)
    back = [describe(), turn_start(time=100), user(time=40)]
    assert timing(*back) == TimingValue(0, Active(100, 40), None)
    assert timing(*back, turn_end(time=50)) == TimingValue(0, None, True)


@pytest.mark.parametrize(
    ("descriptor", "label", "known"),
    [
        (describe(label="L"), "L", True),
        (describe(version=1), None, True),
        (describe(version=3, agentReasoningEffort="high"), None, True),
        (describe(persona="p"), None, False),
        (describe(mode="continuable", label="L", toolFilter={"allow": ["a"]}), "L", True),
        (describe(mode="continuable", label="L", toolFilter={"allow": "a"}), "L", False),
    ],
)
def test_identity(descriptor: Json, label: str | None, known: bool) -> None:
    played = tell(descriptor)
    mode_ = descriptor["data"]["mode"]
    assert played.rooms["identity"].value() == IdentityValue(mode_, label, 0, True)
    assert (played.quality == {}) is known


@pytest.mark.parametrize(
    "wrong",
    [
        describe(version=4),
        describe(mode="x"),
        describe(mode=["one-shot"]),
        describe(mode="continuable"),
        describe(label=None),
        describe(provider=None),
        record("subagent/descriptor", None),
    ],
)
def test_a_malformed_descriptor_takes_the_identity_away(wrong: Json) -> None:
    played = tell(describe(), wrong)
    assert played.rooms["identity"].value() is None
    assert played.quality == {"reader:subagentIdentity": 1}


def test_an_inherited_descriptor_is_the_ancestors() -> None:
    room = tell(describe()).rooms["identity"].cut()
    assert room.value() == IdentityValue("one-shot", None, 0, False)
