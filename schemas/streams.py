"""Embedded streams (session-log.md §1.6): the records of an attempt, the facts of a message.

A message's stream can hold thousands of deltas of which the fold needs two facts, so the pieces of
a run stay opaque until somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import Raw

from operators.events import Run, Stream, Timed

from .blocks import usage_of
from .chunks import (
    ChunkUnion,
    ReasoningDeltaWire,
    TextDeltaWire,
    ToolDeltaWire,
    UsageChunkWire,
    run_times,
)
from .typed import Piece, Safe, Wire, given, typed

_NONE: Final = Raw(b"[]")
_TEXT_DELTAS: Final = (TextDeltaWire, ReasoningDeltaWire)


class TextRecord(Wire, tag_field="type", tag="text-chunks"):
    time0: Safe | None = None
    index: Safe = 0
    dt: Raw = _NONE
    texts: Raw = _NONE


class ReasoningRecord(Wire, tag_field="type", tag="reasoning-chunks"):
    time0: Safe | None = None
    index: Safe = 0
    dt: Raw = _NONE
    texts: Raw = _NONE


class ToolRecord(Wire, tag_field="type", tag="tool-call-chunks"):
    time0: Safe | None = None
    index: Safe = 0
    id: str | None = None
    name: str | None = None
    dt: Raw = _NONE
    args: Raw = _NONE


class ChunkRecord(Wire, tag_field="type", tag="chunk"):
    time: Safe | None = None
    chunk: ChunkUnion | None = None


RunRecord: TypeAlias = TextRecord | ReasoningRecord | ToolRecord
Records: TypeAlias = list[TextRecord | ReasoningRecord | ToolRecord | ChunkRecord | None]

_RECORDS: Final[Callable[[Raw], Records | None]] = typed(Records)
_TEXTS: Final[Callable[[Raw], list[Piece] | None]] = typed(list[Piece])
_STEPS: Final[Callable[[Raw], list[Safe] | None]] = typed(list[Safe])


def read_records(raw: Raw | None) -> Records | None:
    """The records of a ``stream``; None when it is no list. An unreadable record is None."""
    return None if raw is None else _RECORDS(raw)


def facts(records: Records) -> Stream:
    """First token time and last usage sample."""
    first: tuple[int | None] | None = None
    usage_raw: Raw | None = None
    for record in records:
        if isinstance(record, ChunkRecord):
            chunk = record.chunk
            if type(chunk) is UsageChunkWire:
                usage_raw = given(chunk.usage) or usage_raw
            elif first is None and _is_token(chunk):
                first = (record.time,)
        elif first is None and record is not None:
            first = _first_token(record)
    time = None if first is None else first[0]
    usage = usage_of(usage_raw)
    return Stream(time) if usage is None else Stream(time, usage_raw, usage)


def timed(records: Records) -> Iterator[Timed]:
    """The records as the fold takes them; unreadable ones left out."""
    for record in records:
        if record is None:
            continue
        if not isinstance(record, ChunkRecord):
            run = _run(record)
            if run is not None:
                yield Timed(record.time0, run)
        elif record.chunk is not None:
            yield Timed(record.time, record.chunk.chunk())


def _is_token(chunk: ChunkUnion | None) -> bool:
    """A delta that makes a first token (readers.md §2)."""
    if isinstance(chunk, _TEXT_DELTAS):
        return chunk.text != ""
    return isinstance(chunk, ToolDeltaWire) and (
        chunk.argumentsDelta != "" or chunk.name is not None
    )


def _first_token(record: RunRecord) -> tuple[int | None] | None:
    """The time of the run's first token, in a tuple; None when it has none."""
    if isinstance(record, ToolRecord) and record.name is not None:
        return (record.time0,) if _pieces(record) else None
    pieces = _pieces(record)
    at = next((k for k, piece in enumerate(pieces) if piece), None)
    return None if at is None else (_times(record, len(pieces))[at],)


def _run(record: RunRecord) -> Run | None:
    pieces = _pieces(record)
    if not pieces:
        return None
    texts, times = tuple(pieces), _times(record, len(pieces))
    if isinstance(record, ToolRecord):
        return Run(record.index, "tool-call", texts, times, record.id, record.name)
    kind = "text" if isinstance(record, TextRecord) else "reasoning"
    return Run(record.index, kind, texts, times)


def _pieces(record: RunRecord) -> list[Piece]:
    return _TEXTS(record.args if isinstance(record, ToolRecord) else record.texts) or []


def _times(record: RunRecord, count: int) -> tuple[int | None, ...]:
    """The times of ``count`` members; None where ``dt`` does not say."""
    known = run_times(record.time0, (_STEPS(record.dt) or [])[: count - 1])
    return known + (None,) * (count - len(known))
