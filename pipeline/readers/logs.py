"""One session with all its events, out of a file or out of the events topic: what answers need
that a worker does not keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from operators.events import AssistantMessage, Event, Header, Line
from operators.readers.answers import Told
from operators.readers.projections import Projections
from operators.readers.references import BUDGET, Reference, Subject, reference
from operators.surface import Node
from pipeline.documents import Folding
from pipeline.envelope import EnvelopeError, read_envelope
from pipeline.ports import InRecord, Reader
from pipeline.surfaces import SurfaceView
from pipeline.topics import Names
from schemas.codec import decode_session_line
from schemas.inbound import read_value
from schemas.jsonl import open_log


class Log(Folding):
    """A log that was folded, with the events the fold took. ``lines``: their bytes by seq;
    ``whole`` and ``own``: the small readers of the whole log, as the reference has them, and of the
    session's own part. Both kept only when they are asked for."""

    def __init__(self, *, keep_lines: bool = False, readers: bool = False) -> None:
        super().__init__()
        self.taken: list[Event] = []
        self.lines: dict[int, bytes] = {}
        self.whole = Projections(whole=True) if readers else None
        self.own = Projections() if readers else None
        self._nodes: dict[int, Node] = {}
        self._raws: dict[int, bytes] | None = {} if keep_lines else None

    def take(self, number: int, line: Line) -> bool:
        before = self.session.as_of_seq
        more = super().take(number, line)
        raw = b"" if self._raws is None else self._raws.pop(number, b"")
        if isinstance(line, Event) and self.session.as_of_seq != before:
            self.taken.append(line)
            if self._raws is not None:
                self.lines[line.seq] = raw
            self._tell(line)
        return more

    def _tell(self, event: Event) -> None:
        """Let the small readers see an event that was taken."""
        gone: tuple[Node, ...] = ()
        change = self.out.surface[-1] if self.out.surface else None
        if change is not None and change.seq == event.seq and change.op != "amend":
            gone = tuple(self._nodes.pop(seq) for seq in change.shadowed if seq in self._nodes)
            self._nodes[event.seq] = _node(event)
        for small in (self.whole, self.own):
            if small is not None:
                small.take(event, self.session, gone)

    def read_file(self, path: Path) -> Log:
        """All lines of a file; never raises for what it is (``trouble`` says it)."""
        log = open_log(path)
        self.take_all(self.seen((line.number, line.raw) for line in log.lines), log.damage)
        return self

    def read_records(self, records: Iterable[InRecord], session: str, epoch: int) -> Log:
        """The session's lines of that epoch among records of the events topic, in their order."""
        key = session.encode("utf-8", "replace")
        self.session.session = session
        for number, record in enumerate(records, 1):
            if record.key == key and _epoch(record) == epoch:
                if self._raws is not None:
                    self._raws[number] = _json_line(record.value)
                self.take(number, read_value(record.value))
        return self

    def seen(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The numbered lines on their way to ``take_all``, kept if they are asked for."""
        for number, raw in lines:
            if self._raws is not None:
                self._raws[number] = raw
            yield number, raw

    # --- what answers look at -----------------------------------------------------------------

    @property
    def log_header(self) -> Header | None:
        return self.session.header

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

    def nodes(self) -> list[Node]:
        """The nodes in surface order, each with the number of calls it opens."""
        return [self._nodes[seq] for seq in self.surface_view.nodes]

    def told(self) -> Told:
        """What `operators.readers.answers` reads."""
        return Told(self.taken, self.nodes(), self.shadowed_by, self.session.last_time)


def _node(event: Event) -> Node:
    body = event.body
    calls = len(body.calls) if isinstance(body, AssistantMessage) else 0
    return Node(event.seq, event.seq, event.type, calls)


def _epoch(record: InRecord) -> int | None:
    try:
        return read_envelope(record)[0]
    except EnvelopeError:
        return None


def _json_line(value: bytes | None) -> bytes:
    """The JSON line of a record's value, which may hold it as Avro."""
    if value is None or value.startswith(b"{"):
        return value or b""
    line = decode_session_line(value)
    return line if isinstance(line, bytes) else b""


def events_of(reader: Reader, names: Names, partition: int) -> Iterator[InRecord]:
    """The committed records of one partition of the events topic, from the oldest kept."""
    yield from reader.read(names.of("events"), partition)


def quoted(view: SurfaceView, subject: Subject, budget: int = BUDGET) -> Reference | None:
    """The quotation of a surface as it is now."""
    return reference(((view.types[seq], view.message(seq)) for seq in view.nodes), subject, budget)
