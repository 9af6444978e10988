"""Message sources: who a user, system or developer message comes from, and what to call it.

projection.md §5.5 and session-log.md §2.2, §4.1: labels, forms, and the compaction source in both
its shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Raw

from operators.events import Checkpoint, Shape, Source

from .typed import Wire, typed

FORMS: Final = frozenset({"instructions", "catalog", "snapshot", "notice", "relay", "recall"})
_USER_BYTES: Final = b'{"kind":"user"}'
_USER: Final = Source(Raw(_USER_BYTES), "user")
_NONE: Final = Source()
_PLUGIN: Final = Shape.CHECKPOINT_PLUGIN.value
_PRODUCER: Final = Shape.CHECKPOINT_PRODUCER.value


class LabelWire(Wire):
    label: str | None = None
    path: str | None = None


class SourceWire(Wire):
    kind: str | None = None
    plugin: str | None = None
    name: str | None = None
    form: str | None = None
    compactionId: str | None = None  # noqa: N815
    sourceCommandId: str | None = None  # noqa: N815
    references: list[LabelWire | None] | None = None
    changes: list[LabelWire | None] | None = None


_SOURCE: Final[Callable[[Raw], SourceWire | None]] = typed(SourceWire)


def source_of(raw: Raw | None) -> Source:
    """The source as logged; kind "" when it has none or is no object."""
    if raw is None:
        return _NONE
    if len(raw) == len(_USER_BYTES) and bytes(raw) == _USER_BYTES:
        return _USER
    wire = _SOURCE(raw)
    if wire is None:
        return Source(raw)
    kind = wire.kind or ""
    form = wire.form if wire.form in FORMS else None
    return Source(raw, kind, _producer(kind, wire), form, _checkpoint(kind, wire))


def checkpoint_shape(source: Source) -> int:
    """The shape bit of a compaction source."""
    if source.checkpoint is None:
        return 0
    return _PLUGIN if source.kind == "plugin" else _PRODUCER


def _producer(kind: str, wire: SourceWire) -> str | None:
    if kind in ("", "user"):
        return None
    if kind == "plugin":
        return wire.plugin or kind
    if kind == "session-reference":
        return _labels(r.label for r in wire.references or () if r is not None) or kind
    if kind in ("agent-instructions", "workspace-instructions"):
        return _labels(c.path for c in wire.changes or () if c is not None) or kind
    if kind == "skill-invocation":
        return wire.name or kind
    return kind


def _labels(labels: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(label for label in labels if label))


def _checkpoint(kind: str, wire: SourceWire) -> Checkpoint | None:
    if kind == "compact-checkpoint" or (kind == "plugin" and wire.plugin == "compact"):
        return Checkpoint(wire.compactionId, wire.sourceCommandId)
    return None
