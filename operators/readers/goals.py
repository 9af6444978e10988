"""The goal: the last well-formed change (readers.md §6)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from operators.events import Event, Fact

from .facts import record, whole
from .held import Handlers, Held, Shadowed
from .text import trimmed

_OPERATIONS = frozenset({"create", "edit", "pause", "resume", "complete", "block"})
_PHASES = frozenset({"active", "paused", "blocked", "complete"})
_CHANGE = frozenset(
    {"kind", "version", "operation", "goal", "roundsStarted", "createdAt", "updatedAt"}
)
_CLEAR = frozenset({"kind", "version", "operation", "cleared", "clearedAt"})
_GOAL = frozenset({"id", "revision", "objective", "phase", "maxGoalRounds"})


class Goal(Struct, frozen=True, array_like=True, gc=False):
    """``blocked``: code and message of why, exactly in the phase of that name."""

    id: str
    revision: int
    objective: str
    phase: str
    max_rounds: int
    blocked: tuple[str, str] | None
    rounds_started: int
    created_at: int
    updated_at: int


class GoalState(Struct, frozen=True, array_like=True, gc=False):
    goal: Goal | None = None


class Goals(Held[GoalState]):
    """Transitions are not checked, and rounds that start later show in the next change only."""

    __slots__ = ()
    EMPTY = GoalState()

    def on_fact(self, _: Event, body: Fact, __: Shadowed) -> str | None:
        change = record(body.data)
        if is_clear(change):
            self.state = GoalState()
        elif (goal := read_change(change)) is not None:
            self.state = GoalState(goal)
        else:
            return "reader:goal"
        return None

    def value(self) -> Goal | None:
        return self.state.goal

    def reference(self) -> dict[str, Any] | None:
        goal = self.state.goal
        if goal is None:
            return None
        told: dict[str, Any] = {
            "id": goal.id,
            "revision": goal.revision,
            "objective": goal.objective,
            "phase": goal.phase,
            "maxGoalRounds": goal.max_rounds,
        }
        if goal.blocked is not None:
            told["blockedReason"] = dict(zip(("code", "message"), goal.blocked, strict=True))
        return {
            "goal": told,
            "roundsStarted": goal.rounds_started,
            "createdAt": goal.created_at,
            "updatedAt": goal.updated_at,
        }


GOALS: Handlers = {"goal/change": Goals.on_fact}


def is_clear(change: dict[str, Any]) -> bool:
    """Whether a change takes the goal away."""
    if not _is_change(change, _CLEAR) or change["operation"] != "clear":
        return False
    cleared = change["cleared"]
    if not isinstance(cleared, dict) or cleared.keys() != {"id", "revision"}:
        return False
    numbers = (_count(cleared["revision"]), _count(change["clearedAt"]))
    return _text(cleared["id"]) is not None and None not in numbers


def read_change(change: dict[str, Any]) -> Goal | None:
    """The goal that a well-formed change sets; None for any other."""
    if not _is_change(change, _CHANGE) or not _among(change["operation"], _OPERATIONS):
        return None
    goal = change["goal"]
    if not isinstance(goal, dict) or not _among(goal.get("phase"), _PHASES):
        return None
    is_blocked = goal["phase"] == "blocked"
    if goal.keys() != (_GOAL | {"blockedReason"} if is_blocked else _GOAL):
        return None
    blocked = _reason(goal["blockedReason"]) if is_blocked else None
    ident, objective = _text(goal["id"]), _text(goal["objective"])
    revision, rounds = _count(goal["revision"]), _count(goal["maxGoalRounds"])
    started, created, updated = (
        _count(change[name]) for name in ("roundsStarted", "createdAt", "updatedAt")
    )
    if ident is None or objective is None or revision is None or rounds is None:
        return None
    if started is None or created is None or updated is None or updated < created:
        return None
    if is_blocked and blocked is None:
        return None
    return Goal(
        ident, revision, objective, goal["phase"], rounds, blocked, started, created, updated
    )


def _is_change(change: dict[str, Any], keys: frozenset[str]) -> bool:
    """One of version 1 with exactly these keys."""
    if change.keys() != keys or change["kind"] != "goal/change":
        return False
    return whole(change["version"]) == 1


def _among(value: Any, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value in words


def _reason(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, dict) or value.keys() != {"code", "message"}:
        return None
    code, message = value["code"], value["message"]
    return (code, message) if isinstance(code, str) and isinstance(message, str) else None


def _text(value: Any) -> str | None:
    """A string that is more than white space and has none around it."""
    return value if isinstance(value, str) and value and trimmed(value) == value else None


def _count(value: Any) -> int | None:
    number = whole(value)
    return None if number is None or number < 0 else number
