"""The small readers of one session, joined: which of them needs which kind of event.

Next to nothing is kept of a reader to which nothing happened, and a copy costs one short list: a
room is copied when the first event after the copy enters it.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec import Raw, Struct

from operators.events import Event
from operators.rooms import Rooms

from . import goals, injected, pairing, permissions, plans, subagents, titles, todos
from .held import Handler, Shadowed
from .injected import Injected, InjectedValue
from .pairing import Pairing, Pairs
from .plans import PlanValue
from .subagents import IdentityValue, SubagentIdentity, SubagentTiming, TimingValue
from .titles import Listing, ListMetadata, Titles, TitleValue

#: Every room with its handlers, by the name its value has.
ROOMS: dict[str, tuple[type[Any], Any]] = {
    "title": (Titles, titles.TITLES),
    "listing": (ListMetadata, titles.LISTING),
    "goal": (goals.Goals, goals.GOALS),
    "todos": (todos.Todos, todos.TODOS),
    "plan": (plans.Plans, plans.PLANS),
    "permissions": (permissions.Permissions, permissions.PERMISSIONS),
    "timing": (SubagentTiming, subagents.TIMING),
    "identity": (SubagentIdentity, subagents.IDENTITY),
    "pairing": (Pairing, pairing.PAIRING),
    "injected": (Injected, injected.INJECTED),
}
_NAMES = tuple(ROOMS)
_MAKERS = tuple(maker for maker, _ in ROOMS.values())
_BODIES = {body for _, handlers in ROOMS.values() for body in handlers}

#: Body class → (number of the room, handler) of those that need it.
HANDLERS: dict[type, tuple[tuple[int, Handler], ...]] = {
    body: tuple(
        (number, handlers[body])
        for number, (_, handlers) in enumerate(ROOMS.values())
        if body in handlers
    )
    for body in _BODIES
}


class Saved(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a snapshot's head holds of the small readers; the living contexts are segments."""

    title: titles.Headline | None = None
    listing: Listing | None = None
    goal: goals.GoalState | None = None
    todos: todos.TodoList | None = None
    plan: plans.Plan | None = None
    permissions: permissions.Knobs | None = None
    timing: subagents.Timing | None = None
    identity: subagents.Identity | None = None
    pairing: Pairs | None = None
    injected: injected.Counts | None = None
    generation: int = 0


class Values(Struct, frozen=True, gc=False):
    """The values of one session at one time."""

    title: TitleValue
    listing: Listing
    goal: goals.Goal | None
    todos: Raw
    plan: PlanValue
    permissions: permissions.Knobs
    subagent_timing: TimingValue
    subagent: IdentityValue | None
    pairing: Pairs
    injected: InjectedValue


class Projections:
    """``whole``: an inherited prefix counts, too, as it does for the reference."""

    __slots__ = ("_own", "_rooms", "generation", "whole")

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        self.generation = 0
        self._rooms: list[Any] = [None] * len(_MAKERS)  # None: nothing happened to it
        self._own = 0  # bits of the rooms that no copy shares

    def fork(self) -> Projections:
        twin = Projections.__new__(Projections)
        twin.whole, twin.generation = self.whole, self.generation
        twin._rooms = self._rooms.copy()  # noqa: SLF001 - its own
        twin._own = self._own = 0  # noqa: SLF001
        return twin

    def __getitem__(self, name: str) -> Any:
        """A room, only to be read."""
        number = _NAMES.index(name)
        room = self._rooms[number]
        return _MAKERS[number]() if room is None else room

    def take(self, event: Event, rooms: Rooms, gone: Shadowed) -> None:
        """Read one event that the session's own rooms have just taken; ``gone``: the nodes that it
        shadowed, in surface order. Never raises."""
        if rooms.totals.generation != self.generation:
            self._restart(rooms.totals.generation)
        body = event.body
        for number, handler in HANDLERS.get(body.__class__, ()):
            fact = handler(self._enter(number), event, body, gone)
            if fact is not None:
                rooms.note(fact)

    def _restart(self, generation: int) -> None:
        """A fork's own part begins (projection.md §6)."""
        self.generation = generation
        if not self.whole:
            self._rooms = [None if room is None else room.cut() for room in self._rooms]
            self._own = -1

    def _enter(self, number: int) -> Any:
        room, bit = self._rooms[number], 1 << number
        if room is None:
            room = self._rooms[number] = _MAKERS[number]()
        elif not self._own & bit:
            room = self._rooms[number] = room.fork()
        self._own |= bit
        return room

    # --- values -------------------------------------------------------------------------------

    def values(self, last_time: int | None) -> Values:
        """``last_time``: that of the session's last event."""
        rooms = {name: self[name] for name in _NAMES}
        values = [
            room.value(last_time) if name == "timing" else room.value()
            for name, room in rooms.items()
        ]
        return Values(*values)

    def reference(self, last_time: int | None) -> dict[str, Any]:
        """The reference's figures under its own names, those for which no event is needed."""
        return {
            "title": self["title"].reference(),
            "sessionListMetadata": self["listing"].reference(),
            "goal": self["goal"].reference(),
            "todos": self["todos"].reference(),
            "plan": self["plan"].reference(),
            "permissions": self["permissions"].reference(),
            "subagentTiming": self["timing"].reference(last_time),
            "subagentIdentity": self["identity"].reference(),
        }

    # --- saving -------------------------------------------------------------------------------

    @property
    def contexts(self) -> Any:
        """The table of living contexts, whose changed segments a snapshot saves."""
        return cast(Injected, self["injected"]).living

    def saved(self) -> Saved:
        pairs = zip(_NAMES, self._rooms, strict=True)
        held = {name: room.saved() for name, room in pairs if room is not None}
        return Saved(**held, generation=self.generation)

    @classmethod
    def restored(cls, saved: Saved, contexts: list[injected.Context]) -> Projections:
        """``contexts``: the records of all saved segments."""
        made = cls()
        made.generation = saved.generation
        for number, name in enumerate(_NAMES):
            state = getattr(saved, name)
            if state is not None:
                given = (state, contexts) if name == "injected" else (state,)
                made._rooms[number] = _MAKERS[number].restored(*given)
        return made
