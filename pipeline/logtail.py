"""A log file folded as it grows, one line after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xxhash import xxh3_64_intdigest

from operators.changes import TranscriptRow
from operators.session import Out
from schemas.growing import Place, holds
from schemas.jsonl import LogFile, open_log

from .documents import Folding
from .reading import Numbered


class LogTail:
    """``folding`` is what came of the file so far. ``began``: how often it was begun; more than
    once, if it was cut or replaced. ``unread``: why it could not be read when it was last tried."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began = 0
        self.unread: str | None = None
        self._begin()

    def _begin(self) -> None:
        self.folding = Folding()
        self.began += 1
        self._afresh()

    def _afresh(self) -> None:
        self._place: Place | None = None
        self._taken = 0  # lines
        self._seqs = False  # one of them had a seq
        self._ends = (0, 0)  # digests of the first and of the last

    def more(self) -> Iterator[list[TranscriptRow]]:
        """Fold what the file has more than before; after each line the rows that it changed."""
        if self._taken and self._replaced():
            self._begin()
        elif self._taken and not self._seqs:  # a fixture: what is counted is counted from the start
            self.folding = Folding()
            self._afresh()
        log = open_log(self.path, after=self._place)
        self._place = None
        walk = self.folding.walk(self._new(log), log.damage)
        more = True
        while more:
            self.folding.out = out = Out(partials=False)
            more = next(walk, self) is not self
            out.session, out.epoch = self.folding.session.session, self.folding.session.epoch
            if rows := out.rows():
                yield rows
        self._place = log.place
        lost = (damage.message for damage in log.damage if damage.code == "unreadable")
        self.unread = next(lost, None)

    def move(self, path: Path) -> None:
        """The log is in another file from now on: one of a later generation."""
        if path != self.path:
            self.path = path
            self._begin()

    def running(self) -> list[TranscriptRow]:
        """The rows of steps that still run, with their text."""
        return self.folding.session.open_rows()

    def _new(self, log: LogFile) -> Iterator[Numbered]:
        for line in log.lines:
            if line.number > self._taken:
                self._taken = line.number
                self._seqs = self._seqs or line.seq is not None
                last = xxh3_64_intdigest(line.raw)
                self._ends = (self._ends[0] if line.number > 1 else last, last)
                yield line.number, line.raw

    def _replaced(self) -> bool:
        if self._place is not None and holds(self.path, self._place):
            return False
        log = open_log(self.path)
        count = 0
        for line in log.lines:
            count = line.number
            digest = xxh3_64_intdigest(line.raw)
            other = count == 1 and digest != self._ends[0]
            if other or count >= self._taken:
                log.lines.close()
                return other or count > self._taken or digest != self._ends[1]
        return not any(damage.code == "unreadable" for damage in log.damage)
