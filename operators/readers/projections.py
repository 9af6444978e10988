"""The small readers of one session, joined: which of them needs which kind of event."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from msgspec import Raw, Struct

from operators.events import Event, Fact
from operators.table import Table

from . import goals, injected, pairing, permissions, plans, subagents, titles, todos
from .held import Handler, Handlers, Note, Parts, Shadowed
from .injected import Injected, InjectedValue
from .pairing import Pairing, Pairs
from .plans import PlanValue
from .subagents import IdentityValue, SubagentIdentity, SubagentTiming, TimingValue
from .titles import Listing, ListMetadata, Titles, TitleValue

#: Every room with its handlers, by the name its value has.
ROOMS: dict[str, tuple[type[Any], Handlers]] = {
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
#: What some rooms do, before that, when the event shadowed nodes.
_REPLACING: dict[str, Handlers] = {"pairing": pairing.REPLACING, "injected": injected.REPLACING}
_NAMES = tuple(ROOMS)
_MAKERS = tuple(maker for maker, _ in ROOMS.values())
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}

Needed: TypeAlias = tuple[tuple[int, Handler], ...]  #: number of the room, what it does


def _by_kind(tables: dict[str, Handlers]) -> dict[type | str, Needed]:
    return {
        kind: tuple(
            (_NUMBERS[name], handlers[kind])
            for name, handlers in tables.items()
            if kind in handlers
        )
        for kind in {kind for handlers in tables.values() for kind in handlers}
    }


HANDLERS = _by_kind({name: handlers for name, (_, handlers) in ROOMS.items()})
REPLACING = _by_kind(_REPLACING)


def needed(event: Event, gone: Shadowed) -> Needed:
    """What the rooms do with an event that shadowed the nodes ``gone``."""
    kind = event.body.__class__
    found = HANDLERS.get(event.type if kind is Fact else kind, ())
    return REPLACING.get(kind, ()) + found if gone else found


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


class Projections(Parts):
    """Room by room, by name."""

    __slots__ = ()
    MAKERS = _MAKERS

    def __getitem__(self, name: str) -> Any:
        """A room, only to be read."""
        return self.peek(_NUMBERS[name])

    def take(self, event: Event, gone: Shadowed, note: Note) -> None:
        """Read one event that the session's own rooms have just taken; ``gone``: the nodes that it
        shadowed, in surface order; ``note`` hears of quality facts. Never raises."""
        self.read(needed(event, gone), event, gone, note)

    def read(self, handlers: Needed, event: Event, gone: Shadowed, note: Note) -> None:
        """The same, by whoever knows already what is needed."""
        body = event.body
        for number, handler in handlers:
            fact = handler(self.enter(number), event, body, gone)
            if fact is not None:
                note(fact)

    def cut(self) -> None:
        """A fork's own part begins (projection.md §6)."""
        for number, room in enumerate(self.rooms):
            if room is not None:
                self.put(number, room.cut())

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
    def contexts(self) -> Table[injected.Context]:
        """The living contexts, only to be read; a snapshot saves the segments that changed."""
        return cast(Injected, self["injected"]).living

    @property
    def own_contexts(self) -> Table[injected.Context]:
        """The same, to be changed."""
        return cast(Injected, self.enter(_NUMBERS["injected"])).living

    def index(self) -> None:
        """What follows from the living contexts."""
        if self.rooms[_NUMBERS["injected"]] is not None:
            self.enter(_NUMBERS["injected"]).index()
