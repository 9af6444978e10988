"""Small logs for the tests of the rooms: a list of makers' records, numbered as it is told.

    told = tell(turn_start(), step_start(), delta("hi"), say("hi"), step_end(), turn_end())
    told.row("assistant:2").anchor_seq

Every record gets the next seq and a time of ten times that unless it names its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from operators.changes import Change, SessionOverview, SurfaceChange, TranscriptRow
from operators.events import Line
from operators.session import Session, fold, step
from schemas.inbound import read_line
from tests.operators.records import PACKED, Json


def line(record: Json) -> Line:
    return read_line(json.dumps(record).encode())


def numbered(records: Iterable[Json], first: int = 0) -> list[Json]:
    """The records with seq and time, where they do not name their own."""
    out, seq = [], first
    for record in records:
        if record["type"] == "session":
            out.append(record)
            continue
        tail = "0" if record["type"] in PACKED else ""
        seq = record.get("seq" + tail, seq)
        out.append({"seq" + tail: seq, "time" + tail: 10 * seq, **record})
        seq += len(record["data"][PACKED[record["type"]]]) if tail else 1
    return out


class Told:
    """A log that was folded, and what a test asks of it."""

    def __init__(self, lines: list[Line]) -> None:
        self.folded = fold(lines, "s-1")
        self.state: Session = self.folded.session
        self.rows = {row.key: row for row in self.folded.rows}

    def row(self, key: str) -> Any:
        """A ``TranscriptRow``; what its data holds is for the test to know."""
        return self.rows[key]

    def data(self, key: str) -> Any:
        return self.rows[key].data

    def has(self, key: str) -> bool:
        return key in self.rows

    def keys(self) -> list[str]:
        """Of all rows, in transcript order."""
        return list(self.rows)

    def at(self, key: str) -> tuple[int, int]:
        return self.rows[key].anchor_seq, self.rows[key].anchor_rank

    def visible(self, key: str) -> bool:
        return self.rows[key].visibility == "transcript"

    @property
    def overview(self) -> SessionOverview:
        return self.folded.overview

    @property
    def counts(self) -> dict[str, int]:
        return self.folded.overview.counts

    @property
    def quality(self) -> dict[str, int]:
        return self.folded.overview.quality

    @property
    def surface(self) -> tuple[SurfaceChange, ...]:
        return self.folded.surface

    @property
    def nodes(self) -> list[int]:
        return [node.seq for node in self.state.surface.nodes()]

    @property
    def refused(self) -> list[tuple[str, int | None]]:
        return [(refused.reason, refused.seq) for refused in self.folded.refused]


def lines_of(*records: Json, first: int = 0) -> list[Line]:
    return [line(record) for record in numbered(records, first)]


def tell(*records: Json, first: int = 0) -> Told:
    return Told(lines_of(*records, first=first))


def published(*records: Json, first: int = 0) -> list[list[Change]]:
    """What each line publishes when it is folded by itself."""
    state, out = Session("s-1"), []
    for event in lines_of(*records, first=first):
        state, changes = step(state, event)
        out.append(list(changes))
    return out


def rows_in(changes: Iterable[Change]) -> list[TranscriptRow]:
    return [change for change in changes if isinstance(change, TranscriptRow)]


def json_of(raw: Raw | None) -> Any:
    return None if raw is None else json.loads(bytes(raw))
