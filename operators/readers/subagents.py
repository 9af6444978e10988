"""A subagent's time and identity (readers.md §7)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from operators.events import Event, Fact, TurnEnd, TurnStart
from operators.totals import bounded, elapsed

from .facts import record, whole
from .held import Handlers, Held, Shadowed

DESCRIPTOR = "subagent/descriptor"


# --- timing ---------------------------------------------------------------------------------------


class Timing(Struct, frozen=True, array_like=True, gc=False):
    """``since``: start of the open turn, kept before a descriptor too. How far an open turn came is
    the time of the log's last event: nothing is done for the events inside it."""

    settled_ms: int = 0
    described: bool = False
    is_open: bool = False
    since: int | None = None
    completed: bool | None = None  #: the last turn that closed was; None while one is open


class Active(Struct, frozen=True, gc=False):
    since: int
    through: int


class TimingValue(Struct, frozen=True, gc=False):
    settled_ms: int
    active: Active | None
    last_turn_completed: bool | None


class SubagentTiming(Held[Timing]):
    __slots__ = ()
    EMPTY = Timing()

    def on_turn_start(self, event: Event, _: TurnStart, __: Shadowed) -> str | None:
        old = self.state
        self.state = Timing(old.settled_ms, old.described, True, event.time)
        return None

    def on_fact(self, _: Event, __: Fact, ___: Shadowed) -> str | None:
        old = self.state
        self.state = Timing(0, True, old.is_open, old.since)
        return None

    def on_turn_end(self, event: Event, body: TurnEnd, _: Shadowed) -> str | None:
        old = self.state
        spent = 0
        if old.described and old.is_open:
            spent = elapsed(old.since, event.time) or 0
        total = bounded(old.settled_ms + spent)
        done = body.reason == "completed" if old.described else None
        self.state = Timing(total, old.described, completed=done)
        return None

    def value(self, last_time: int | None) -> TimingValue:
        """``last_time``: that of the log's last event."""
        state = self.state
        active = None
        if state.described and state.is_open and state.since is not None:
            active = Active(state.since, state.since if last_time is None else last_time)
        return TimingValue(state.settled_ms, active, state.completed)

    def reference(self, last_time: int | None) -> dict[str, Any]:
        value = self.value(last_time)
        told: dict[str, Any] = {"settledMs": value.settled_ms}
        if value.active is not None:
            told["active"] = {"since": value.active.since, "through": value.active.through}
        if value.last_turn_completed is not None:
            told["lastTurnCompleted"] = value.last_turn_completed
        return told


TIMING: Handlers = {
    TurnStart: SubagentTiming.on_turn_start,
    TurnEnd: SubagentTiming.on_turn_end,
    DESCRIPTOR: SubagentTiming.on_fact,
}


# --- identity -------------------------------------------------------------------------------------

VERSIONS = (1, 2, 3)
_ACCEPTED = (2, 3)  #: by the reference, each in the logs of its time
_ONE_SHOT = frozenset({"version", "mode", "provider", "label"})
_CONTINUABLE = _ONE_SHOT | {"agentProvider", "agentModel", "persona", "toolFilter"}
_LATER = frozenset({"agentReasoningEffort"})  #: of version 3


class Identity(Struct, frozen=True, array_like=True, gc=False):
    """What the last descriptor says; ``seq`` None: there is none, or it says nothing usable.
    ``known``: it has no keys but those of its version; ``exact``: the reference accepts it too."""

    mode: str = ""
    label: str | None = None
    seq: int | None = None
    known: bool = False
    exact: bool = False
    inherited: bool = False


class IdentityValue(Struct, frozen=True, gc=False):
    """``own`` is False for the identity of the ancestor that a fork's prefix comes from."""

    mode: str
    label: str | None
    seq: int
    own: bool


class SubagentIdentity(Held[Identity]):
    __slots__ = ()
    EMPTY = Identity()

    def cut(self) -> SubagentIdentity:
        """It stays, as the ancestor's."""
        old = self.state
        if old.seq is None:
            return SubagentIdentity()
        return SubagentIdentity(Identity(old.mode, old.label, old.seq, old.known, old.exact, True))

    def on_fact(self, event: Event, body: Fact, _: Shadowed) -> str | None:
        found = describe(record(body.data), event.seq)
        self.state = Identity() if found is None else found
        return None if found is not None and found.known else "reader:subagentIdentity"

    def value(self) -> IdentityValue | None:
        state = self.state
        if state.seq is None:
            return None
        return IdentityValue(state.mode, state.label, state.seq, not state.inherited)

    def reference(self) -> dict[str, Any] | None:
        state = self.state
        if state.seq is None or not state.exact:
            return None
        label = {} if state.label is None else {"label": state.label}
        return {"mode": state.mode, **label, "seq": state.seq}


IDENTITY: Handlers = {DESCRIPTOR: SubagentIdentity.on_fact}


def describe(data: dict[str, Any], seq: int) -> Identity | None:
    """The identity a descriptor gives: versions 1 to 3, unknown keys allowed; None if its mode or
    label are not what they should be."""
    mode, label, version = data.get("mode"), data.get("label"), whole(data.get("version"))
    if version not in VERSIONS or mode not in ("one-shot", "continuable"):
        return None
    if not isinstance(data.get("provider"), str):
        return None
    if "label" in data and not isinstance(label, str):
        return None
    if mode == "continuable" and label is None:
        return None
    known = _has_known_keys(data, mode, version)
    return Identity(mode, label, seq, known, known and version in _ACCEPTED)


def _has_known_keys(data: dict[str, Any], mode: str, version: int | None) -> bool:
    later = _LATER if version == max(VERSIONS) else frozenset()
    if mode == "one-shot":
        return data.keys() <= _ONE_SHOT | later
    words = (data.get(name, "") for name in ("agentProvider", "agentModel", "persona"))
    if not data.keys() <= _CONTINUABLE | later or not all(isinstance(word, str) for word in words):
        return False
    return "toolFilter" not in data or _is_filter(data["toolFilter"])


def _is_filter(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= {"allow", "deny"}:
        return False
    return all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in value.values()
    )
