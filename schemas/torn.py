"""The lines of a log file, and the rule for its tail (session-log.md §1.3).

At the first defective row the harness looks at what follows: is that row or a later one a
``turn/end``, the log is corrupt; else everything from the defect on is a torn tail. A complete zstd
frame has no torn tail. Here a corrupt log's lines are all handed on (each bad one becomes a fault
where it is folded), and a torn tail is dropped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from struct import Struct as Packing
from typing import Any

from msgspec import Struct

from .rowcheck import Row, RowCheck

#: Held lines move from memory to a temporary file above this many bytes.
SPOOL = 8 * 1024 * 1024

_LENGTHS = Packing("<QQQqQ")


class Damage(Struct, frozen=True):
    """One thing wrong with a file. ``fatal``: the harness refuses the whole log for it. ``lost``:
    the bytes ``offset`` … ``end`` were not handed on as lines, though they are no mere torn end.
    Offsets count bytes of the file for frames, bytes of the log's text for lines.

    Codes that lose lines: ``unreadable`` ``frame-magic`` ``frame-corrupt`` ``frame-unterminated``
    ``too-large`` ``tail-dropped``. What a crash leaves, never fatal: ``line-torn`` ``frame-torn``
    ``tail-dropped``. The whole file: ``empty`` and ``header-missing`` (fatal, and said, only where
    the name is a harness's) ``header`` ``bom`` ``encoding-name`` ``frame-header`` ``seed-length``
    ``seed-marker`` ``retired-type`` ``compaction-overlap``. The first defective row: ``not-json``
    ``not-object`` ``seq-gap`` ``seq-missing`` ``packed-row`` ``sources-range`` ``envelope``.
    """

    code: str
    message: str
    line: int | None = None
    offset: int | None = None
    fatal: bool = True
    end: int | None = None
    lost: bool = False


class LogLine(Struct, frozen=True, gc=False):
    """One whole line: ``number`` from 1 (the header's too), its bytes without the newline, where it
    begins in the log's text, and the first seq and the number of its events (the header: None and
    0; a row without a readable seq: None and 1)."""

    number: int
    raw: bytes
    offset: int
    seq: int | None = None
    count: int = 1


class Piece(Struct, gc=False):
    """What lies between two newlines. ``raw`` is empty if it is too long; ``sealed``: it ends in a
    complete, verified frame, where nothing can be torn."""

    raw: bytes
    offset: int
    length: int
    whole: bool
    sealed: bool

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.offset + self.length + 1


class Rows:
    """Turns the whole lines of one log, in order, into those that are handed on.

    ``end``: the offset after the last line that was handed on (or is too long to be).
    """

    def __init__(self, damage: list[Damage]) -> None:
        self.end = 0
        self._damage = damage
        self._reported: set[str] = set()
        self._check = RowCheck(None, _unsaid)
        #: Whether defects mean anything: in a harness's log, before the first one.
        self._judging = False
        self._held: _Held | None = None

    @property
    def holds(self) -> bool:
        """Whether lines wait for what follows them."""
        return self._held is not None

    def go_on(self, damage: list[Damage]) -> None:
        """The file has grown: what is wrong with its further lines is reported there."""
        self._damage = damage

    def header(self, piece: Piece, header: dict[str, Any]) -> LogLine:
        """Line 1 is a header: what follows is a harness's log."""
        self._check = RowCheck(header, self._refused)
        self._judging = True
        self.end = piece.end
        return LogLine(1, piece.raw, piece.offset, None, 0)

    def too_large(self, piece: Piece, number: int, limit: int) -> None:
        message = f"a line of {piece.length} bytes is above the limit of {limit}"
        until = piece.offset + piece.length
        self._damage.append(
            Damage("too-large", message, number, piece.offset, False, until, lost=True)
        )
        self._check.skip()
        if self._held is None:
            self.end = piece.end

    def plain(self, piece: Piece, number: int) -> LogLine | None:
        """The line, if it is one that :meth:`take` would hand on without a word: nearly all are,
        and this is the fast way. None: it has not been taken."""
        if self._held is not None:
            return None
        seq = self._check.plain(piece.raw)
        if seq is None:
            return None
        self.end = piece.offset + piece.length + 1
        return LogLine(number, piece.raw, piece.offset, seq)

    def take(self, piece: Piece, number: int) -> Iterator[LogLine]:
        """Any line but a header: itself, nothing yet, or what was held and itself."""
        row = self._check.row(piece.raw)
        line = LogLine(number, piece.raw, piece.offset, row.seq, row.count)
        if row.defect is not None and self._judging:
            self._judge(piece, row, number)
        if self._held is not None:
            if not row.closes:
                self._held.add(line)
                return
            self._damage.append(self._held.defect)
            yield from self._held.lines()
            self._held = None
        self.end = piece.end
        yield line

    def finish(self) -> None:
        """The file ends here: what is held is a torn tail."""
        if self._held is None:
            self._check.finish()
            return
        defect = self._held.defect
        message = f"{self._held.count} lines dropped as a torn tail: {defect.message}"
        until = self._held.close()
        self._damage.append(
            Damage("tail-dropped", message, defect.line, defect.offset, False, until, lost=True)
        )

    def _judge(self, piece: Piece, row: Row, number: int) -> None:
        self._judging = False
        if row.defect == "seq-missing" and number == 2:
            return  # a fixture, in which no row has a seq (§1.7)
        defect = Damage(row.defect or "", f"line {number}: {row.message}", number, piece.offset)
        if piece.sealed or row.closes:
            self._damage.append(defect)
        else:
            self._held = _Held(defect)

    def _refused(self, code: str, message: str) -> None:
        if code not in self._reported:
            self._reported.add(code)
            self._damage.append(Damage(code, message))


def _unsaid(code: str, message: str) -> None:
    """In a file without header nothing is a harness's to refuse."""


class _Held:
    """The lines from a first defect on, until it is known whether a ``turn/end`` follows."""

    def __init__(self, defect: Damage) -> None:
        self.defect = defect
        self.count = 0
        self._end = defect.offset or 0
        self._file = tempfile.SpooledTemporaryFile(SPOOL)  # noqa: SIM115 (lines, close)

    def add(self, line: LogLine) -> None:
        seq = -1 if line.seq is None else line.seq
        lengths = _LENGTHS.pack(len(line.raw), line.number, line.offset, seq, line.count)
        self._file.write(lengths + line.raw)
        self.count += 1
        self._end = line.offset + len(line.raw) + 1

    def lines(self) -> Iterator[LogLine]:
        with self._file as file:
            file.seek(0)
            while lengths := file.read(_LENGTHS.size):
                size, number, offset, seq, count = _LENGTHS.unpack(lengths)
                raw = file.read(size)
                yield LogLine(number, raw, offset, None if seq < 0 else seq, count)

    def close(self) -> int:
        """Forget the lines; the offset after the last one."""
        self._file.close()
        return self._end
