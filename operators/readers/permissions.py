"""Permissions: the preset's name is what was meant, the two knobs are what is in force
(readers.md §6)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from operators.events import Event, Fact

from .facts import record
from .held import Handlers, Held, Shadowed

CUSTOM = "custom"


class Bundle(Struct, frozen=True, gc=False):
    """What a preset sets."""

    sandbox: str
    approval: str


class Presets(Struct, frozen=True, gc=False):
    """A deployment's presets in its order, and what is in force while no event says so."""

    table: tuple[tuple[str, Bundle], ...] = (
        ("workspace-write", Bundle("workspace-write", "ask")),
        ("danger-full-access", Bundle("danger-full-access", "never")),
    )
    defaults: Bundle = Bundle("workspace-write", "ask")


PRESETS = Presets()


class Knobs(Struct, frozen=True, array_like=True, gc=False):
    preset: str | None = None
    sandbox: str | None = None
    approval: str | None = None

    def current(self, presets: Presets = PRESETS) -> str:
        """The preset in force: the named one if it sets what is, else the first that does."""
        defaults = presets.defaults
        force = Bundle(self.sandbox or defaults.sandbox, self.approval or defaults.approval)
        equal = [name for name, bundle in presets.table if bundle == force]
        return self.preset if self.preset in equal else next(iter(equal), CUSTOM)


class Permissions(Held[Knobs]):
    __slots__ = ()
    EMPTY = Knobs()

    def on_fact(self, event: Event, body: Fact, _: Shadowed) -> str | None:
        field, key = _KNOBS[event.type]
        value = record(body.data).get(key)
        if not isinstance(value, str):
            return "reader:permissions"
        old = self.state
        fields = {"preset": old.preset, "sandbox": old.sandbox, "approval": old.approval}
        self.state = Knobs(**(fields | {field: value}))
        return None

    def value(self) -> Knobs:
        return self.state

    def reference(self, presets: Presets = PRESETS) -> dict[str, Any]:
        state = self.state
        knobs = {"preset": state.preset, "sandbox": state.sandbox, "approval": state.approval}
        return {"state": knobs, "current": state.current(presets)}


#: Event type → field here, key in its data.
_KNOBS = {
    "permission/preset": ("preset", "preset"),
    "sandbox/mode": ("sandbox", "mode"),
    "approval/policy": ("approval", "policy"),
}
PERMISSIONS: Handlers = dict.fromkeys(_KNOBS, Permissions.on_fact)
