"""One session's log on its way through the fold, of which only what a question wants is kept: out
of a file or out of the events topic, in memory that grows with the answer and not with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from operators.changes import SurfaceChange
from operators.events import Event, Line
from operators.out import Out
from pipeline.documents import Folding
from pipeline.envelope import EnvelopeError, read_envelope
from pipeline.ports import InRecord
from pipeline.reading import Numbered
from pipeline.surfaces import SurfaceView
from schemas.codec import decode_session_line
from schemas.inbound import read_value
from schemas.jsonl import open_log

Wanted: TypeAlias = Callable[[Event], bool]
Tell: TypeAlias = Callable[[int], None]
T = TypeVar("T")
TELL_EVERY = 5_000  #: lines


def nothing(_: Event) -> bool:
    return False


def everything(_: Event) -> bool:
    return True


def unheard(_: int) -> None:
    pass


class Asked(Folding):
    """``taken``: the events that were wanted, ``lines`` their bytes by seq if they are asked for.
    The surface is kept by its seqs; with ``messages`` also what its nodes say. Rows are not."""

    def __init__(
        self, wanted: Wanted = nothing, *, keep_lines: bool = False, messages: bool = False
    ) -> None:
        super().__init__()
        self.taken: list[Event] = []
        self.lines: dict[int, bytes] = {}
        self.surface_view = SurfaceView()
        self._wanted = wanted
        self._messages = messages
        self._raws: dict[int, bytes] | None = {} if keep_lines else None

    def take(self, number: int, line: Line) -> bool:
        before = self.session.as_of_seq
        more = super().take(number, line)
        raw = None if self._raws is None else self._raws.pop(number, b"")
        if type(line) is Event and self.session.as_of_seq != before:
            for change in self.out.surface:
                self.surface_view.apply(self._kept(change))
            if self._wanted(line):
                self.taken.append(line)
                if raw is not None:
                    self.lines[line.seq] = raw
        self.out = Out(partials=False)
        return more

    def _kept(self, change: SurfaceChange) -> SurfaceChange:
        return change if self._messages else replace(change, message=None)

    def view(self) -> SurfaceView:
        return self.surface_view

    # --- where it is read from ----------------------------------------------------------------

    def read_file(self, path: Path, tell: Tell = unheard) -> Asked:
        """All lines of a file; never raises for what it is (``trouble`` says it)."""
        log = open_log(path)
        lines = ((line.number, line.raw) for _, line in _told(log.lines, tell))
        self.take_all(self.seen(lines), log.damage)
        self.notes += [found.message for found in log.damage if found.code == "frame-torn"]
        return self

    def read_records(
        self, records: Iterable[InRecord], session: str, epoch: int, tell: Tell = unheard
    ) -> Asked:
        """The session's lines of that epoch among records of the events topic, in their order."""
        key = session.encode("utf-8", "replace")
        self.session.session = session
        for number, record in _told(records, tell):
            if record.key == key and _epoch(record) == epoch:
                if self._raws is not None:
                    self._raws[number] = _json_line(record.value)
                self.take(number, read_value(record.value))
        return self

    def seen(self, lines: Iterable[Numbered]) -> Iterator[Numbered]:
        """The numbered lines on their way to ``take_all``, kept if they are asked for."""
        for number, raw in lines:
            if self._raws is not None:
                self._raws[number] = raw
            yield number, raw


def _told(items: Iterable[T], tell: Tell) -> Iterator[tuple[int, T]]:
    """The items, numbered from 1; of many it is told now and then how many there were."""
    number = 0
    for number, item in enumerate(items, 1):
        yield number, item
        if number % TELL_EVERY == 0:
            tell(number)
    if number > TELL_EVERY:
        tell(number)


def _epoch(record: InRecord) -> int | None:
    try:
        return read_envelope(record)[0]
    except EnvelopeError:
        return None


def _json_line(value: bytes | None) -> bytes:
    """The JSON line of a record's value, which may hold it as Avro; empty if it is neither."""
    if value is None or value.startswith(b"{"):
        return value or b""
    line = decode_session_line(value)
    return line if isinstance(line, bytes) else b""
