"""Many sessions: one list of them, and who comes from whom (readers.md §12).

Nothing here recurses: a chain of sessions is as long as somebody's data make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace


class SessionRecord(Struct, frozen=True, gc=False):
    """A session as its header says. ``live``: it is on the topics, ``persisted``: in a file.
    ``partial``: read from something else than a header, so that what is None is not known."""

    id: str
    created_at: int | None = None
    cwd: str | None = None
    parent: str | None = None
    version: int | None = None
    origin: str | None = None
    seed_length: int | None = None
    depth: int | None = None
    partial: bool = False
    live: bool = False
    persisted: bool = False

    @property
    def link(self) -> str | None:
        """What ties it to its parent: ``subagent``, ``fork`` (it was seeded) or ``child``."""
        if self.parent is None:
            return None
        if self.origin == "subagent":
            return "subagent"
        return "fork" if self.seed_length else "child"


class Conflict(Struct, frozen=True, gc=False):
    """Two records of one id that cannot be of one session, and the fields they differ in."""

    id: str
    fields: tuple[str, ...]


_AGREE = ("version", "created_at", "cwd", "parent", "seed_length")


def _by_age(record: SessionRecord) -> tuple[int, str]:
    return record.created_at or 0, record.id


def listed(records: Iterable[SessionRecord]) -> tuple[list[SessionRecord], list[Conflict]]:
    """One record per id, the newest session first; the header of a live copy counts. Copies that
    do not agree are a conflict, and the session stands as the first of them says."""
    found: dict[str, SessionRecord] = {}
    conflicts: list[Conflict] = []
    for record in records:
        known = found.get(record.id)
        if known is None:
            found[record.id] = record
            continue
        differ = _differ(known, record)
        if differ:
            conflicts.append(Conflict(record.id, differ))
            continue
        found[record.id] = _joined(known, record)
    order = sorted(found.values(), key=lambda each: (-(each.created_at or 0), each.id))
    return order, conflicts


def _differ(one: SessionRecord, other: SessionRecord) -> tuple[str, ...]:
    """The fields in which they cannot be of one session; an absent depth is 0."""
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in _AGREE]
    pairs.append(("depth", one.depth or 0, other.depth or 0))
    partial = [record for record in (one, other) if record.partial]
    if partial:
        known = {name for name, *_ in pairs if all(getattr(r, name) is not None for r in partial)}
        pairs = [pair for pair in pairs if pair[0] in known - {"seed_length"}]
    return tuple(name for name, left, right in pairs if left != right)


def _joined(known: SessionRecord, record: SessionRecord) -> SessionRecord:
    """The header of a live copy, and what only the other one knows."""
    first, second = (record, known) if record.live and not known.live else (known, record)
    fields = {"live": known.live or record.live, "persisted": known.persisted or record.persisted}
    if first.partial:
        lacking = (name for name in first.__struct_fields__ if getattr(first, name) is None)
        fields |= {name: getattr(second, name) for name in lacking}
        fields["partial"] = second.partial
    return replace(first, **fields)


class Kin(Struct, frozen=True, gc=False):
    """A session of a lineage: ``depth`` steps below the target (1: a child), 0 on the way up."""

    id: str
    depth: int
    link: str | None
    parent: str | None


class Lineage(Struct, frozen=True, gc=False):
    """``ancestors`` nearest first. The way up ends at a root (``root``, ``complete``), at an id
    nobody knows (``unresolved``) or in a circle (``cycle_at``: the id met twice). ``descendants``
    as one walks a tree: each right after its parent's earlier children and theirs."""

    target: str
    ancestors: tuple[Kin, ...]
    descendants: tuple[Kin, ...]
    complete: bool
    root: str | None = None
    unresolved: str | None = None
    cycle_at: str | None = None


class Family:
    """Sessions by id and by parent; of two records with one id the last counts."""

    def __init__(self, records: Iterable[SessionRecord]) -> None:
        self.by_id: Mapping[str, SessionRecord] = {record.id: record for record in records}
        children: dict[str, list[SessionRecord]] = {}
        for record in self.by_id.values():
            if record.parent is not None:
                children.setdefault(record.parent, []).append(record)
        for family in children.values():
            family.sort(key=_by_age)
        self.children: Mapping[str, list[SessionRecord]] = children

    def lineage(self, target: str) -> Lineage | None:
        """None for a session that is not known."""
        record = self.by_id.get(target)
        if record is None:
            return None
        ancestors: list[Kin] = []
        seen = {target}
        parent = record.parent
        while parent is not None:
            if parent in seen:
                return Lineage(
                    target, tuple(ancestors), self._below(target), False, cycle_at=parent
                )
            above = self.by_id.get(parent)
            if above is None:
                below = self._below(target)
                return Lineage(target, tuple(ancestors), below, False, unresolved=parent)
            seen.add(parent)
            ancestors.append(Kin(parent, 0, above.link, above.parent))
            parent = above.parent
        root = ancestors[-1].id if ancestors else target
        return Lineage(target, tuple(ancestors), self._below(target), True, root)

    def _below(self, target: str) -> tuple[Kin, ...]:
        """All that come from it; those of a circle once each."""
        found: list[Kin] = []
        seen = {target}
        waiting = [(child, 1) for child in reversed(self.children.get(target, ()))]
        while waiting:
            record, depth = waiting.pop()
            if record.id in seen:
                continue
            seen.add(record.id)
            found.append(Kin(record.id, depth, record.link, record.parent))
            below = self.children.get(record.id, ())
            waiting += [(child, depth + 1) for child in reversed(below)]
        return tuple(found)
