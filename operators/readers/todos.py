"""The to-do list: the last one written, until a turn starts (readers.md §6)."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from operators.events import NULL, Event, Fact, TurnStart

from .facts import kept, record
from .held import Handlers, Held, Shadowed
from .text import plain


class TodoList(Struct, frozen=True, array_like=True, gc=False):
    """``todos`` as logged, ``null`` while there is no list: an empty one is another thing."""

    todos: Raw = NULL


class Todos(Held[TodoList]):
    __slots__ = ()
    EMPTY = TodoList()

    def on_fact(self, _: Event, body: Fact, __: Shadowed) -> str | None:
        items = record(body.data).get("todos")
        if not isinstance(items, list):
            return "reader:todos"
        self.state = TodoList(kept(items))
        return None

    def on_turn_start(self, _: Event, __: TurnStart, ___: Shadowed) -> str | None:
        if self.state is not self.EMPTY:
            self.state = self.EMPTY
        return None

    def value(self) -> Raw:
        return self.state.todos

    def reference(self) -> Any:
        return plain(self.state.todos)


TODOS: Handlers = {"todo/write": Todos.on_fact, TurnStart: Todos.on_turn_start}
