"""Plan mode: what is in force, and what a ``/plan`` asked for (readers.md §6)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from operators.events import CommandDone, CommandRun, Event, Fact

from .facts import record
from .held import Handlers, Held, Shadowed
from .text import trimmed


class Plan(Struct, frozen=True, array_like=True, gc=False):
    """``running``: the command that asks (None also for one without an id, then ``asks`` says),
    ``asked`` what it wants; ``wanted``: what the last one that went well still waits for."""

    active: bool = False
    asks: bool = False
    running: str | None = None
    asked: bool = False
    wanted: bool | None = None

    @property
    def pending(self) -> bool:
        wish = self.asked if self.asks else self.wanted
        return wish is not None and wish != self.active


class PlanValue(Struct, frozen=True, gc=False):
    active: bool
    pending: bool


class Plans(Held[Plan]):
    __slots__ = ()
    EMPTY = Plan()

    def on_run(self, _: Event, body: CommandRun, __: Shadowed) -> str | None:
        if body.name == "plan" and body.args is not None:
            asked = trimmed(body.args) != "off"
            self.state = Plan(self.state.active, True, body.command_id, asked, self.state.wanted)
        return None

    def on_done(self, _: Event, body: CommandDone, __: Shadowed) -> str | None:
        plan = self.state
        if plan.asks and plan.running == body.command_id:
            kept = body.success and plan.asked != plan.active
            self.state = Plan(plan.active, wanted=plan.asked if kept else None)
        return None

    def on_fact(self, _: Event, body: Fact, __: Shadowed) -> str | None:
        active = record(body.data).get("active")
        if not isinstance(active, bool):
            return "reader:plan"
        plan = self.state
        self.state = Plan(active, plan.asks, plan.running, plan.asked)
        return None

    def value(self) -> PlanValue:
        return PlanValue(self.state.active, self.state.pending)

    def reference(self) -> dict[str, Any]:
        return {"active": self.state.active, "pending": self.state.pending}


PLANS: Handlers = {
    CommandRun: Plans.on_run,
    CommandDone: Plans.on_done,
    "plan/mode": Plans.on_fact,
}
