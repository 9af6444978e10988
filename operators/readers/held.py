"""What readers have in common: parts that are copied when they are entered, and the small readers'
room around one frozen value, which is all its state.

A small room's module names its handlers by body class or type of fact; each takes the room, the
event, its body and the nodes that the event shadowed, and answers with a quality fact or None. No
handler raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from msgspec import Struct

from operators.events import Event
from operators.nodes import Node

Shadowed: TypeAlias = tuple[Node, ...]
Handler: TypeAlias = Callable[[Any, Event, Any, Shadowed], str | None]
Handlers: TypeAlias = Mapping[type | str, Handler]  #: by body class, or by the type of a fact
Note: TypeAlias = Callable[[str], None]

S = TypeVar("S", bound=Struct)


class Parts:
    """Rooms by number. A copy costs three short lists: a room is copied when the first event after
    the copy enters it, and one to which nothing happened is not there.

    ``told`` and ``written``: what the overview says of each room, and how a snapshot writes it,
    kept by those who make it (``keep``) until the room is entered. ``rooms`` are only to be
    read."""

    __slots__ = ("own", "rooms", "told", "written")
    MAKERS: ClassVar[tuple[Callable[[], Any], ...]] = ()

    def __init__(self) -> None:
        none: list[Any] = [None] * len(self.MAKERS)
        self.own = 0  # bits of the rooms that no copy shares, and of which nothing is kept
        self.rooms, self.told, self.written = none, none.copy(), none.copy()

    def fork(self) -> Self:
        twin = self.__class__.__new__(self.__class__)
        twin.own = self.own = 0
        twin.rooms = self.rooms.copy()
        twin.told, twin.written = self.told.copy(), self.written.copy()
        return twin

    def peek(self, number: int) -> Any:
        """A room, only to be read."""
        room = self.rooms[number]
        return self.MAKERS[number]() if room is None else room

    def enter(self, number: int) -> Any:
        """A room, to be changed."""
        bit = 1 << number
        if self.own & bit:  # nearly always: the second and later events of a batch
            return self.rooms[number]
        room = self.rooms[number]
        made = self.rooms[number] = self.MAKERS[number]() if room is None else room.fork()
        self.own |= bit
        self.told[number] = self.written[number] = None
        return made

    def keep(self, kept: list[Any], number: int, value: Any) -> Any:
        """Keep in ``told`` or ``written`` what was made of a room, until it is entered anew."""
        kept[number] = value
        self.own &= ~(1 << number)
        return value

    def put(self, number: int, room: Any) -> None:
        """Another room in its place; None: nothing happened to it."""
        bit = 1 << number
        self.own = self.own & ~bit if room is None else self.own | bit
        self.rooms[number] = room
        self.told[number] = self.written[number] = None


class Held(Generic[S]):
    """A reader whose state is one frozen struct; changing it is putting another in its place."""

    __slots__ = ("state",)
    EMPTY: ClassVar[Any]

    def __init__(self, state: S | None = None) -> None:
        self.state: S = self.EMPTY if state is None else state

    def fork(self) -> Self:
        return type(self)(self.state)

    def cut(self) -> Self:
        """The room as a fork's own part begins with (readers.md §1)."""
        return type(self)()

    def saved(self) -> S | None:
        """For the snapshot; None while nothing happened."""
        return None if self.state == self.EMPTY else self.state

    @classmethod
    def restored(cls, saved: S) -> Self:
        return cls(saved)
