"""Fixture files, whose rows have no ``seq`` and no ``time`` (session-log.md §1.7): numbered by
counting decoded events, with time 0, so that their lines can travel like any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from operators.events import Event, Header

from .inbound import read_line
from .jsonl import LogLine

_PACKED = ("text-chunks", "reasoning-chunks", "tool-call-chunks")


class _Row(msgspec.Struct):
    type: object = None


def with_seqs(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """The lines of a file in which no row has a seq, with their seqs written into their bytes.

    The header, and what is no JSON object, stays as it is and counts for nothing; a packed row
    counts its members, any other row that has a seq of its own or is given one here counts 1.
    """
    seq = 0
    for line in lines:
        row = line.raw.lstrip()
        read = read_line(line.raw, seq)
        if isinstance(read, Header) or read.seq is None or not row.startswith(b"{"):
            yield line
            continue
        count = read.count if isinstance(read, Event) else 1
        yield msgspec.structs.replace(line, raw=_numbered(row, seq), seq=seq, count=count)
        seq += count


def _numbered(row: bytes, seq: int) -> bytes:
    """In front of the row's own keys: of a repeated key the last counts, so its own time stands."""
    key, time = (b"seq0", b"time0") if _is_packed(row) else (b"seq", b"time")
    rest = row[1:].lstrip()
    comma = b"" if rest.startswith(b"}") else b","
    return b'{"%b":%d,"%b":0%b%b' % (key, seq, time, comma, rest)


def _is_packed(row: bytes) -> bool:
    try:
        return msgspec.json.decode(row, type=_Row).type in _PACKED
    except (msgspec.MsgspecError, RecursionError):
        return False
