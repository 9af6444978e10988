"""What happens around the turns: commands, goals, permissions, offloads, unknown events."""

from __future__ import annotations

from .state import Talk
from .writer import Json

_COMMANDS = (("goal", " ship it"), ("permission", " ask"), ("plan", ""), ("feedback", " good"))
_LOG_ONLY: tuple[tuple[str, Json], ...] = (
    ("todo/write", {"todos": [{"content": "look", "status": "in_progress"}]}),
    ("plan/mode", {"active": True}),
    ("plan/mode", {"active": False}),
    ("permission/preset", {"preset": "default"}),
    ("approval/policy", {"policy": "ask"}),
    ("approval/asked", {"id": "a1", "toolName": "write", "reason": "outside of cwd"}),
    ("approval/decided", {"id": "a1", "outcome": "allowed-once"}),
    ("sandbox/mode", {"mode": "workspace-write"}),
    ("hook/invoked", {"turn": 1, "point": "PreToolUse", "dialect": "codex", "handlerId": "h"}),
    ("tool-workflow/run-start", {"runId": "r1", "name": "review"}),
)
_CONTEXTS: tuple[Json, ...] = (
    {"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt", "form": "snapshot"},
    {"kind": "plugin", "plugin": "hooks-codex", "form": "notice", "summary": "hook says"},
    {"kind": "plugin", "plugin": "my-plugin"},
    {
        "kind": "agent-instructions",
        "form": "instructions",
        "changes": [
            {"action": "set", "scope": "project", "path": "AGENTS.md"},
            {"action": "set", "scope": "project", "path": "docs/AGENTS.md"},
        ],
    },
    {"kind": "skill-invocation", "name": "review", "form": "instructions"},
    {
        "kind": "session-reference",
        "form": "recall",
        "version": 1,
        "references": [{"sessionId": "s", "label": "older talk", "capturedThroughSeq": 9}],
    },
    {"kind": "goal", "goalId": "g1", "revision": 1, "round": 2},
    {"kind": "subagent-report", "form": "relay", "senderSessionId": "child-1"},
    {"kind": "made-up", "form": "odd"},
)


def context(t: Talk) -> None:
    """An injected context message; sometimes a rewrite of an earlier one instead."""
    t.tick()
    message = t.user_message(t.pick(_CONTEXTS))
    earlier = [at for at, node in enumerate(t.nodes) if node.kind == "context"]
    if earlier and t.maybe("rewrites", 0.3):
        at = t.pick(earlier)
        node = t.nodes[at]
        node.seq = t.log.user(message, t.shadow(at, at + 1))
        node.images = 0
        return
    images = sum(block["type"] == "image" for block in message["content"])
    t.add(t.log.context(message), "context", images=images)


def command(t: Talk) -> None:
    """A command other than ``/compact``, finished or (rarely) not."""
    name, args = t.pick(_COMMANDS)
    command_id = t.new_id("cmd")
    t.tick()
    run: Json = {"commandId": command_id, "name": name, "source": {"kind": "user"}}
    t.log.event("command/run", run | ({"args": args} if args else {}))
    if name == "goal" and t.rng.random() < 0.5:
        goal = {"id": "g1", "revision": 1, "objective": t.words.sentence(2, 5), "phase": "active"}
        change: Json = {"kind": "goal/change", "version": 1, "operation": "create"}
        change |= {"goal": goal | {"maxGoalRounds": 5}, "roundsStarted": 0}
        t.log.event("goal/change", change | {"createdAt": t.now, "updatedAt": t.now})
    if t.rng.random() < 0.93:
        t.tick()
        outcome = t.pick(("success", "success", "success", "error"))
        done = {"commandId": command_id, "kind": outcome, "text": t.words.sentence(1, 6)}
        t.log.event("command/done", done)


def log_only(t: Talk) -> None:
    kind, data = t.pick(_LOG_ONLY)
    t.tick()
    t.log.event(kind, data)


def unknown(t: Talk) -> None:
    t.tick()
    t.log.unknown("acme/telemetry", {"n": t.below(99), "deep": [[{"a": None}]]})


def title(t: Talk) -> None:
    """A session title, made from the first user message or set by the user."""
    first = [node.seq for node in t.nodes if node.kind == "user"][:1]
    source = {"kind": "fallback"} if first else {"kind": "user"}
    t.titles += 1
    data = {"title": t.words.sentence(1, 5), "messageSeqs": first, "source": source}
    t.tick()
    t.log.event("session/title", data)


def offload(t: Talk) -> None:
    """Take the images of one node out of what the model is sent; each only once."""
    targets = [node for node in t.nodes if node.images and node.kind in ("user", "result")][:1]
    if not targets:
        return
    t.tick()
    t.log.event(
        "image/offload",
        {"targets": [{"seq": n.seq, "imageIndexes": list(range(n.images))} for n in targets]},
    )
    for node in targets:
        node.images = 0


def developer(t: Talk) -> None:
    """A tool comes or goes (v4); the added one stands in the last request header."""
    addition = t.rng.random() < 0.5
    kind = "tool-addition" if addition else "tool-removal"
    content = [{"type": kind, "toolName": "late" if addition else "search"}]
    message: Json = {"id": t.new_id("dev"), "role": "developer", "content": content}
    message["source"] = {"kind": "tool-registry"}
    t.tick()
    seq = t.log.developer(message, t.header_seq if addition else None)
    t.add(seq, "developer")
