"""Every row type a log can hold, by its type tag: the vocabulary both readers share.

A type is known if it has a row type here (session-log.md §2.1, all versions and forks together);
which shape its data has, the row type decides from the record itself (projection.md §2).
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from operators.events import FACTS, Header

from . import shapes_messages as messages
from . import shapes_results as results
from . import shapes_session as session
from . import shapes_turns as turns
from .chunks import ChunkRow, PackedRow, ReasoningChunksRow, TextChunksRow, ToolChunksRow
from .rows import FactRow, LogOnlyRow, Row
from .typed import Safe, Wire
from .vocabulary import LOG_ONLY


class HeaderRow(Wire, tag_field="type", tag="session"):
    """The log header (session-log.md §1.2); unknown keys are allowed."""

    id: str | None = None
    version: Safe | None = None
    createdAt: Safe | None = None  # noqa: N815
    cwd: str | None = None
    parentSession: str | None = None  # noqa: N815
    origin: str | None = None
    delegationDepth: Safe | None = None  # noqa: N815
    seedLength: Safe | None = None  # noqa: N815

    def header(self, raw: bytes, digest: int, quality: tuple[str, ...]) -> Header:
        return Header(
            self.id,
            Raw(raw),
            self.version,
            self.createdAt,
            self.cwd,
            self.parentSession,
            self.origin,
            self.delegationDepth,
            self.seedLength,
            digest,
            quality,
        )


def _tag(row: type[msgspec.Struct]) -> str:
    return str(row.__struct_config__.tag)


def _log_only(number: int, tag: str) -> type[Row]:
    """A row type for a known type whose data nothing here looks into."""
    base = FactRow if tag in FACTS else LogOnlyRow
    made: Any = msgspec.defstruct(
        f"LogOnly{number}", (), bases=(base,), tag_field="type", tag=tag, gc=False
    )
    return cast(type[Row], made)


_INTERPRETED: Final[tuple[type[Row], ...]] = (
    ChunkRow,
    messages.UserRow,
    messages.SteeringRow,
    messages.ContextRow,
    messages.AssistantRow,
    messages.SystemRow,
    messages.DeveloperRow,
    results.ResultRow,
    turns.TurnStartRow,
    turns.TurnEndRow,
    turns.StepStartRow,
    turns.StepEndRow,
    turns.AttemptRow,
    turns.ToolCallRow,
    turns.CodeStartRow,
    turns.PtcStartRow,
    turns.CodeSettleRow,
    turns.PtcSettleRow,
    turns.RequestHeaderRow,
    turns.RequestContextRow,
    turns.RetryRow,
    turns.RetryStartedRow,
    session.CommandRunRow,
    session.CommandDoneRow,
    session.CompactionStartRow,
    session.CompactStartRow,
    session.CompactionSummaryRow,
    session.CompactSummaryRow,
    session.PruneRow,
    session.CompactionEndRow,
    session.CompactEndRow,
    session.SpliceRow,
    session.EndSeedRow,
    session.TitleRow,
    session.OffloadRow,
)
_LOG_ONLY: Final[tuple[type[Row], ...]] = tuple(
    _log_only(n, type_) for n, type_ in enumerate(sorted(LOG_ONLY))
)

#: Row types of events by type tag.
EVENTS: Final[dict[str, type[Row]]] = {_tag(row): row for row in _INTERPRETED + _LOG_ONLY}
#: Row types of packed chunk rows by type tag.
PACKED: Final[dict[str, type[PackedRow]]] = {
    _tag(row): row for row in (TextChunksRow, ReasoningChunksRow, ToolChunksRow)
}
