"""A read model in memory for fault schedules: what the store's tables are, and cuts of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from msgspec import Raw, Struct

from pipeline.gateway.changes import (
    Change,
    Committed,
    Offsets,
    OverviewChanged,
    Place,
    RowChanged,
    SurfaceChanged,
    TextAppended,
)
from pipeline.gateway.keyed import Json, anchor, lengthened, stepped
from pipeline.gateway.protocol import EVERYTHING, Known, View, Whole
from pipeline.gateway.tail import Taken
from pipeline.gateway.text_after_rows import TextAfterRows
from pipeline.ports import InRecord
from tests.pipeline.gateway.schedule_log import PARTITIONS, PLACES, ROLES, SESSIONS, Log, raw

PAGE = 2  #: rows


class Held:
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.rows: dict[str, RowChanged] = {}
        self.texts: list[TextAppended] = []
        self.steps: list[SurfaceChanged] = []
        self.overview: OverviewChanged | None = None


class Page(Struct, frozen=True):
    rows: list[Json]
    has_more: bool


class LogTail:
    """Implements what `TextAfterRows` needs of a tail; ``amounts``: how many records of each role
    the next poll brings. A change takes the place of the record that it is in."""

    def __init__(self, log: Log, start: Offsets) -> None:
        self._log = log
        self._at = dict(start)
        self.amounts: Mapping[str, int] = {}

    def take(self, _: float, held: frozenset[Place] = frozenset()) -> Taken:
        records: dict[str, list[InRecord]] = {}
        for place in PLACES:
            if place not in held:
                end = self._at[place] + self.amounts.get(place[0], 0)
                some = self._log.topics[place][self._at[place] : end]
                records.setdefault(place[0], []).extend(cast(list[InRecord], some))
                self._at[place] += len(some)
        return Taken(records, {place: at for place, at in self._at.items() if place not in held})

    def written(self, places: Iterable[Place]) -> Offsets:
        ends = self._log.ends()
        return {place: ends[place] for place in places}


class Model:
    """Implements `protocol.Cut`: it stands still while a cut of it is read. One poll may bring
    much of one topic and nothing of another."""

    def __init__(self, log: Log) -> None:
        self.source = log
        self.log = log.name
        self.offsets: dict[Place, int] = dict.fromkeys(PLACES, 0)
        self.sessions: dict[str, Held] = {}
        self.begin()

    @property
    def ends(self) -> Offsets:
        return self.source.ends()

    # --- feeding

    def begin(self) -> None:
        """Read on from what is held, as a feed that has just been started."""
        self._tail = LogTail(self.source, self.offsets)
        self._records = TextAfterRows(self._tail, self.offsets)

    def poll(self, amounts: Mapping[str, int], *, rebuilt: bool = False) -> Committed:
        """Read on by so many records of each role; lower epochs are dropped."""
        raised: dict[str, int] = {}
        self._tail.amounts = amounts
        found = self._records.take(0)
        self.offsets |= found.offsets
        taken = cast(list[Change], [each for role in ROLES for each in found.records.get(role, ())])
        for change in taken:
            held = self.sessions.get(change.session)
            if held is None or change.epoch > held.epoch:
                self.sessions[change.session] = Held(change.epoch)
                if held is not None:
                    raised[change.session] = change.epoch
        changes = [change for change in taken if self._apply(change)]
        return Committed(tuple(changes), dict(self.offsets), raised, rebuilt)

    def _apply(self, change: Change) -> bool:
        held = self.sessions[change.session]
        if change.epoch < held.epoch:
            return False
        match change:
            case RowChanged():
                held.rows[change.key] = change
                held.texts = [t for t in held.texts if t.key != change.key or t.rev > change.rev]
            case TextAppended():
                row = held.rows.get(change.key)
                if row is not None and change.rev <= row.rev:
                    return False
                held.texts.append(change)
            case SurfaceChanged():
                held.steps.append(change)
            case OverviewChanged():
                held.overview = change
        return True

    # --- cuts

    def known(self, session: str) -> Known | None:
        held = self.sessions.get(session)
        return None if held is None else Known(held.epoch, PARTITIONS[session])

    def missed(
        self, session: str, view: View, since: Offsets, limit: int
    ) -> Sequence[Change] | None:
        found: list[Change] = []
        for name in SESSIONS if session == EVERYTHING else (session,):
            held = self.sessions.get(name)
            if held is not None:
                found += self._missed(held, view, since)
        return None if len(found) > limit else found

    def _missed(self, held: Held, view: View, since: Offsets) -> list[Change]:
        def new(change: Change, role: str) -> bool:
            place = (role, change.partition)
            return place in since and change.offset >= since[place]

        found: list[Change] = []
        if view == "transcript":
            texts = [text for text in held.texts if new(text, "partials")]
            longer = {text.key for text in texts}
            found += [
                self._joined(held, row)
                for key, row in held.rows.items()
                if new(row, "transcript") or key in longer
            ]
        if view == "surface":
            found += [step for step in held.steps if new(step, "surface")]
        if held.overview is not None and new(held.overview, "overview"):
            found.append(held.overview)
        return found

    def whole(self, session: str, view: View) -> Whole:
        if session == EVERYTHING:
            known = [h.overview.body for h in self.sessions.values() if h.overview is not None]
            return Whole(overviews=tuple(known))
        held = self.sessions[session]
        overview = None if held.overview is None else held.overview.body
        if view == "overview":
            return Whole(overview=overview)
        if view == "surface":
            return Whole(overview=overview, surface=self._surface(held))
        page = self.page(session, None)
        rows = tuple(raw(row) for row in page.rows)
        return Whole(rows=rows, has_more=page.has_more, overview=overview)

    def page(self, session: str, before: tuple[int, int, str] | None) -> Page:
        """The rows below an anchor, the newest of them."""
        held = self.sessions[session]
        rows = [json.loads(bytes(self._joined(held, row).body)) for row in held.rows.values()]
        rows = sorted((row for row in rows if not row["deleted"]), key=anchor)
        rows = [row for row in rows if before is None or anchor(row) < before]
        return Page(rows[-PAGE:], len(rows) > PAGE)

    def row(self, session: str, key: str) -> Json | None:
        held = self.sessions.get(session)
        row = None if held is None else held.rows.get(key)
        if held is None or row is None:
            return None
        body: Json = json.loads(bytes(self._joined(held, row).body))
        return body

    def _joined(self, held: Held, row: RowChanged) -> RowChanged:
        """The row with the text that came after it, as far as it fits."""
        body: Json = json.loads(bytes(row.body))
        for text in held.texts:
            if text.key == row.key:
                body = lengthened(body, _frame(text)) or body
        return RowChanged(
            *(row.session, row.epoch, row.key, body["rev"], row.kind),
            *(row.anchor_seq, row.anchor_rank, row.visibility, row.deleted),
            *(raw(body), row.partition, row.offset),
        )

    def _surface(self, held: Held) -> Raw:
        surface: Json = {"generation": 0, "as_of_seq": -1, "nodes": []}
        for step in held.steps:
            surface = stepped(surface, json.loads(bytes(step.body)))
        return raw(surface)


def _frame(text: TextAppended) -> Json:
    return {
        "block": text.block,
        "block_type": text.block_type,
        "offset": text.at,
        "text": text.text,
        "rev": text.rev,
    }
