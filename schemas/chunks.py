"""Stream chunks in their three forms: chunk events, packed rows, embedded streams.

session-log.md §1.5, §1.6, §2.2. A chunk that is not of its type's form is an ``OtherChunk``; a
packed row that is not exactly of its form is refused as a whole (its length is unknown).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Final, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from operators.events import (
    MAX_SEQ,
    AssistantChunk,
    BlockEnd,
    BlockStart,
    Chunk,
    Event,
    OtherChunk,
    Run,
    Shape,
    TextDelta,
    ToolDelta,
    UsageChunk,
)

from .blocks import BlockWire, blank, usage_of
from .rows import NO_QUALITY, Reading, Row
from .typed import Piece, Safe, Seq, Wire, typed

_EVENTS: Final = Shape.CHUNK_EVENTS.value
_PACKED: Final = Shape.PACKED_ROWS.value


class ChunkWire(Wire, tag_field="type"):
    """One raw stream chunk."""

    def chunk(self) -> Chunk:
        raise NotImplementedError


class TextDeltaWire(ChunkWire, tag="text-delta"):
    index: Safe
    text: Piece

    def chunk(self) -> Chunk:
        return TextDelta(self.index, "text", self.text)


class ReasoningDeltaWire(ChunkWire, tag="reasoning-delta"):
    index: Safe
    text: Piece

    def chunk(self) -> Chunk:
        return TextDelta(self.index, "reasoning", self.text)


class ToolDeltaWire(ChunkWire, tag="tool-call-delta"):
    index: Safe
    id: str | None = None
    name: str | None = None
    argumentsDelta: Piece = ""  # noqa: N815

    def chunk(self) -> Chunk:
        return ToolDelta(self.index, self.id, self.name, self.argumentsDelta)


class BlockStartWire(ChunkWire, tag="block-start"):
    index: Safe
    blockType: str  # noqa: N815

    def chunk(self) -> Chunk:
        return BlockStart(self.index, self.blockType)


class BlockEndWire(ChunkWire, tag="block-end"):
    index: Safe
    block: Raw

    def chunk(self) -> Chunk:
        block = _BLOCK(self.block) or BlockWire()
        return BlockEnd(
            self.index,
            self.block,
            block.type or "",
            blank(block.text),
            block.id if block.type == "tool-call" else None,
            block.name if block.type == "tool-call" else None,
        )


class UsageChunkWire(ChunkWire, tag="usage"):
    usage: Raw

    def chunk(self) -> Chunk:
        usage = usage_of(self.usage)
        return OtherChunk("usage") if usage is None else UsageChunk(self.usage, usage)


class FinishReason(Wire):
    kind: str | None = None


class FinishWire(ChunkWire, tag="finish"):
    reason: FinishReason | None = None

    def chunk(self) -> Chunk:
        reason = self.reason
        return OtherChunk("finish", reason is not None and reason.kind == "max-tokens")


class AnyChunkWire(Wire):
    type: str | None = None


ChunkUnion: TypeAlias = (
    TextDeltaWire
    | ReasoningDeltaWire
    | ToolDeltaWire
    | BlockStartWire
    | BlockEndWire
    | UsageChunkWire
    | FinishWire
)
_BLOCK: Final[Callable[[Raw], BlockWire | None]] = typed(BlockWire)


class ChunkData(Wire):
    turn: Safe | None = None
    step: Safe | None = None
    chunk: ChunkUnion | None = None


class ChunkRow(Row, tag="assistant/chunk"):
    data: ChunkData | None = None

    def read(self) -> Reading:
        data = self.data
        if data is None:
            return "assistant/chunk", AssistantChunk(None, None, OtherChunk("")), _EVENTS
        wire = data.chunk
        chunk: Chunk
        if type(wire) is TextDeltaWire:  # what nearly every chunk is
            chunk = TextDelta(wire.index, "text", wire.text)
        else:
            chunk = OtherChunk("") if wire is None else wire.chunk()
        return "assistant/chunk", AssistantChunk(data.turn, data.step, chunk), _EVENTS


# --- packed rows ----------------------------------------------------------------------------------


class TextRunData(Wire, forbid_unknown_fields=True):
    turn: Safe
    step: Safe
    index: Safe
    dt: list[Safe]
    texts: list[Piece]


class ToolRunData(Wire, forbid_unknown_fields=True):
    turn: Safe
    step: Safe
    index: Safe
    id: str
    dt: list[Safe]
    args: list[Piece]
    name: str | UnsetType = UNSET


class PackedRow(Wire, tag_field="type", forbid_unknown_fields=True):
    """A packed row holds exactly the keys of session-log.md §1.5; seq0 and time0 are absent
    together, in fixture files alone (§1.7)."""

    seq0: Seq | UnsetType = UNSET
    time0: Safe | UnsetType = UNSET

    def run(self, time0: int) -> tuple[AssistantChunk, int] | None:
        """The run and its length; None when the row is malformed."""
        raise NotImplementedError


class TextChunksRow(PackedRow, kw_only=True, tag="text-chunks"):
    data: TextRunData

    def run(self, time0: int) -> tuple[AssistantChunk, int] | None:
        return _text_run(self.data, "text", time0)


class ReasoningChunksRow(PackedRow, kw_only=True, tag="reasoning-chunks"):
    data: TextRunData

    def run(self, time0: int) -> tuple[AssistantChunk, int] | None:
        return _text_run(self.data, "reasoning", time0)


class ToolChunksRow(PackedRow, kw_only=True, tag="tool-call-chunks"):
    data: ToolRunData

    def run(self, time0: int) -> tuple[AssistantChunk, int] | None:
        data = self.data
        count = len(data.args)
        if count != len(data.dt) + 1:
            return None
        name = None if data.name is UNSET else data.name
        texts, times = tuple(data.args), run_times(time0, data.dt)
        run = Run(data.index, "tool-call", texts, times, data.id, name)
        return AssistantChunk(data.turn, data.step, run), count


def _text_run(data: TextRunData, kind: str, time0: int) -> tuple[AssistantChunk, int] | None:
    count = len(data.texts)
    if count != len(data.dt) + 1:
        return None
    run = Run(data.index, kind, tuple(data.texts), run_times(time0, data.dt))
    return AssistantChunk(data.turn, data.step, run), count


def run_times(time0: int | None, dt: list[int]) -> tuple[int | None, ...]:
    """The times of a run's members: the first, and each after its step of ``dt`` milliseconds;
    None for one that is no safe integer."""
    if time0 is None:
        return (None,) * (len(dt) + 1)
    times = tuple(accumulate(dt, initial=time0))
    if max(times) <= MAX_SEQ and min(times) >= -MAX_SEQ:
        return times
    return tuple(time if abs(time) <= MAX_SEQ else None for time in times)


def packed_event(row: PackedRow, implicit: int | None, digest: int) -> Event | None:
    """The event of a packed row; None when it is malformed. ``implicit`` is the seq of its first
    member in a file whose rows have neither seq nor time."""
    if row.seq0 is not UNSET and row.time0 is not UNSET:
        seq, time = row.seq0, row.time0
    elif implicit is not None and row.seq0 is UNSET and row.time0 is UNSET:
        seq, time = implicit, 0
    else:
        return None
    made = row.run(time)
    if made is None or seq + made[1] - 1 > MAX_SEQ:
        return None
    body, count = made
    return Event(seq, time, "assistant/chunk", body, None, None, digest, count, _PACKED, NO_QUALITY)
