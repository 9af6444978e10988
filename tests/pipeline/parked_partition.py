"""One partition of events and whoever folds it, in memory: for the tests of parking.

`Partition.fold` folds what is new, in the batches it is told, each onto states that were saved and
restored. `Partition.afresh` is what a proof does: all events, in one batch, onto nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from operators.changes import SurfaceChange, TranscriptRow
from operators.session import Session
from pipeline.batch import BatchResult, fold_batch
from pipeline.envelope import Place, parse_place
from pipeline.parked import Situation, foresee
from pipeline.ports import Headers, InRecord, OutRecord
from pipeline.replay import Decision, planned
from pipeline.waiting import Waiting, as_received, at_first
from schemas import snapshot
from schemas.codec import decode_change
from schemas.deadletter import DeadLetter, decode_dead_letter

TOPIC = "sessions.events"


class Partition:
    def __init__(self, strict: Callable[[str], bool] = lambda _: True) -> None:
        self.strict = strict
        self.events: list[InRecord] = []
        self.folded = 0
        self.saved: dict[str, dict[str, bytes]] = {}
        self.outputs: list[OutRecord] = []

    # --- the topic --------------------------------------------------------------------------------

    def append(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        offset = len(self.events)
        self.events.append(InRecord(TOPIC, 0, offset, 7, key, value, tuple(headers)))
        return offset

    def feed(self, session: str, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.append(session.encode(), line)

    def sends(self, records: Iterable[OutRecord]) -> None:
        for record in records:
            self.append(record.key, record.value, record.headers)

    # --- a worker ---------------------------------------------------------------------------------

    def fold(self, most: int = 1_000_000) -> None:
        """All that is new, in batches of that many records, the process restarted between them."""
        while self.folded < len(self.events):
            part = self.events[self.folded : self.folded + most]
            states = _Saved(self.saved)
            result = fold_batch(part, states, strict=self.strict)
            self.folded += result.taken
            self.outputs += result.outputs
            for session, name, value in result.segments:
                held = self.saved.setdefault(session, {})
                if value is None:
                    held.pop(name, None)
                else:
                    held[name] = value

    def state(self, session: str) -> Session:
        found = _Saved(self.saved).get(session)
        assert found is not None
        return found

    def afresh(self) -> BatchResult:
        return fold_batch(self.events, {}, strict=self.strict)

    # --- who replays ------------------------------------------------------------------------------

    def situation(self, session: str) -> Situation:
        """As `parked.find` gathers it."""
        waiting = Waiting()
        for letter in letters(self.outputs):
            if letter.session == session:
                waiting.add(at_first(as_received(letter)))
        for record in self.events[self.folded :]:
            if record.key == session.encode() and not any(n == "replay" for n, _ in record.headers):
                waiting.add(record)
        at = Place(TOPIC, 0, len(self.events))
        return Situation(session, at, None, self.state(session), waiting)  # type: ignore[arg-type]

    def plan(self, session: str, decision: Decision = Decision()) -> list[OutRecord]:  # noqa: B008
        """What one round of a replay sends."""
        known = self.situation(session)
        assert known.state is not None
        with closing(known.waiting):
            records = list(planned(known, decision, None, known.in_order()))  # type: ignore[arg-type]
        return records[: foresee(known.state, known.at, records).count]

    def offender(self, session: str) -> int | None:
        parked = self.state(session).parked
        return parked.at if parked else None


class _Saved:
    def __init__(self, saved: dict[str, dict[str, bytes]]) -> None:
        self._saved = saved

    def get(self, session: str) -> Session | None:
        segments = self._saved.get(session)
        return snapshot.load(session, segments) if segments else None


def letters(outputs: Sequence[OutRecord]) -> list[DeadLetter]:
    return [decode_dead_letter(out.value or b"") for out in outputs if out.role == "deadletter"]


def reasons(outputs: Sequence[OutRecord]) -> list[str]:
    return [letter.reason for letter in letters(outputs)]


def seen_by_readers(outputs: Sequence[OutRecord], session: str) -> tuple[object, ...]:
    """What the topics end up saying of one session: rows, surface, overview."""
    rows: dict[bytes, OutRecord] = {}
    surface: list[bytes | None] = []
    overview: bytes | None = None
    for out in outputs:
        if ("session", session.encode()) not in out.headers or out.role == "state":
            continue
        if out.role == "transcript":
            assert out.key is not None
            change = decode_change(out.value or b"")
            assert isinstance(change, TranscriptRow)
            rows.pop(out.key, None)
            if not change.deleted:
                rows[out.key] = out
        elif out.role == "surface":
            assert isinstance(decode_change(out.value or b""), SurfaceChange)
            surface.append(out.value)
        elif out.role == "overview":
            overview = out.value
    return {key: out.value for key, out in rows.items()}, surface, overview


def first_of(record: OutRecord) -> int:
    """Where a replayed record stood first."""
    (text,) = [value for name, value in record.headers if name == "replay"]
    place = parse_place(text.decode())
    assert place is not None
    return place.offset
