"""Injected context: what of it the model still sees (readers.md §10).

A context is a user message whose source is not the user. It is *alive* while it is a current node,
*superseded* when it is alive and a newer one says the same thing anew: a later snapshot of the
runtime context, or later changes of every scope it instructs about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from operators.events import SURFACE_BODIES as _SURFACE
from operators.events import Append, Event, UserMessage
from operators.table import Table

from .facts import record
from .held import Handlers, Shadowed
from .text import plain

INSTRUCTIONS = frozenset({"agent-instructions", "workspace-instructions"})
_ACTIONS = frozenset({"set", "replace", "remove"})
_OWNER = "system-prompt"


class Change(Struct, frozen=True, array_like=True, gc=False):
    """What an instructions message says of one scope."""

    action: str
    scope: str
    path: str
    digest: str | None = None


class Context(Struct, frozen=True, array_like=True, gc=False):
    """A living context; ``key`` is its seq. ``form`` and ``plugin`` as logged."""

    key: int
    kind: str
    plugin: str | None
    form: str | None
    runtime: bool
    changes: tuple[Change, ...] = ()


def context_of(event: Event, body: UserMessage) -> Context | None:
    """The context of a message; None for a user's own."""
    kind = body.source.kind
    if kind == "user":
        return None
    source = record(body.source.raw)
    plugin, form = source.get("plugin"), source.get("form")
    plugin = plugin if isinstance(plugin, str) else None
    changes = _changes(source.get("changes")) if kind in INSTRUCTIONS else ()
    runtime = kind == "runtime-context" or (kind == "plugin" and _owns(plugin))
    return Context(
        event.seq, kind, plugin, form if isinstance(form, str) else None, runtime, changes
    )


def _owns(plugin: str | None) -> bool:
    """Whether a plugin writes the runtime context; forks give it a scope of their own."""
    if plugin is None:
        return False
    scope, slash, name = plugin.rpartition("/")
    return bool(scope and slash) and (name == _OWNER or name.endswith("-" + _OWNER))


def _changes(listed: Any) -> tuple[Change, ...]:
    """The well-formed changes of a list; others are skipped one by one."""
    found = (_change(item) for item in listed) if isinstance(listed, list) else ()
    return tuple(change for change in found if change is not None)


def _change(item: Any) -> Change | None:
    if not isinstance(item, dict):
        return None
    action, scope, path, digest = map(item.get, ("action", "scope", "path", "digest"))
    if not isinstance(action, str) or action not in _ACTIONS:
        return None
    if not (isinstance(scope, str) and isinstance(path, str)):
        return None
    if "digest" in item and not isinstance(digest, str):
        return None
    return Change(action, scope, path, digest)


def visible(contexts: Iterable[Context]) -> dict[str, Change]:
    """Instructions in force: of living contexts in log order the last change of each scope."""
    found: dict[str, Change] = {}
    for context in contexts:
        for change in context.changes:
            found[change.scope] = change
    return found


# --- what is known all the time -------------------------------------------------------------------


class Counts(Struct, frozen=True, array_like=True, gc=False):
    """``runtime``: the newest living snapshot of the runtime context; ``told``: there ever was
    one. ``shadowed``: contexts that left the surface."""

    told: bool = False
    runtime: int | None = None
    shadowed: int = 0


class InjectedValue(Struct, frozen=True, gc=False):
    alive: int
    shadowed: int
    runtime_context: int | None
    runtime_told: bool
    instructions: tuple[Change, ...]


class Injected:
    """The living contexts. A context costs one record; a replacement looks at all that live only
    when it shadows what is in force."""

    __slots__ = ("counts", "instructions", "living")

    def __init__(self) -> None:
        self.living: Table[Context] = Table()
        self.counts = Counts()
        self.instructions: Mapping[str, Change] = {}

    def fork(self) -> Injected:
        twin = Injected.__new__(Injected)
        twin.living, twin.counts = self.living.fork(), self.counts
        twin.instructions = self.instructions
        return twin

    def cut(self) -> Injected:
        """What the surface holds, a fork's child inherits."""
        return self.fork()

    def saved(self) -> Counts | None:
        """For the snapshot's head; ``living`` is saved by its segments."""
        return self.counts if self.living or self.counts != Counts() else None

    @classmethod
    def restored(cls, saved: Counts) -> Injected:
        """Without the living ones, which are segments of their own; then ``index``."""
        room = cls()
        room.counts = saved
        return room

    def index(self) -> None:
        """What follows from the living ones."""
        self.instructions = visible(self.contexts())

    def on_user(self, event: Event, body: UserMessage, _: Shadowed) -> str | None:
        context = context_of(event, body) if body.source.kind != "user" else None
        if context is not None:
            self.living.put(context.key, context)
            if context.runtime:
                self.counts = Counts(True, context.key, self.counts.shadowed)
            if context.changes:
                self.instructions = {**self.instructions, **visible((context,))}
        return None

    def on_shadowed(self, _: Event, __: object, gone: Shadowed) -> str | None:
        left = [context for node in gone if (context := self.living.get(node.seq)) is not None]
        if not left:
            return None
        for context in left:
            self.living.drop(context.key)
        old = self.counts
        runtime = old.runtime
        if any(context.key == runtime for context in left):
            own = (context.key for context in self.living.rows.values() if context.runtime)
            runtime = max(own, default=None)
        self.counts = Counts(old.told, runtime, old.shadowed + len(left))
        if any(context.changes for context in left):
            self.instructions = visible(self.contexts())
        return None

    def contexts(self) -> list[Context]:
        """The living ones in log order."""
        return [self.living[key] for key in sorted(self.living)]

    def value(self) -> InjectedValue:
        counts = self.counts
        return InjectedValue(
            len(self.living),
            counts.shadowed,
            counts.runtime,
            counts.told,
            tuple(self.instructions.values()),
        )


INJECTED: Handlers = {UserMessage: Injected.on_user}
REPLACING: Handlers = dict.fromkeys(_SURFACE, Injected.on_shadowed)


# --- every context there ever was, where the events are ----------------------------------


class Liveness(Struct, frozen=True, gc=False):
    """``state``: alive, superseded (``by``: the newer one) or shadowed (``by``: the replacement
    since which the model does not see it)."""

    seq: int
    kind: str
    plugin: str | None
    form: str | None
    op: str
    state: str
    by: int | None = None


def liveness(
    events: Iterable[Event], current: Iterable[int], shadowed_by: Mapping[int, int]
) -> list[Liveness]:
    """All contexts of a log in log order. ``current``: seqs of the nodes; ``shadowed_by``: seq of
    a shadowed node → the replacement that took it."""
    now = frozenset(current)
    found = []
    for event in events:
        body = event.body
        if isinstance(body, UserMessage) and (context := context_of(event, body)) is not None:
            op = "append" if isinstance(event.marker, Append) else "replace"
            found.append((context, op))
    newer = _newer([context for context, _ in found if context.key in now])
    return [
        Liveness(c.key, c.kind, c.plugin, c.form, op, *_state(c.key, now, shadowed_by, newer))
        for c, op in found
    ]


def _state(
    seq: int, now: frozenset[int], shadowed_by: Mapping[int, int], newer: Mapping[int, int]
) -> tuple[str, int | None]:
    if seq not in now:
        return "shadowed", shadowed_by.get(seq)
    return ("superseded", newer[seq]) if seq in newer else ("alive", None)


def _newer(living: list[Context]) -> dict[int, int]:
    """Living contexts that say nothing any more, and the newer one of each."""
    found: dict[int, int] = {}
    snapshot: int | None = None
    scopes: dict[str, int] = {}
    for context in reversed(living):
        if context.runtime:
            if snapshot is None:
                snapshot = context.key
            else:
                found[context.key] = snapshot
        own = {change.scope for change in context.changes}
        if own and all(scope in scopes for scope in own):
            found[context.key] = max(scopes[scope] for scope in own)
        for scope in own:
            scopes.setdefault(scope, context.key)
    return found


class Runtime(Struct, frozen=True, gc=False):
    """The runtime context in force; ``text`` only when it is exactly one block of text."""

    seq: int
    text: str | None


def runtime_text(body: UserMessage) -> str | None:
    listed = plain(body.content)
    only = listed[0] if isinstance(listed, list) and len(listed) == 1 else None
    if not isinstance(only, dict) or only.get("type") != "text":
        return None
    text = only.get("text")
    return text if isinstance(text, str) else None
