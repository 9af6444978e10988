"""A log folded with its events kept, for the answers that no worker can give: what its readers say
where the bodies are (``fold --json --readers``), an event's trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw
from msgspec.structs import asdict

from operators.events import Event, Line
from operators.readers import answers, values
from operators.readers.answers import Told
from operators.readers.handlers import take
from operators.readers.projections import Projections
from operators.readers.published import FIRST
from operators.readers.references import BUDGET, Reference, Subject, reference
from operators.readers.rooms import Readers
from operators.text import to_json
from pipeline.documents import WHOLE, Document, Folding
from pipeline.ports import InRecord, Reader
from pipeline.reading import Window
from pipeline.surfaces import SurfaceView
from pipeline.topics import Names
from schemas.jsonl import open_log
from schemas.streams import timed


class ReadDocument(Document, frozen=True):
    """What ``foldstream fold --json --readers`` prints for one file."""

    readers: dict[str, Raw]


class Log(Folding):
    """A log that was folded, with the events the fold took. ``figures``: readers of the whole log,
    as the reference has them, only if ``readers`` are asked for; those of the session count its own
    part."""

    def __init__(
        self, window: Window = WHOLE, *, strict: bool = False, readers: bool = False
    ) -> None:
        super().__init__(window, strict=strict)
        self.taken: list[Event] = []
        self.lines: dict[int, bytes] = {}
        self.figures = Readers(timed) if readers else None
        self._clip = window.clip

    def take(self, number: int, line: Line) -> bool:
        before = self.session.as_of_seq
        more = super().take(number, line)
        if isinstance(line, Event) and self.session.as_of_seq != before:
            event = self._clip(line)
            assert isinstance(event, Event)
            self.taken.append(event)
            if self.figures is not None:
                take(self.figures, event, self.session, self.out, _unnoted)
        return more

    def read_file(self, path: Path) -> Log:
        """All lines of a file; never raises for what it is (``trouble`` says it)."""
        log = open_log(path)
        self.take_all(((line.number, line.raw) for line in log.lines), log.damage)
        return self

    @property
    def whole(self) -> Projections | None:
        """The small readers of the whole log."""
        return None if self.figures is None else self.figures.small

    @property
    def own(self) -> Projections:
        """Those of the session's own part."""
        return values.own_part(self.session).small

    def told(self) -> Told:
        """What `operators.readers.answers` reads."""
        return Told(self.taken, self.nodes(), self.shadowed_by, self.session.last_time)

    # --- what is printed ----------------------------------------------------------------------

    def read_document(self, path: str) -> ReadDocument:
        """The document with the readers, which were asked for."""
        plain = self.document(path)
        return ReadDocument(**asdict(plain), readers=self.answers())

    def answers(self) -> dict[str, Raw]:
        """The reference's figures, of the whole log and under the names and in the shapes of
        ``readers.json``, and ours of the session's own part beside them (README)."""
        assert self.figures is not None
        told, overview = self.told(), self.session.overview()
        names = overview.__struct_fields__
        ours = {name: getattr(overview, name) for name in names[names.index(FIRST) :]}
        ours |= answers.own(self.own, told)
        ours["all_cache_breaks"] = values.cache_breaks(self.figures)
        theirs = values.reference(self.figures, self.session.surface)
        theirs |= answers.reference(self.figures.small, told)
        found = {name: Raw(msgspec.json.encode(value)) for name, value in ours.items()}
        return found | {name: to_json(value) for name, value in theirs.items()}


def _unnoted(_: str) -> None:
    """What readers find wrong the session has noted already."""


def events_of(reader: Reader, names: Names, partition: int) -> Iterator[InRecord]:
    """The committed records of one partition of the events topic, from the oldest kept."""
    yield from reader.read(names.of("events"), partition)


def quoted(view: SurfaceView, subject: Subject, budget: int = BUDGET) -> Reference | None:
    """The quotation of a surface as it is now."""
    return reference(((view.types[seq], view.message(seq)) for seq in view.nodes), subject, budget)
