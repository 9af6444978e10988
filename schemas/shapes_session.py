"""Commands, compactions, inbox, titles, seeds and image offloads (session-log.md §2.8 to §2.11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from msgspec import Raw

from operators.events import (
    NULL,
    Claim,
    CommandDone,
    CommandRun,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    EndSeed,
    ImageOffload,
    ImageTarget,
    InboxSplice,
    Prune,
    Shape,
    Title,
)

from .blocks import BlockWire, joined_text, usage_of
from .rows import Reading, Row
from .typed import MISSING, Safe, Seq, Wire, given, typed

_LEGACY: Final = Shape.LEGACY_NAMES.value


class CommandData(Wire):
    commandId: str | None = None  # noqa: N815
    name: str | None = None
    args: str | None = None
    kind: str | None = None
    text: str | None = None
    sourceEventSeq: Seq | None = None  # noqa: N815


class CommandRunRow(Row, tag="command/run"):
    data: CommandData | None = None

    def read(self) -> Reading:
        d = self.data or CommandData()
        return "command/run", CommandRun(d.commandId, d.name, d.args), 0


class CommandDoneRow(Row, tag="command/done"):
    data: CommandData | None = None

    def read(self) -> Reading:
        d = self.data or CommandData()
        success = d.kind == "success"
        named = d.sourceEventSeq if success else None
        return "command/done", CommandDone(d.commandId, success, d.text, named), 0


# --- compactions, under either name ---------------------------------------------------------------


class CompactionData(Wire):
    compactionId: str | None = None  # noqa: N815
    sourceCommandId: str | None = None  # noqa: N815
    turn: Safe | None = None
    error: Raw = MISSING


class CompactionStartRow(Row, tag="compaction/start"):
    data: CompactionData | None = None
    bits: ClassVar[int] = 0

    def read(self) -> Reading:
        d = self.data or CompactionData()
        body = CompactionStart(d.compactionId, d.sourceCommandId, d.turn)
        return "compaction/start", body, self.bits


class CompactStartRow(CompactionStartRow, tag="compact/start"):
    bits: ClassVar[int] = _LEGACY


class CompactionEndRow(Row, tag="compaction/end"):
    data: CompactionData | None = None
    bits: ClassVar[int] = 0

    def read(self) -> Reading:
        d = self.data or CompactionData()
        error = given(d.error)
        text = None if error is None else _failure(error)
        body = CompactionEnd(d.compactionId, d.sourceCommandId, d.turn, text)
        return "compaction/end", body, self.bits


class CompactEndRow(CompactionEndRow, tag="compact/end"):
    bits: ClassVar[int] = _LEGACY


def _failure(raw: Raw) -> str:
    """The failure text; one that is no string is shown as logged."""
    text = _TEXT(raw)
    return str(raw, "utf-8") if text is None else text


class RangeWire(Wire):
    start: Seq | None = None
    end: Seq | None = None


class MeterData(Wire):
    """What a metering event says of the replacement right after it (readers.md §5.1)."""

    shadowedRange: RangeWire | None = None  # noqa: N815
    shadowedTokenCount: Seq | None = None  # noqa: N815

    def claim(self) -> Claim | None:
        told, tokens = self.shadowedRange, self.shadowedTokenCount
        if told is None or told.start is None or told.end is None or tokens is None:
            return None
        return Claim(told.start, told.end, tokens)


class PruneRow(Row, tag="compaction/prune"):
    data: MeterData | None = None

    def read(self) -> Reading:
        return "compaction/prune", Prune(None if self.data is None else self.data.claim()), 0


class SummaryData(MeterData):
    compactionId: str | None = None  # noqa: N815
    sourceCommandId: str | None = None  # noqa: N815
    summary: list[BlockWire | None] | None = None
    shadowedSeqs: list[Seq] | None = None  # noqa: N815
    usage: Raw = MISSING
    provider: str | None = None
    model: str | None = None


class CompactionSummaryRow(Row, tag="compaction/summary"):
    data: SummaryData | None = None
    bits: ClassVar[int] = 0

    def read(self) -> Reading:
        d = self.data or SummaryData()
        body = CompactionSummary(
            d.compactionId,
            d.sourceCommandId,
            joined_text(d.summary),
            None if d.shadowedSeqs is None else len(d.shadowedSeqs),
            d.shadowedTokenCount,
            usage_of(given(d.usage)),
            d.claim(),
            d.provider,
            d.model,
        )
        return "compaction/summary", body, self.bits


class CompactSummaryRow(CompactionSummaryRow, tag="compact/summary"):
    bits: ClassVar[int] = _LEGACY


# --- inbox, seeds, titles, offloads ---------------------------------------------------------------


class InsertedWire(Wire):
    id: str | None = None


class SpliceData(Wire):
    target: str | None = None
    start: Safe = 0
    removedCount: Safe = 0  # noqa: N815
    inserted: list[InsertedWire | None] | None = None
    outcome: str | None = None


class SpliceRow(Row, tag="agent/inbox/spliced"):
    data: SpliceData | None = None

    def read(self) -> Reading:
        d = self.data or SpliceData()
        next_step = {"next-step": True, "next-turn": False}.get(d.target or "")
        ids = tuple(None if m is None else m.id for m in d.inserted or ())
        body = InboxSplice(next_step, d.start, d.removedCount, ids, d.outcome == "canceled")
        return "agent/inbox/spliced", body, 0


class EndSeedData(Wire):
    inherited: bool | None = None


class EndSeedRow(Row, tag="session/end-seed"):
    data: EndSeedData | None = None

    def read(self) -> Reading:
        return "session/end-seed", EndSeed((self.data or EndSeedData()).inherited is True), 0


class TitleData(Wire):
    title: str | None = None


class TitleRow(Row, tag="session/title"):
    data: Raw = MISSING

    def read(self) -> Reading:
        told = _TITLE(self.data) or TitleData()
        return "session/title", Title(told.title, self.data if len(self.data) else NULL), 0


class TargetWire(Wire):
    seq: Seq
    imageIndexes: list[Seq]  # noqa: N815


class OffloadData(Wire):
    targets: list[TargetWire | None] | None = None


class OffloadRow(Row, tag="image/offload"):
    data: OffloadData | None = None

    def read(self) -> Reading:
        targets = tuple(
            ImageTarget(None, ()) if t is None else ImageTarget(t.seq, tuple(t.imageIndexes))
            for t in (self.data or OffloadData()).targets or ()
        )
        return "image/offload", ImageOffload(targets), 0


_TEXT: Final[Callable[[Raw], str | None]] = typed(str)
_TITLE: Final[Callable[[Raw], TitleData | None]] = typed(TitleData)
