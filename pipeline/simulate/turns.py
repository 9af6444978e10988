"""The course of a session: turns, their end, and what lies between (session-log.md §5)."""

from __future__ import annotations

from . import asides
from .compaction import automatic, manual
from .state import CrashError, Talk
from .steps import TurnEndsError, call_model, run_tools
from .writer import Json, Result

_CONFIG: Json = {"provider": "deepseek", "model": "deepseek-chat", "temperature": 0.2}
_TOOLS: list[Json] = [
    {"name": "read", "description": "reads a file", "parameters": {"type": "object"}},
    {"name": "run_code", "description": "runs code", "parameters": {"type": "object"}},
]
_LATE = {"name": "late", "description": "comes later", "parameters": {"type": "object"}}
_DESCRIPTOR: Json = {"version": 2, "mode": "one-shot", "provider": "spawn", "label": "helper"}
_CONTEXT_WINDOW = 128_000
_UNKNOWN_OUTCOME = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
_NOT_STARTED = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}


def exchange(t: Talk) -> None:
    """One unit of a session: something between the turns, then a turn. Ends at a quiet point."""
    _between(t)
    try:
        _turn(t)
    except CrashError:
        repair(t)


def _between(t: Talk) -> None:
    if t.maybe("commands", 0.12):
        asides.command(t)
    if t.maybe("manual-compaction", 0.1):
        manual(t)
    if t.maybe("asides", 0.2):
        asides.log_only(t)
    if t.maybe("unknown", 0.05):
        asides.unknown(t)
    if t.prompted and t.maybe("context", 0.1):
        asides.context(t)


def _turn(t: Talk) -> None:
    claimed = _queue(t)
    t.turn += 1
    t.step = 0
    t.in_turn = True
    t.tick()
    t.log.turn_start(t.turn)
    _claim(t, "next-turn", claimed)
    if t.maybe("errors", 0.02):
        _end(t, {"kind": "blocked"})
        return
    if t.maybe("auto-compaction", 0.08):
        automatic(t)
    inputs = claimed
    try:
        while _step(t, inputs):
            inputs = _steer(t)
    except TurnEndsError as end:
        _end(t, end.reason)
        return
    _end(t, {"kind": "completed"})


def _queue(t: Talk) -> list[Json]:
    """The next turn's message enters the inbox, sometimes after others were cancelled or edited."""
    box = t.inbox["next-turn"]
    if box and t.maybe("cancel", 0.3):
        t.tick()
        at = t.below(len(box))
        edited = [t.user_message({"kind": "user"})] if t.rng.random() < 0.4 else []
        t.log.inbox("next-turn", at, 1, edited, True)
        box[at : at + 1] = edited
    if not box or t.rng.random() < 0.5:
        t.tick()
        message = t.user_message({"kind": "user"})
        t.log.inbox("next-turn", len(box), 0, [message], False)
        box.append(message)
    return box[: 1 + t.below(len(box))]


def _claim(t: Talk, target: str, claimed: list[Json]) -> None:
    if claimed:
        t.tick()
        t.log.inbox(target, 0, len(claimed), [], False)
        del t.inbox[target][: len(claimed)]


def _steer(t: Talk) -> list[Json]:
    """The messages that enter the next step: all of the next-step inbox."""
    if t.maybe("steering", 0.15):
        t.tick()
        message = t.user_message({"kind": "user"})
        t.log.inbox("next-step", len(t.inbox["next-step"]), 0, [message], False)
        t.inbox["next-step"].append(message)
    claimed = list(t.inbox["next-step"])
    _claim(t, "next-step", claimed)
    return claimed


def _step(t: Talk, inputs: list[Json]) -> bool:
    """One step; whether another one follows."""
    t.step += 1
    t.in_step = True
    t.tick()
    t.log.step_start(t.step)
    _prompt(t)
    for message in inputs:
        t.tick()
        steers = t.step > 1 and message["source"]["kind"] == "user"
        seq = t.log.steering(message) if steers else t.log.user(message)
        images = sum(block["type"] == "image" for block in message["content"])
        t.add(seq, "user", images=images)
    if t.maybe("context", 0.15):
        asides.context(t)
    _requests(t)
    wants = (1 + (t.below(3) if t.maybe("parallel", 0.5) else 0)) if t.maybe("tools", 0.6) else 0
    calls = call_model(t, wants)
    if calls:
        run_tools(t, calls)
    if t.maybe("offloads", 0.2):
        asides.offload(t)
    t.tick()
    t.log.step_end()
    t.in_step = False
    return bool(calls) or bool(t.inbox["next-step"])


def _prompt(t: Talk) -> None:
    if t.rng.random() < 0.02:
        t.system = t.words.sentence(4, 12)
    t.log.prompt(t.system)
    t.prompted = True
    if t.maybe("system-in-history", 0.05):
        t.tick()
        text = t.words.sentence(2, 8)
        t.add(t.log.system(t.new_id("sys"), text), "system")


def _requests(t: Talk) -> None:
    if t.subagent and t.turn == 1 and t.step == 1:
        t.tick()
        t.log.event("subagent/descriptor", _DESCRIPTOR)
    if t.turn == 1 and t.step == 1 and not t.titles and t.maybe("titles", 0.9):
        asides.title(t)
    if t.step > 1 and t.rng.random() < 0.9:
        return
    late = "developer" in t.features
    tools = [*_TOOLS, _LATE | {"deferLoading": True}] if late else _TOOLS
    t.tick()
    reason = "initial" if t.turn == 1 else "change"
    t.header_seq = t.log.request_header(_CONFIG, tools, reason)
    if t.maybe("developer", 0.3):
        asides.developer(t)
    if t.step == 1 and (t.turn == 1 or t.rng.random() < 0.2):
        route = {"provider": "deepseek", "model": "deepseek-chat"}
        t.log.event("request/context", route | {"contextWindow": _CONTEXT_WINDOW})


def _end(t: Talk, reason: Json) -> None:
    """Close the step and the turn; calls that did not finish get no result (v0 … v3 style)."""
    t.tick()
    if t.in_step:
        t.log.step_end()
        t.in_step = False
    t.pending = []
    t.tick()
    t.log.turn_end(reason)
    t.in_turn = False


def closers(t: Talk, prefix: str, text: str) -> None:
    """Error results for the calls that are still open, with the last event's time."""
    group = t.nodes[-1].group if t.pending else 0
    for call, seq in t.pending:
        ids = (call["id"], f"{prefix}-{call['id']}-{t.log.seq}")
        error = _NOT_STARTED if seq < 0 else _UNKNOWN_OUTCOME
        result = Result(*ids, [{"type": "text", "text": text}], True, error)
        logged = t.log.result(result, None if seq < 0 else seq)
        t.add(logged, "result", group, spec=(t.log.place(), result))
    t.pending = []


def repair(t: Talk) -> None:
    """What the harness appends when it opens a log that ends in an open turn (§5.2)."""
    closers(t, "interrupted-tool-result", "The process stopped before the result was known.")
    if t.in_step:
        t.log.step_end()
        t.in_step = False
    t.log.turn_end({"kind": "interrupted"})
    t.in_turn = False
    t.tick(3_600_000)
    t.log.restart()


def fork(t: Talk) -> None:
    """Everything so far was the parent's; with ``fork-anywhere`` the cut lies in an open turn."""
    t.inbox = {"next-turn": [], "next-step": []}
    if not t.maybe("fork-anywhere", 0.5):
        t.log.fork()
        return
    t.turn += 1
    t.step = 1
    t.tick()
    t.log.turn_start(t.turn)
    t.log.step_start(t.step)
    t.in_turn = t.in_step = True
    _prompt(t)
    t.add(t.log.user(t.user_message({"kind": "user"})), "user")
    try:
        calls = call_model(t, 2)
        t.pending = [(call, -1) for call in calls]
        if calls:
            t.pending[0] = (calls[0], t.log.tool_call(calls[0]))
        t.log.fork()
        closers(t, "forked-tool-result", "Forked away.")
        _end(t, {"kind": "forked"})
    except TurnEndsError as end:
        _end(t, end.reason)
        t.log.fork()
    except CrashError:
        repair(t)
        t.log.fork()
