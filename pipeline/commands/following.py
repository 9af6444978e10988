"""``show``: a transcript on the terminal as far as it is, and with ``--follow`` as it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from operators.changes import TranscriptRow
from pipeline import render
from pipeline.config import Config
from pipeline.errors import Fatal
from pipeline.logtail import LogTail
from pipeline.rowtail import RowTail
from pipeline.scroll import Piece, Scroll
from pipeline.watching import Sign, sign

from . import paths
from .terminal import Terminal

LOOK_S = 0.25  #: between two looks at a file or a topic


class Tail(Protocol):
    """Where rows come from: `LogTail`, `RowTail`."""

    @property
    def began(self) -> int: ...

    def more(self) -> Iterator[list[TranscriptRow]]: ...

    def running(self) -> list[TranscriptRow]: ...


class Screen:
    """Rows on standard output, each once it is settled (`Scroll`); as JSON if ``settings`` say."""

    def __init__(self, settings: Config, terminal: Terminal) -> None:
        self._terminal = terminal
        self._console = None if settings.json else terminal.console(settings.color)
        self._status = terminal.status()
        self._settings = settings
        self.begin()

    def begin(self) -> None:
        self.scroll = Scroll(render.plain, auxiliary=self._settings.auxiliary)

    def take(self, rows: Iterable[TranscriptRow]) -> None:
        self._show(self.scroll.take(rows))

    def all(self, rows: Iterable[TranscriptRow]) -> None:
        """Rows at rest, in their order."""
        self._show(
            [Piece(row) for row in rows if self.scroll.wants(row)],
        )

    def end(self, running: Iterable[TranscriptRow]) -> None:
        """What is left, as it stands."""
        self._show(self.scroll.rest(running))
        self._status.clear()

    def note(self, text: str) -> None:
        """A line between the rows, of what befell the log; in JSON there are only rows."""
        self._status.clear()
        if self._console is not None:
            self._console.print(f"— {text} —\n", style="dim")

    def wait(self) -> None:
        """Nothing new for the moment."""
        row = self.scroll.underway
        self._status.show(None if row is None or self._console is None else render.underway(row))
        self._terminal.close()

    def _show(self, pieces: list[Piece]) -> None:
        if pieces:
            self._status.clear()
        for piece in pieces:
            if self._console is None:
                self._terminal.data(msgspec.json.encode(piece.row))
            else:
                self._console.print(render.render_row(piece.row, again=piece.again))


def follow(tail: Tail, screen: Screen, stop: threading.Event, again: Callable[[], bool]) -> None:
    """Show what comes until ``stop``. ``again``: whether it is worth a look."""
    while not stop.is_set():
        if again():
            began = tail.began
            for rows in tail.more():
                if tail.began != began:
                    began = _anew(tail, screen)
                screen.take(rows)
            if tail.began != began:
                _anew(tail, screen)
        screen.wait()
        stop.wait(LOOK_S)
    screen.end(tail.running())


def _anew(tail: Tail, screen: Screen) -> int:
    screen.note("the log begins anew")
    screen.begin()
    return tail.began


def follow_log(
    path: Path, screen: Screen, stop: threading.Event, say: Callable[[str], None]
) -> LogTail:
    """Follow a file, or the newest transcript of a session's folder; gives how it ended."""
    tail = LogTail(paths.log_file(path))
    seen: Sign | None = None
    told: str | None = None

    def again() -> bool:
        nonlocal seen, told
        if tail.unread not in (None, told):
            say(f"{tail.unread}; it is tried again")
        told = tail.unread
        if path.is_dir():
            tail.move(_newest(path, tail.path))
        before, seen = seen, sign(tail.path)
        return seen is not None and seen != before

    follow(tail, screen, stop, again)
    return tail


def _newest(folder: Path, before: Path) -> Path:
    try:
        return paths.log_file(folder)
    except Fatal:  # gone, or several for a moment
        return before


def follow_topic(
    tail: RowTail, screen: Screen, stop: threading.Event, say: Callable[[str], None]
) -> None:
    """Follow a session on the topics; what stands there has been shown."""
    told: str | None = None

    def again() -> bool:
        nonlocal told
        if (tail.stale is None) != (told is None):
            say(f"stale: {tail.stale}; what is missed comes later" if tail.stale else "live again")
        told = tail.stale
        return True

    follow(tail, screen, stop, again)
