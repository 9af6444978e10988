"""A log file folded in memory, and the JSON document that says what came of it (outputs.md §2).

The document is encoded in one go: rows and messages carry the log's own bytes, which are written as
they are and never parsed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from operators.changes import SessionOverview, TranscriptRow
from operators.events import Event, Header, Line
from operators.history import MAX_MESSAGES, LogIndex, classify, events_pages
from operators.nodes import Node
from operators.session import Out, Session, final_rows
from schemas.jsonl import Damage, open_log

from .reading import Numbered, Window, read_lines
from .surfaces import Surface, SurfaceView

#: Damage of these kinds keeps its name as a reason; every other fatal one is ``unreadable``.
REASONS = ("not-json", "too-large")
WHOLE = Window()


class LineFault(Struct, frozen=True):
    """A line that was not folded; ``line`` from 1, 0 for the file as a whole."""

    line: int
    seq: int | None
    reason: str
    message: str


class Document(Struct, frozen=True):
    """What ``foldstream fold --json`` prints for one file, field by field (outputs.md §2)."""

    path: str
    session: str | None
    header: Raw | None
    events: int
    next_seq: int
    surface: Surface
    classification: str | None
    rows: list[TranscriptRow]
    overview: SessionOverview
    faults: list[LineFault]
    quality: dict[str, int]


class Folding:
    """One log on its way through the fold, and all that came of it so far.

    ``strict``: the first line that the harness would refuse ends it; what is here then describes
    the lines before. ``index``: filled beside, for pages.
    """

    def __init__(
        self, window: Window = WHOLE, *, strict: bool = False, index: LogIndex | None = None
    ) -> None:
        self.session = Session(None, strict=strict, first_seq=window.low or 0)
        self.out = Out(partials=False)
        self.header: Raw | None = None
        self.events = 0
        self.faults: list[LineFault] = []
        self.notes: list[str] = []  # what was left out as a crash's torn tail
        self._window = None if window.whole else window
        self._strict = strict
        self._index = index
        self._lines = 0
        self._hidden = False  # an event stands outside of the window

    def take(self, number: int, line: Line) -> bool:
        """Fold one line; False when a strict run ends here."""
        if self._window is not None:
            kept = self._window.clip(line)
            if kept is None:
                self._hidden = self._hidden or type(line) is Event
                return True
            line = kept
        session, out = self.session, self.out
        order = session.order
        before = order.next_seq
        session.take(line, out)
        if out.refused:
            self.faults += [LineFault(number, r.seq, r.reason, r.message) for r in out.refused]
            out.refused.clear()
            if order.next_seq > before and self._index is not None:
                self._index.occupy(order.next_seq - 1)
            return not self._strict
        if type(line) is Event:
            if order.next_seq > before:  # of a packed row sent again, only what is new counts
                self.events += order.next_seq - max(before, line.seq)
                if self._index is not None:
                    self._index.add(line)
        elif type(line) is Header and self.header is None:
            self.header, session.session = line.raw, line.session
        return True

    def take_all(self, lines: Iterable[Numbered], damage: list[Damage]) -> None:
        """Fold a file's lines; ``damage`` is what its reader adds to while they are read."""
        for _ in self.walk(lines, damage):
            pass

    def walk(self, lines: Iterable[Numbered], damage: list[Damage]) -> Iterator[None]:
        """`take_all`, a line at a time."""
        reported = 0
        for number, line in read_lines(lines):
            self._lines = number
            if self._strict and len(damage) > reported:
                self._damaged(damage[reported:])
                reported = len(damage)
                if self.faults:
                    return
            if not self.take(number, line):
                return
            yield
        self._damaged(damage[reported:])

    def _damaged(self, damage: Iterable[Damage]) -> None:
        """What the reader found wrong is a fault too, unless the line has one already. What a crash
        leaves (a torn tail) is none."""
        known = {fault.line for fault in self.faults}
        for found in damage:
            line = found.line or 0
            if (found.fatal or found.code in REASONS) and not (line and line in known):
                reason = found.code if found.code in REASONS else "unreadable"
                self.faults.append(LineFault(line, None, reason, found.message))
            elif found.lost:
                self.notes.append(found.message)
        self.faults.sort(key=lambda fault: fault.line)

    @property
    def first(self) -> int | None:
        """The first seq taken, by an event or by a fault; None if none was."""
        return self.session.order.start

    @property
    def trouble(self) -> str | None:
        """Why nothing of the file could be used, in one line; None if something was."""
        if self.header is not None or self.events or self._hidden:
            return None
        if self.faults:
            fault = self.faults[0]
            if fault.line == 0:
                return fault.message
            return f"line {fault.line}: {fault.message}; is this a session log?"
        return None if self._lines else "empty: there is no whole line in it"

    def view(self) -> SurfaceView:
        view = SurfaceView()
        view.apply_all(self.out.surface)
        return view

    # --- what answers look at, after the last line ------------------------------------------------

    @property
    def session_id(self) -> str | None:
        return self.session.session

    @cached_property
    def surface_view(self) -> SurfaceView:
        return self.view()

    @cached_property
    def shadowed_by(self) -> dict[int, int]:
        """Shadowed seq → the replacement that took it off the surface."""
        replaced = self.surface_view.replacements
        return {seq: each.seq for each in replaced for seq in each.shadowed}

    @cached_property
    def current(self) -> frozenset[int]:
        return frozenset(self.surface_view.nodes)

    def mark(self, seq: int) -> str:
        """What a seq is on the surface: C, S or -."""
        return "C" if seq in self.current else "S" if seq in self.shadowed_by else "-"

    def replaced(self, seq: int) -> tuple[int, ...]:
        """The nodes that the event of that seq replaced, in surface order."""
        found = (each.shadowed for each in self.surface_view.replacements if each.seq == seq)
        return tuple(next(found, ()))

    def nodes(self) -> list[Node]:
        """The nodes in surface order."""
        return list(self.session.surface.nodes())

    # --- what is printed --------------------------------------------------------------------------

    def rows(self) -> list[TranscriptRow]:
        """The transcript: deleted rows left out, a running one with its open text, sorted."""
        return final_rows(self.session, self.out)

    def document(self, path: str) -> Document:
        session, view, overview = self.session, self.view(), self.session.overview()
        first = session.next_seq if self.first is None else self.first
        return Document(
            os.fsencode(path).decode("utf-8", "replace"),
            session.session,
            self.header,
            self.events,
            session.next_seq,
            view.surface(),
            classify(first, session.next_seq, view.nodes, view.shadowed),
            self.rows(),
            overview,
            self.faults,
            overview.quality,
        )


def fold_lines(
    lines: Iterable[bytes],
    *,
    path: str = "-",
    strict: bool = False,
    from_seq: int | None = None,
    to_seq: int | None = None,
) -> bytes:
    """The document of a log given line by line (without newlines), as JSON bytes."""
    folding = Folding(Window(from_seq, to_seq), strict=strict)
    folding.take_all(enumerate(lines, 1), [])
    return msgspec.json.encode(folding.document(path))


def fold_file(
    path: Path, *, strict: bool = False, from_seq: int | None = None, to_seq: int | None = None
) -> bytes:
    """The document of a log file, or of standard input (``-``). Never raises for what the file is:
    one that cannot be read has a document that says why."""
    folding = fold_log(path, Window(from_seq, to_seq), strict=strict)
    return msgspec.json.encode(folding.document(str(path)))


def fold_log(
    path: Path, window: Window = WHOLE, *, strict: bool = False, index: LogIndex | None = None
) -> Folding:
    """A log file folded, for those who want more of it than its document."""
    folding = Folding(window, strict=strict, index=index)
    log = open_log(path)
    folding.take_all(((line.number, line.raw) for line in log.lines), log.damage)
    return folding


def pages_lines(
    lines: Iterable[bytes], *, before: int | None = None, max_messages: int = MAX_MESSAGES
) -> list[bytes]:
    """The events pages of a log given line by line, newest first, each as JSON bytes."""
    index = LogIndex()
    Folding(index=index).take_all(enumerate(lines, 1), [])
    return [msgspec.json.encode(page) for page in events_pages(index, before, max_messages)]
