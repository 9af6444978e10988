"""``readers.json``, as far as a session's overview publishes it: times, title, context window.

The golden figures are of the whole log. Ours count a fork's own part alone, so a log with an
inherited prefix is held against the same fold from its cut on, done here once more.
"""

from __future__ import annotations

from typing import Any

from tests.golden.model_log import Ev, text
from tests.golden.values import Finding, check, settle

Node = dict[str, Any]
OWN_PART = 0


def compare(golden: Node, doc: Node, events: list[Ev], header: Node | None) -> list[Finding]:
    overview, found = doc["overview"], []
    cut = inherited(events, header)
    own = [ev for ev in events if ev.seq >= cut]
    reason = OWN_PART if cut else None
    stats = final(golden, "sessionStats")
    if stats is not None:
        for name, ours in (("llmMs", "model_ms"), ("toolMs", "tool_ms")):
            right = figures(own)[name]
            found += settle(f"O {ours}", stats[name], overview[ours], right, reason)
    pressure = final(golden, "contextPressure")
    if pressure is not None:
        window = pressure.get("contextWindow")
        found += check("O context_window", window, overview["context_window"])
    titled = golden.get("title") or {}
    if "value" in titled:
        last = [text(ev.data.get("title")) for ev in own if ev.type == "session/title"]
        own_title = last[-1] if last else None
        found += settle("O title", titled["value"], overview["title"], own_title, reason)
    return found


def final(golden: Node, name: str) -> Node | None:
    """A reader's last value; None where the reference threw."""
    told: Node = (golden.get(name) or {}).get("final") or {"error": None}
    return None if "error" in told else told


def inherited(events: list[Ev], header: Node | None) -> int:
    """First seq of the log's own part."""
    tagged = [e.seq for e in events if e.type == "session/end-seed" and e.data.get("inherited")]
    if tagged:
        return tagged[-1]
    seeded = (header or {}).get("seedLength")
    return seeded if isinstance(seeded, int) else 0


def figures(events: list[Ev]) -> dict[str, int]:
    """Model and tool time of ``events``, each difference clamped at 0 by itself."""
    model = tools = 0
    opened: tuple[int | None, int | None, int] | None = None
    pending: dict[str | None, int] = {}
    for ev in events:
        time = ev.time or 0
        if ev.type == "step/start":
            opened = (ev.turn, ev.step, time)
        elif ev.type == "assistant/message" and opened and opened[:2] == (ev.turn, ev.step):
            model, opened = model + max(time - opened[2], 0), None
        elif ev.type == "step/end":
            opened = None
        elif ev.type == "tool/call":
            pending[text(ev.data.get("callId"))] = time
        elif ev.type == "tool/result":
            source = (ev.data.get("message") or {}).get("source") or {}
            started = pending.pop(text(source.get("callId")), None)
            tools += 0 if started is None else max(time - started, 0)
        elif ev.type == "turn/end":
            pending = {}
    return {"llmMs": model, "toolMs": tools}
