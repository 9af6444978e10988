"""The envelope: one wire struct per event type, and how a row becomes an Event.

A row type says its type tag, the wire form of its data and what it means (:meth:`Row.read`). Both
readers make such rows, so a record means the same whichever of them could read it.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import UNSET, Raw, UnsetType

from operators.events import NULL, Body, Fact, LogOnly

from .markers import SourceSeqs, SurfaceOp
from .typed import MISSING, Safe, Seq, Wire

#: Canonical type, body, shape bits.
Reading: TypeAlias = tuple[str, Body, int]

NO_QUALITY: tuple[str, ...] = ()
MALFORMED: tuple[str, ...] = ("malformed",)


class Row(Wire, tag_field="type"):
    """The envelope of every event; ``data`` is the subclass's. Before :meth:`read` is called, seq
    is set; a marker that is present and wrong stands as any that is present."""

    seq: Seq | UnsetType = UNSET
    time: Safe | None = None
    ignorable: bool | UnsetType = UNSET
    surfaceOp: SurfaceOp = UNSET  # noqa: N815
    sourceEventSeqs: SourceSeqs = UNSET  # noqa: N815

    def read(self) -> Reading:
        """What the row says. Total: any row of this type has a reading."""
        raise NotImplementedError


class LogOnlyRow(Row):
    """A known type without effect on rows and surface; its data is not looked at."""

    def read(self) -> Reading:
        return str(self.__struct_config__.tag), LogOnly(), 0


class FactRow(Row):
    """The same, whose data some reader of the session looks at."""

    data: Raw = MISSING

    def read(self) -> Reading:
        data = self.data
        return str(self.__struct_config__.tag), Fact(data if len(data) else NULL), 0


class OpenRow(Wire):
    """The envelope of a type that has no row type: ``type`` is any string."""

    type: str
    seq: Seq | UnsetType = UNSET
    time: Safe | None = None
    ignorable: bool | UnsetType = UNSET
    surfaceOp: SurfaceOp = UNSET  # noqa: N815
    sourceEventSeqs: SourceSeqs = UNSET  # noqa: N815
