"""Embedded streams (session-log.md §1.6): the records of an attempt, the facts of a message.

A message's stream can hold thousands of deltas of which the fold needs two facts, so for those the
pieces of a run stay opaque, and of a chunk only what makes a token or a sample is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import Raw

from operators.events import Run, Stream, Timed, Usage

from .blocks import usage_of
from .chunks import ChunkUnion, run_times
from .typed import Piece, Safe, Wire, given, typed

_NONE: Final = Raw(b"[]")
_QUOTE: Final = 0x22


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


# What is left of a chunk when only tokens and samples matter.


class DeltaFact(Wire, tag_field="type", tag="text-delta"):
    text: Piece = ""


class ReasoningFact(Wire, tag_field="type", tag="reasoning-delta"):
    text: Piece = ""


class ToolFact(Wire, tag_field="type", tag="tool-call-delta"):
    name: str | None = None
    argumentsDelta: Piece = ""  # noqa: N815


class UsageFact(Wire, tag_field="type", tag="usage"):
    usage: Raw = _NONE


class StartFact(Wire, tag_field="type", tag="block-start"):
    pass


class EndFact(Wire, tag_field="type", tag="block-end"):
    pass


class FinishFact(Wire, tag_field="type", tag="finish"):
    pass


ChunkFact: TypeAlias = (
    DeltaFact | ReasoningFact | ToolFact | UsageFact | StartFact | EndFact | FinishFact
)


class ChunkFactRecord(Wire, tag_field="type", tag="chunk"):
    time: Safe | None = None
    chunk: ChunkFact | None = None


Facts: TypeAlias = list[TextRecord | ReasoningRecord | ToolRecord | ChunkFactRecord | None]

_read_records: Final[Callable[[Raw], Records | None]] = typed(Records)
_read_facts: Final[Callable[[Raw], Facts | None]] = typed(Facts)
_read_texts: Final[Callable[[Raw], list[str] | None]] = typed(list[Piece])
_read_steps: Final[Callable[[Raw], list[int] | None]] = typed(list[Safe])


def stream_of(raw: Raw, own: Raw | None = None, sample: Usage | None = None) -> Stream | None:
    """First token time and last usage sample of a ``stream``; None when it is no list.

    ``own`` and ``sample`` are the message's usage, read already: as a rule the stream's last one
    is the same text.
    """
    records = _read_facts(raw)
    if not records:
        return None if records is None else EMPTY
    first: tuple[int | None] | None = None
    usage_raw: Raw | None = None
    for record in records:
        if type(record) is ChunkFactRecord:
            chunk = record.chunk
            if type(chunk) is UsageFact:
                usage_raw = given(chunk.usage) or usage_raw
            elif first is None and _is_token(chunk):
                first = (record.time,)
        elif first is None and record is not None:
            first = _first_token(record)  # type: ignore[arg-type]
    time = None if first is None else first[0]
    usage = sample if usage_raw is not None and usage_raw == own else usage_of(usage_raw)
    return Stream(time, None if usage is None else usage_raw, usage, raw)


EMPTY: Final = Stream()


def timed(raw: Raw) -> Iterator[Timed]:
    """The records of a ``stream`` as the fold takes them; unreadable ones are left out."""
    for record in _read_records(raw) or ():
        if record is None:
            continue
        if not isinstance(record, ChunkRecord):
            run = _run(record)
            if run is not None:
                yield Timed(record.time0, run)
        elif record.chunk is not None:
            yield Timed(record.time, record.chunk.chunk())


def _is_token(chunk: ChunkFact | None) -> bool:
    """A delta that makes a first token (readers.md §2)."""
    kind = type(chunk)
    if kind is DeltaFact or kind is ReasoningFact:
        return chunk.text != ""  # type: ignore[union-attr]
    return isinstance(chunk, ToolFact) and (chunk.argumentsDelta != "" or chunk.name is not None)


def _first_token(record: RunRecord) -> tuple[int | None] | None:
    """The time of the run's first token, in a tuple; None when it has none."""
    named = type(record) is ToolRecord and record.name is not None
    raw = record.args if isinstance(record, ToolRecord) else record.texts
    head = bytes(memoryview(raw)[:3])
    if len(head) == 3 and head[:2] == b'["' and (named or head[2] != _QUOTE):
        return (record.time0,)  # its first piece, without reading on
    pieces = _read_texts(raw) or []
    at = next((k for k, piece in enumerate(pieces) if piece or named), None)
    return None if at is None else (_times(record, len(pieces))[at],)


def _run(record: RunRecord) -> Run | None:
    pieces = _read_texts(record.args if isinstance(record, ToolRecord) else record.texts)
    if not pieces:
        return None
    texts, times = tuple(pieces), _times(record, len(pieces))
    if isinstance(record, ToolRecord):
        return Run(record.index, "tool-call", texts, times, record.id, record.name)
    kind = "text" if isinstance(record, TextRecord) else "reasoning"
    return Run(record.index, kind, texts, times)


def _times(record: RunRecord, count: int) -> tuple[int | None, ...]:
    """The times of ``count`` members; None where ``dt`` does not say."""
    known = run_times(record.time0, (_read_steps(record.dt) or [])[: count - 1])
    return known + (None,) * (count - len(known))
