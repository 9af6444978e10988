"""Logs full of what the small readers look at: well-formed, odd, and no JSON of theirs at all.

Made of soup (``tests/laws/soup.py``): of lines that change no surface some become facts, and some
user messages get another source.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from operators.events import FACTS
from tests.strategies import json_values, soups

Json = dict[str, Any]
GOAL: Json = {"id": "g", "revision": 1, "objective": "o", "phase": "active", "maxGoalRounds": 3}
CHANGE: Json = {"kind": "goal/change", "version": 1, "operation": "create", "goal": GOAL}
CHANGE |= {"roundsStarted": 0, "createdAt": 1, "updatedAt": 2}
CLEARED: Json = {"kind": "goal/change", "version": 1, "operation": "clear", "clearedAt": 3}
CLEARED |= {"cleared": {"id": "g", "revision": 2}}
_DESCRIPTOR: Json = {"version": 2, "mode": "continuable", "provider": "p", "label": "l"}

#: Data that mean something, by type.
GOOD: dict[str, list[Any]] = {
    "goal/change": [CHANGE, CLEARED, {**CHANGE, "updatedAt": 0}, {**CHANGE, "x": 1}],
    "todo/write": [{"todos": []}, {"todos": [{"content": " a\ud800", "status": "pending"}, 7]}],
    "plan/mode": [{"active": True}, {"active": False}],
    "permission/preset": [{"preset": "danger-full-access"}, {"preset": "\udc00"}],
    "sandbox/mode": [{"mode": "read-only"}, {"mode": "danger-full-access"}],
    "approval/policy": [{"policy": "never"}],
    "subagent/descriptor": [
        _DESCRIPTOR,
        {**_DESCRIPTOR, "version": 3, "label": "\ud83d"},
        {**_DESCRIPTOR, "toolFilter": {"allow": ["a"], "deny": 3}},
    ],
    "session/title": [{"title": "A"}, {"title": "\ud800", "messageSeqs": [1e400], "source": {}}],
    "command/run": [{"commandId": "a", "name": "plan", "args": " off "}, {"name": "plan"}],
    "command/done": [{"commandId": "a", "kind": "success"}, {"commandId": "a", "kind": "error"}],
}
_OWNER = {"kind": "plugin", "plugin": "@x/any-system-prompt", "form": "snapshot"}
SOURCES: list[Any] = [
    _OWNER,
    {"kind": "runtime-context"},
    {
        "kind": "agent-instructions",
        "changes": [
            {"action": "set", "scope": "s\u0000", "path": "p", "digest": "d"},
            {"action": "remove", "scope": "t", "path": "p"},
            {"action": "set", "scope": ["s"], "path": "p"},
            7,
        ],
    },
    {"kind": "workspace-instructions", "changes": {"a": 1}},
    {"kind": ["plugin"], "plugin": 5},
    {"kind": "plugin", "plugin": "\ud800", "form": {"a": 1}},
    "user",
    None,
]

TYPES = sorted(GOOD)
_replaced = st.fixed_dictionaries(
    {"at": st.integers(0, 200), "type": st.sampled_from(TYPES), "odd": st.none() | json_values}
)


def _mixed(log: list[bytes], facts: list[Json], sources: list[tuple[int, Any]]) -> list[bytes]:
    records = [json.loads(line) for line in log]
    for fact in facts:
        free = [r for r in records if "surfaceOp" not in r and "seq" in r]
        if free:
            record, kind = free[fact["at"] % len(free)], fact["type"]
            good = GOOD[kind][fact["at"] % len(GOOD[kind])]
            record |= {"type": kind, "data": good if fact["odd"] is None else fact["odd"]}
    messages = [r["data"] for r in records if r["type"] == "user/message"]
    for at, source in sources:
        if messages:
            messages[at % len(messages)]["source"] = source
    return [json.dumps(record).encode() for record in records]


#: A log without a header.
logs: st.SearchStrategy[list[bytes]] = st.builds(
    _mixed,
    soups(),
    st.lists(_replaced, max_size=20),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from(SOURCES) | json_values), max_size=8),
)
assert GOOD.keys() >= FACTS
