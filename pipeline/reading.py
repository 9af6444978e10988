"""Lines of a log file on their way to the fold: numbered where the file has no seqs, and cut to the
seqs asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from operators.events import AssistantChunk, Event, Fault, Header, Line, Run
from schemas.inbound import read_line

Numbered: TypeAlias = tuple[int, bytes]
"""A line's number in its file, from 1, and its bytes."""


class _Probe(Struct):
    seq: Raw | UnsetType = UNSET
    seq0: Raw | UnsetType = UNSET


_probe = msgspec.json.Decoder(_Probe).decode


def read_lines(lines: Iterable[Numbered]) -> Iterator[tuple[int, Line]]:
    """Each line read. A file in which *no* row has ``seq`` or ``seq0`` gets its seqs by counting,
    and time 0 (session-log.md §1.7); until a row has one, lines are held."""
    held: list[Numbered] = []
    lines = iter(lines)
    for number, raw in lines:
        held.append((number, raw))
        if _has_seq(raw):
            break
    else:
        yield from _counted(held)
        return
    for number, raw in held:
        yield number, read_line(raw)
    del held
    for number, raw in lines:
        yield number, read_line(raw)


def _has_seq(raw: bytes) -> bool:
    try:
        row = _probe(raw)
    except msgspec.DecodeError:  # no JSON object at all, or one for the exact reader
        line = read_line(raw)
        return not isinstance(line, Header) and line.seq is not None
    return row.seq is not UNSET or row.seq0 is not UNSET


def _counted(lines: Iterable[Numbered]) -> Iterator[tuple[int, Line]]:
    """A faulted row takes its seq where that is all that is known of it; the header, and what is
    no row at all, takes none."""
    seq = 0
    for number, raw in lines:
        line = read_line(raw, seq)
        if isinstance(line, Event):
            seq += line.count
        elif isinstance(line, Fault) and line.seq == seq:
            seq += 1
        yield number, line


class Window(Struct, frozen=True):
    """The seqs asked for, both ends inclusive; None: no bound."""

    low: int | None = None
    high: int | None = None

    @property
    def whole(self) -> bool:
        return self.low is None and self.high is None

    def clip(self, line: Line) -> Line | None:
        """The line as it stands in a file that holds only the events asked for: None if it does
        not stand there, a packed row with the members inside. A line whose seq is unknown is none
        of those events; the header always stands."""
        if isinstance(line, Header):
            return line
        if line.seq is None:
            return None
        low = 0 if self.low is None else self.low
        count = line.count if isinstance(line, Event) else 1
        skip = max(low - line.seq, 0)
        keep = count if self.high is None else min(self.high - line.seq + 1, count)
        if skip >= keep:
            return None
        if isinstance(line, Fault) or keep - skip == line.count:
            return line
        return _members(line, skip, keep)


def _members(event: Event, start: int, stop: int) -> Event:
    """The members from ``start`` to before ``stop`` of a packed row."""
    body = event.body
    assert isinstance(body, AssistantChunk)
    assert isinstance(body.chunk, Run)
    replace = msgspec.structs.replace
    texts, times = body.chunk.texts[start:stop], body.chunk.times[start:stop]
    run = replace(body.chunk, texts=texts, times=times)
    return replace(
        event,
        seq=event.seq + start,
        time=times[0],
        count=stop - start,
        body=replace(body, chunk=run),
    )
