"""A log folded, with the figures its session keeps, or those of the whole log beside it."""

from __future__ import annotations

from collections.abc import Iterable

from operators.events import Event, Line
from operators.readers.handlers import take
from operators.readers.rooms import Readers
from operators.session import Out, Session
from schemas.inbound import read_line
from schemas.streams import timed
from tests.laws import folding


def read_all(lines: Iterable[bytes]) -> list[Line]:
    return [read_line(raw) for raw in lines]


class Figuring:
    """Session and readers after some lines. ``reference``: the whole log counts, and the figures
    that need bodies are there, too."""

    def __init__(self, session: str | None = "s-1", *, reference: bool = False) -> None:
        self.session = Session(session)
        self.whole = Readers(timed) if reference else None

    @property
    def readers(self) -> Readers:
        return self.session.readers if self.whole is None else self.whole

    def fork(self) -> Figuring:
        twin = Figuring()
        twin.session = self.session.fork()
        return twin

    def take(self, line: Line, out: Out | None = None) -> None:
        out = out or Out(partials=False)
        before = self.session.as_of_seq
        self.session.take(line, out)
        if self.whole is None or not isinstance(line, Event) or self.session.as_of_seq == before:
            return
        take(self.whole, line, self.session, out, lambda _: None)

    def take_all(self, lines: Iterable[Line]) -> Figuring:
        for line in lines:
            self.take(line)
        return self


def figure(lines: Iterable[bytes], *, reference: bool = False) -> Figuring:
    return Figuring(reference=reference).take_all(map(read_line, lines))


def restored(figuring: Figuring) -> Figuring:
    """Through the bytes of a snapshot."""
    saved = folding.Saved()
    saved.save(figuring.session.fork())
    resumed = Figuring()
    resumed.session = saved.load()
    return resumed
