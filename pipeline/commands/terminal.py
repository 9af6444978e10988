"""Where a command speaks: data on standard output, everything else on standard error."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from pipeline import logs
from pipeline.config import Config, secrets
from pipeline.plain import steerless, visible_line

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_EVERY_S = 2.0  #: between two lines of progress where there is no terminal


class Step(Protocol):
    """Tells how far a piece of work is."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


class Terminal:
    """The two streams, as they are when it is made."""

    def __init__(self) -> None:
        self._out = sys.stdout
        self._err = sys.stderr
        self._redact = logs.Redaction()
        self._handler: logging.Handler | None = None

    def log(self, settings: Config, *, worker: str | None = None) -> None:
        """Set up the log as ``settings`` say; ``worker`` is the instance of one that runs here, by
        which the client's errors are warnings. With a log of JSON, what is said is part of it."""
        self._redact = logs.Redaction(secrets(settings))
        handler = logs.setup(
            settings.log_level,
            settings.log_format,
            redact=self._redact,
            client_errors=logging.INFO if worker is None else logging.WARNING,
            instance=worker,
        )
        self._handler = handler if settings.log_format == "json" else None

    @property
    def interactive(self) -> bool:
        """Whether somebody watches standard error."""
        return self._handler is None and self._err.isatty()

    def data(self, *documents: bytes) -> None:
        """Lines of data, each written whole. A terminal gets the same JSON with the characters that
        would steer it as escapes."""
        self._out.flush()
        stream = self._out.buffer
        watched = self._out.isatty()
        for document in documents:
            stream.write(steerless(document) if watched else document)
            stream.write(b"\n")
        stream.flush()

    def raw(self, pieces: Iterable[bytes]) -> None:
        """Data that is plain already, piece by piece."""
        self._out.flush()
        self._out.buffer.writelines(pieces)
        self._out.buffer.flush()

    def text(self, text: str) -> None:
        """A line of data for a person; what a log or a disk named in it must be plain already."""
        self._out.write(text + "\n")

    def say(self, text: str) -> None:
        """A line on standard error; whatever it quotes is shown plainly, but for secrets."""
        self._tell(text, logging.INFO)

    def fail(self, text: str) -> None:
        """The last line of a command that failed: what, and what to do."""
        self._tell(text if self._handler else f"foldstream: {text}", logging.ERROR)

    def _tell(self, text: str, level: int) -> None:
        if self._handler is not None:
            logs.say(self._handler, text, level)
            return
        self._err.write(visible_line(self._redact(text)) + "\n")
        self._err.flush()

    def console(self, color: str = "auto") -> Console:
        """Rich's console on standard output: width-aware. ``color``: always, never, or on a
        terminal alone and only without ``NO_COLOR`` there."""
        from rich.console import Console  # noqa: PLC0415 - a tenth of a second few commands pay

        wanted = color == "always" or (
            color == "auto"
            and self._out.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

        class Piped(Console):
            """A reader that has enough is the command's matter, as with every other output."""

            def on_broken_pipe(self) -> None:
                raise BrokenPipeError

        return Piped(
            file=self._out,
            emoji=False,
            highlight=False,
            markup=False,
            no_color=False,
            force_terminal=wanted,
            color_system="standard" if wanted else None,
        )

    def status(self) -> Status:
        """What is underway, in a line that is gone before the next one is written."""
        return Status(self._out)

    def close(self) -> None:
        self._out.flush()

    @contextmanager
    def progress(self, what: str, unit: str, total: int | None = None) -> Iterator[Step]:
        """A bar on a terminal, now and then a line elsewhere; a last line if anything was done."""
        started = time.monotonic()
        step = _Counted(total)
        if self.interactive:
            with self._bar(what, unit, total, step):
                yield step
        else:
            step.tell = _Sparse(lambda done, of: self.say(f"{what}: {_of(done, of)} {unit}"))
            yield step
        seconds = time.monotonic() - started
        if step.done:
            self.say(f"{what}: {step.done} {unit} in {seconds:.1f} s")

    @contextmanager
    def _bar(self, what: str, unit: str, total: int | None, step: _Counted) -> Iterator[None]:
        from rich.console import Console  # noqa: PLC0415 - as above
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        console = Console(file=self._err, markup=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit, markup=False),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            step.tell = lambda done, of: bar.update(task, completed=done, total=of)
            yield


class Status:
    """The last line of a terminal, never of a file: one cell that turns, and what it is about."""

    CELLS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._watched = stream.isatty()
        self._cells = itertools.cycle(self.CELLS)
        self._there = False

    def show(self, text: str | None) -> None:
        """``text`` is plain already; None: nothing is underway."""
        if text is None:
            self.clear()
        elif self._watched:
            width = shutil.get_terminal_size().columns
            self._stream.write(f"\r{next(self._cells)} {text}"[: max(width, 2)] + "\x1b[K")
            self._stream.flush()
            self._there = True

    def clear(self) -> None:
        if self._there:
            self._stream.write("\r\x1b[K")
            self._there = False


class _Counted:
    """Remembers the last word, and passes it on."""

    def __init__(self, total: int | None) -> None:
        self.done = 0
        self._total = total
        self.tell: _Tell = lambda _done, _of: None

    def __call__(self, done: int, total: int | None = None) -> None:
        self.done = done
        self._total = total if total is not None else self._total
        self.tell(done, self._total)


class _Tell(Protocol):
    def __call__(self, done: int, of: int | None, /) -> None: ...


class _Sparse:
    """At most one word every two seconds."""

    def __init__(self, tell: _Tell) -> None:
        self._tell = tell
        self._last = time.monotonic()

    def __call__(self, done: int, of: int | None, /) -> None:
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY_S:
            self._last = now
            self._tell(done, of)


def _of(done: int, total: int | None) -> str:
    return f"{done} of {total}" if total else str(done)
