"""Fixture rows with their seqs written in read as `read_line` reads them when told the seq."""

from __future__ import annotations

import msgspec
import pytest

from operators.events import Event
from schemas.counting import with_seqs
from schemas.inbound import read_line
from schemas.jsonl import LogLine

ROWS = [
    b'{"type":"turn/start","data":{"turn":1}}',
    b'{"type":"text-chunks","data":{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a","b"]}}',
    b"not json",
    b"{}",
    b'  { "type":"turn/end","time":5,"data":{"turn":1}} \r',
    b'{"type":"todo/write","data":"\\ud800"}',
    b'{"type":"text-chunks","data":{}}',
    b"[1]",
    b'{"type":"turn/start","data":{"turn":2}}',
]


def numbered(rows: list[bytes]) -> list[LogLine]:
    header = LogLine(1, b'{"type":"session","version":0,"id":"x"}', 0, None, 0)
    lines = [header, *(LogLine(at, row, 0) for at, row in enumerate(rows, 2))]
    got = list(with_seqs(lines))
    assert got[0] is header
    assert [line.number for line in got] == [line.number for line in lines]
    return got[1:]


def test_seqs_count_decoded_events_and_faults_that_take_one() -> None:
    assert [(line.seq, line.count) for line in numbered(ROWS)] == [
        (0, 1),
        (1, 2),
        (None, 1),
        (3, 1),
        (4, 1),
        (5, 1),
        (None, 1),
        (None, 1),
        (6, 1),
    ]


@pytest.mark.parametrize("row", ROWS)
def test_the_written_seq_reads_like_the_counted_one(row: bytes) -> None:
    lines = numbered([ROWS[0], row])
    counted, written = read_line(row, 1), read_line(lines[1].raw)
    assert type(written) is type(counted)
    if isinstance(counted, Event):
        assert isinstance(written, Event)
        counted = msgspec.structs.replace(counted, digest=written.digest)
    else:
        assert not isinstance(written, Event)
        counted = msgspec.structs.replace(counted, digest=written.digest)
    assert repr(written).split("Raw object")[0] == repr(counted).split("Raw object")[0]
    assert written.seq == counted.seq  # type: ignore[union-attr]
