"""What the small readers have in common: a room around one frozen value, which is all its state.

A room's module names its handlers by body class; each takes the room, the event, its body and the
nodes that the event shadowed, and answers with a quality fact or None. No handler raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from msgspec import Struct

from operators.events import Event
from operators.surface import Node

Shadowed: TypeAlias = tuple[Node, ...]
Handler: TypeAlias = Callable[[Any, Event, Any, Shadowed], str | None]
Handlers: TypeAlias = Mapping[type, Handler]

S = TypeVar("S", bound=Struct)


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
    def restored(cls, saved: S | None) -> Self:
        return cls(saved)
