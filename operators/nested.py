"""Nested calls: the tree of dispatches under one tool call (projection.md §5.2).

A dispatch names its root call and its parent. It hangs in the latest row of the root id; before
that row exists it waits. An edge that is a self-loop, gives a second parent, closes a cycle or goes
deeper than ``MAX_DEPTH`` is dropped and counted by the caller.
"""

from __future__ import annotations

import msgspec
from immutables import Map
from msgspec import Raw

from .changes import SubCall
from .events import Dispatch
from .table import Table

MAX_DEPTH = 256
INTERRUPTED_ERROR = Raw(b'{"name":"Interrupted","code":"interrupted"}')


class Sub(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One nested call; ``root`` is the key of its root's row, ``parent`` a call id."""

    key: int
    root: int
    parent: str
    id: str
    name: str | None
    arguments: Raw | None
    status: str
    content: Raw | None = None
    error: Raw | None = None
    start_seq: int | None = None
    end_seq: int | None = None


class Waiting(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A dispatch whose root has no row yet."""

    key: int
    body: Dispatch


class Nested:
    """All nested calls of turns that have not ended, and those that wait for their root."""

    __slots__ = ("by_id", "of_root", "subs", "waiting", "waiting_for")

    def __init__(self) -> None:
        self.subs: Table[Sub] = Table()
        self.by_id: Map[tuple[int, str], int] = Map()
        self.of_root: Map[int, tuple[int, ...]] = Map()
        self.waiting: Table[Waiting] = Table()
        self.waiting_for: Map[str, tuple[int, ...]] = Map()

    def fork(self) -> Nested:
        twin = Nested.__new__(Nested)
        twin.subs, twin.by_id, twin.of_root = self.subs.fork(), self.by_id, self.of_root
        twin.waiting, twin.waiting_for = self.waiting.fork(), self.waiting_for
        return twin

    def index(self) -> None:
        """Build what can be looked up from the records (after a restore)."""
        for key in sorted(self.subs):
            sub = self.subs[key]
            self.by_id = self.by_id.set((sub.root, sub.id), key)
            self.of_root = self.of_root.set(sub.root, (*self.of_root.get(sub.root, ()), key))
        for key in sorted(self.waiting):
            root_id = self.waiting[key].body.root_call_id or ""
            held = self.waiting_for.get(root_id, ())
            self.waiting_for = self.waiting_for.set(root_id, (*held, key))

    def wait(self, root_id: str, seq: int, body: Dispatch) -> None:
        self.waiting.put(seq, Waiting(seq, body))
        self.waiting_for = self.waiting_for.set(root_id, (*self.waiting_for.get(root_id, ()), seq))

    def arrived(self, root_id: str) -> list[Waiting]:
        """The dispatches that waited for that root, which wait no longer."""
        keys = self.waiting_for.get(root_id)
        if keys is None:
            return []
        self.waiting_for = self.waiting_for.delete(root_id)
        found = [self.waiting[key] for key in keys]
        for key in keys:
            self.waiting.drop(key)
        return found

    def drop_waiting(self) -> int:
        """Forget what still waits; how many that were (§5.7)."""
        keys = list(self.waiting)
        for key in keys:
            self.waiting.drop(key)
        self.waiting_for = Map()
        return len(keys)

    def put(self, sub: Sub) -> None:
        if (sub.root, sub.id) not in self.by_id:
            self.by_id = self.by_id.set((sub.root, sub.id), sub.key)
            self.of_root = self.of_root.set(sub.root, (*self.of_root.get(sub.root, ()), sub.key))
        self.subs.put(sub.key, sub)

    def find(self, root: int, sub_id: str) -> Sub | None:
        key = self.by_id.get((root, sub_id))
        return None if key is None else self.subs[key]

    def edge_allowed(self, root: int, root_id: str, parent: str, sub_id: str) -> bool:
        """Whether a new child may hang there."""
        depth, at = 1, parent
        while at != root_id:
            if at == sub_id:
                return False
            above = self.find(root, at)
            if above is None:
                break
            at, depth = above.parent, depth + 1
        return depth <= MAX_DEPTH and sub_id != root_id

    def running(self, root: int) -> list[Sub]:
        subs = (self.subs[key] for key in self.of_root.get(root, ()))
        return [sub for sub in subs if sub.status == "running"]

    def is_shown(self, sub: Sub, root_id: str) -> bool:
        """Whether it hangs under its root: every call above it was mentioned."""
        at = sub.parent
        for _ in range(MAX_DEPTH):
            if at == root_id:
                return True
            above = self.find(sub.root, at)
            if above is None:
                break
            at = above.parent
        return False

    def interrupt(self, root: int, root_id: str, seq: int) -> bool:
        """Running nested calls end with the boundary ``seq``; whether any of them is shown."""
        running = self.running(root)
        for sub in running:
            self.subs.put(sub.key, interrupted(sub, seq))
        return any(self.is_shown(sub, root_id) for sub in running)

    def forget(self, root: int) -> None:
        for key in self.of_root.get(root, ()):
            sub = self.subs[key]
            self.by_id = self.by_id.delete((root, sub.id))
            self.subs.drop(key)
        if root in self.of_root:
            self.of_root = self.of_root.delete(root)

    def tree(self, root: int, root_id: str) -> tuple[SubCall, ...]:
        """The nested calls as a tree, each level in order of first mention."""
        children: dict[str, list[Sub]] = {}
        for key in sorted(self.of_root.get(root, ())):
            sub = self.subs[key]
            children.setdefault(sub.parent, []).append(sub)
        return _branch(children, root_id, MAX_DEPTH) if children else ()


def interrupted(sub: Sub, seq: int) -> Sub:
    return msgspec.structs.replace(
        sub, status="interrupted", content=Raw(b"[]"), error=INTERRUPTED_ERROR, end_seq=seq
    )


def started(sub: Sub | None, root: int, seq: int, body: Dispatch, parent: str) -> Sub:
    """A nested call's start, also one that comes after its settling."""
    assert body.sub_call_id is not None
    if sub is None:
        return Sub(
            seq, root, parent, body.sub_call_id, body.name, body.arguments, "running", start_seq=seq
        )
    if sub.start_seq is not None:
        return sub
    return msgspec.structs.replace(sub, name=body.name, arguments=body.arguments, start_seq=seq)


def settled(sub: Sub | None, root: int, seq: int, body: Dispatch, parent: str) -> Sub:
    """A nested call's logged settling; it replaces an interruption and an earlier settling."""
    assert body.sub_call_id is not None
    if sub is None:
        sub = Sub(seq, root, parent, body.sub_call_id, body.name, body.arguments, "running")
    elif sub.start_seq is None:
        sub = msgspec.structs.replace(sub, name=body.name, arguments=body.arguments)
    status = "error" if body.is_error else "ok"
    return msgspec.structs.replace(
        sub, status=status, content=body.content, error=body.error, end_seq=seq
    )


def _branch(children: dict[str, list[Sub]], parent: str, depth: int) -> tuple[SubCall, ...]:
    if not depth:
        return ()
    return tuple(
        SubCall(
            sub.id,
            sub.name,
            sub.arguments,
            sub.status,
            sub.content,
            sub.error,
            sub.start_seq,
            sub.end_seq,
            _branch(children, sub.id, depth - 1),
        )
        for sub in children.get(parent, ())
    )
