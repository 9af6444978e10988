"""Session-log files as the harness leaves them, one line at a time (session-log.md §1.1 to §1.3).

Raw and zstd, told apart by their bytes; any generation; torn, damaged and hand-made ones. A log is
streamed: in memory are one chunk, one line of at most ``max_line_bytes`` and, once a defect was
seen, a spool of what follows it that moves to a temporary file when it grows.

What is wrong is a value: ``LogFile.damage``. Lines are handed on more readily than the harness
would, with three exceptions: a last line without its newline, a torn tail (``torn.py``), and what
stands behind a frame that cannot be decoded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from .growing import Place, inode, proof
from .names import transcript
from .rowcheck import exact_json, header_faults
from .torn import SPOOL, Damage, LogLine, Piece, Rows
from .zstdframes import MAGIC, CorruptFrameError, content, frames

__all__ = ["MAX_LINE_BYTES", "Damage", "LogFile", "LogLine", "Place", "open_log"]

MAX_LINE_BYTES = 8 * 1024 * 1024
CHUNK = 256 * 1024
_BOM = b"\xef\xbb\xbf"


class LogFile:
    """An open log. ``lines`` can be walked once (closing it closes the file); after it are complete
    ``damage``, and ``header``, the header object (None: the file has none).

    ``place``, too: where to go on; None where that cannot be said (something is torn). ``resumed``,
    known with the first line: these are the lines after the place that was given.
    """

    def __init__(
        self, source: Path | BinaryIO, max_line_bytes: int, after: Place | None = None
    ) -> None:
        self.name = str(source) if isinstance(source, Path) else "-"
        self.damage: list[Damage] = []
        self.header: dict[str, Any] | None = None
        self.lines: Generator[LogLine, None, None] = self._read(source)
        self._limit = max_line_bytes
        self._rows = Rows(self.damage)
        #: The name says that a harness wrote it, so that a missing header means something.
        self._named = isinstance(source, Path) and transcript(source.name) is not None
        self._raw = False
        self._broken = False
        self.place: Place | None = None
        self.resumed = False
        self._after = after
        #: Whole lines so far; the offsets after the last one, in the file and in the log's text.
        self._number = self._position = self._text = 0
        self._whole = True  # nothing was handed on that a later reading would not begin behind

    @property
    def end(self) -> int | None:
        """Where the line after the last one handed on begins; None for zstd."""
        return self._rows.end if self._raw else None

    @property
    def session(self) -> str | None:
        """The header's id, once the first line was read; None without a usable one."""
        found = self.header.get("id") if self.header else None
        return found if isinstance(found, str) and found else None

    def _read(self, source: Path | BinaryIO) -> Generator[LogLine, None, None]:
        try:
            if not isinstance(source, Path):
                yield from self._walk(source)
            elif str(source) == "-":
                yield from self._walk(sys.stdin.buffer)
            else:
                with source.open("rb") as file:
                    if self._after is not None and self._after.holds(file):
                        yield from self._rest(file, self._after)
                    else:
                        if self._after is not None:
                            file.seek(0)
                        yield from self._walk(file)
                    self.place = self._reached(file)
        except OSError as error:
            message = f"{self.name}: {error.strerror or error}"
            self.damage.append(Damage("unreadable", message, lost=True))

    def _rest(self, file: BinaryIO, after: Place) -> Iterator[LogLine]:
        self.resumed, self.header, self._rows = True, after.header, after.rows
        self._rows.go_on(self.damage)
        self._number, self._position, self._text = after.number, after.position, after.text
        self._raw = not after.zstd
        if after.zstd:
            pieces = self._frames(file)
        else:
            file.seek(after.position)
            pieces = _chunks(file.read(CHUNK), file)
        yield from self._lines(_split(pieces, self._limit, after.text))

    def _reached(self, file: BinaryIO) -> Place | None:
        if self._broken or not self._whole or not self._number or self._rows.holds:
            return None
        position = self._text if self._raw else self._position
        told = inode(file), position, self._text, self._number, proof(file, position)
        return Place(*told, not self._raw, self.header, self._rows)

    def _walk(self, file: BinaryIO) -> Iterator[LogLine]:
        head = file.read(len(MAGIC))
        named = self.name.endswith(".zstd")
        zstd = head == MAGIC or (named and not head.lstrip().startswith(b"{"))
        if zstd != named and self.name != "-" and head:
            message = f"the name says {'zstd' if named else 'raw'}, the bytes do not"
            self.damage.append(Damage("encoding-name", message, offset=0))
        if not zstd:
            self._raw = True
            yield from self._lines(_split(_chunks(head, file), self._limit))
        elif file.seekable():
            yield from self._lines(_split(self._frames(file), self._limit))
        else:
            with tempfile.SpooledTemporaryFile(SPOOL) as whole:
                spool = cast(BinaryIO, whole)
                spool.write(head)
                shutil.copyfileobj(file, spool, CHUNK)
                yield from self._lines(_split(self._frames(spool), self._limit))

    def _frames(self, file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
        try:
            for frame in frames(file, self._position):
                lines, last = 0, b""
                for piece in content(file, frame):
                    lines += piece.count(b"\n")
                    last = piece[-1:]
                    yield piece, not frame.torn
                self._position = frame.end
                self._whole = not frame.torn and last == b"\n"
                if frame.torn:
                    message = "the last frame is cut off"
                    torn = Damage("frame-torn", message, None, frame.offset, False)
                    self.damage.append(torn)
                elif frame.offset == 0 and (lines != 1 or last != b"\n"):
                    message = "the first frame is not exactly one header line"
                    self.damage.append(Damage("frame-header", message, None, 0))
        except CorruptFrameError as error:
            self._broken = True
            end = file.seek(0, 2)
            lost = Damage(error.code, error.message, None, error.offset, True, end, True)
            self.damage.append(lost)

    def _lines(self, pieces: Iterable[Piece]) -> Iterator[LogLine]:
        number = self._number
        for piece in pieces:
            if not piece.whole:
                yield from self._unfinished(piece, number + 1)
                break
            number += 1
            self._number, self._text = number, piece.end
            if piece.length > self._limit:
                self._rows.too_large(piece, number, self._limit)
            elif number == 1:
                yield from self._first(piece)
            elif (line := self._rows.plain(piece, number)) is not None:
                yield line
            else:
                yield from self._rows.take(piece, number)
        if number == 0 and not self._broken:
            self.damage.append(Damage("empty", "there is no whole line", fatal=self._named))
        self._rows.finish()

    def _first(self, piece: Piece) -> Iterator[LogLine]:
        """Line 1, without its byte order mark: is it a header, and one the harness takes?"""
        if piece.raw.startswith(_BOM):
            piece.raw = piece.raw[len(_BOM) :]
            self.damage.append(Damage("bom", "a byte order mark before the first line", 1, 0))
        try:
            value = exact_json(piece.raw)
        except ValueError:
            value = None
        if not isinstance(value, dict) or value.get("type") != "session":
            if self._named:
                message = "the first line is no session header"
                self.damage.append(Damage("header-missing", message, 1, piece.offset))
            yield from self._rows.take(piece, 1)
            return
        self.header = value
        self.damage += [Damage("header", fault, 1, 0) for fault in header_faults(value)]
        yield self._rows.header(piece, value)

    def _unfinished(self, piece: Piece, number: int) -> Iterator[LogLine]:
        """The last line lacks its newline. In a file that no harness wrote, complete JSON will do;
        in a harness's it is dropped even then (§1.3)."""
        if self._broken:
            return
        end = piece.offset + piece.length
        if piece.sealed:
            message = "a complete frame ends inside a line"
            self.damage.append(
                Damage("frame-unterminated", message, number, piece.offset, True, end, True)
            )
        elif self.header is None and not self._named and _is_row(piece.raw):
            self._whole = False
            yield from self._rows.take(piece, number)
        else:
            message = f"the last line ({piece.length} bytes) is not complete"
            self.damage.append(Damage("line-torn", message, number, piece.offset, False, end))


def open_log(
    source: Path | BinaryIO, *, max_line_bytes: int = MAX_LINE_BYTES, after: Place | None = None
) -> LogFile:
    """Open a session log: a path, ``-`` for standard input, or a stream of its bytes. ``after``:
    where an earlier reading of this path ended; it is gone on from there if it is the same file
    still, else the log is read from its start.

    Never raises for what the file is: no such file, a directory and an error while reading are
    damage ``unreadable``. A line above ``max_line_bytes`` is damage ``too-large`` with its byte
    range and not held; the lines after it are read.
    """
    return LogFile(source, max_line_bytes, after)


def _is_row(raw: bytes) -> bool:
    try:
        value = exact_json(raw)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("type") != "session"


def _chunks(head: bytes, file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    while head:
        yield head, False
        head = file.read(CHUNK)


def _split(chunks: Iterable[tuple[bytes, bool]], limit: int, offset: int = 0) -> Iterator[Piece]:
    """Cut at ``\\n`` and nowhere else; offsets count the bytes of the chunks, from ``offset``."""
    held: list[bytes] = []
    pending = 0
    sealed = False
    for chunk, sealed in chunks:
        parts = chunk.split(b"\n")
        rest = parts.pop()
        for part in parts:
            length = pending + len(part)
            if pending:
                part = b"".join((*held, part))
                held.clear()
            yield Piece(part if length <= limit else b"", offset, length, True, sealed)
            offset += length + 1
            pending = 0
        pending += len(rest)
        if pending > limit:
            held.clear()
        elif rest:
            held.append(rest)
    if pending:
        yield Piece(b"".join(held), offset, pending, False, sealed)
