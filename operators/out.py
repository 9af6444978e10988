"""What one batch changes in one session, coalesced (streams.md §2, *Coalescing*).

Rooms hand over what changed; a row that changes again replaces its earlier version, and text that
only lengthens an open block is joined per block. Rows that are dear to build (running steps, tool
trees) are handed over as a function of immutable values, called once when the batch is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from .changes import (
    Change,
    PartialText,
    Refused,
    RowData,
    SessionOverview,
    SurfaceChange,
    TranscriptRow,
)
from .nodes import Node
from .text import well_formed

Render = Callable[[], RowData]


class Describes(Protocol):
    """A session's state, as far as publishing needs it."""

    session: str | None
    epoch: int

    def overview(self) -> SessionOverview: ...


class RowPlace(Struct, frozen=True, array_like=True, gc=False):
    """Everything of a row but its data: ``rev`` is the seq of the event that changed it."""

    kind: str
    key: int
    anchor: int
    rank: int
    rev: int
    visible: bool
    turn: int | None
    step: int | None
    time: int | None


@dataclass(slots=True)
class Growth:
    """Text at the end of one open block, joined over a batch; ``key`` is the seq in its row's."""

    key: int
    turn: int | None
    step: int | None
    block: int
    block_type: str
    offset: int
    first_seq: int
    last_seq: int
    time: int | None
    texts: list[str]


class Out:
    """Gathers the changes of one session; reusable for one batch only."""

    def __init__(self, *, partials: bool = True) -> None:
        """``partials=False``: text that only grows is not reported (a file has no live reader)."""
        self.session: str | None = None
        self.epoch = 0
        self.changed = False  #: what readers see
        self.kept = False  #: or the state alone
        self.refused: list[Refused] = []
        self.surface: list[SurfaceChange] = []
        self.landed: Node | None = None  #: the newest node, until the next one comes
        self.shadowed: tuple[Node, ...] = ()  #: the nodes that the newest replacement took off
        self.wants_partials = partials
        self.dropped_dispatches = 0
        self.weight = 0  #: characters that rows repeat of earlier events (a marker's summary)
        self._rows: dict[tuple[str, int], tuple[RowPlace, RowData | Render | None]] = {}
        self.partials: dict[tuple[int, int], Growth] = {}  # by row and place of the block in it
        self._earlier: list[Change] = []

    def row(self, place: RowPlace, data: RowData | Render | None) -> None:
        """An upsert; ``data`` None deletes the row."""
        self._rows[place.kind, place.key] = (place, data)
        if self.partials and place.kind == "assistant":
            for held in [held for held in self.partials if held[0] == place.key]:
                del self.partials[held]

    def refuse(self, reason: str, message: str, seq: int | None) -> None:
        self.refused.append(Refused(reason, message, seq))

    def close_epoch(self) -> None:
        """Put aside what an ended generation published in this batch; keys may come again."""
        self._earlier += [*self.surface, *self._render_rows(), *self._render_partials()]
        self.surface, self._rows, self.partials = [], {}, {}

    def rows(self) -> list[TranscriptRow]:
        return list(self._render_rows())

    def changes(self, state: Describes) -> list[Change]:
        """Everything in publishing order; the overview last, if anything changed."""
        self.session, self.epoch = state.session, state.epoch
        changes = [*self._earlier, *self.surface, *self._render_rows(), *self._render_partials()]
        if self.changed:
            changes.append(state.overview())
        return changes

    def _render_rows(self) -> Iterator[TranscriptRow]:
        for place, data in self._rows.values():
            yield TranscriptRow(
                self.session,
                self.epoch,
                place.rev,
                f"{place.kind}:{place.key}",
                place.kind,
                place.anchor,
                place.rank,
                place.rev,
                "transcript" if place.visible else "auxiliary",
                place.turn,
                place.step,
                place.time,
                data is None,
                (),
                data() if callable(data) else data,
            )

    def _render_partials(self) -> Iterator[PartialText]:
        for held in self.partials.values():
            yield PartialText(
                self.session,
                self.epoch,
                held.last_seq,
                f"assistant:{held.key}",
                held.turn,
                held.step,
                held.block,
                held.block_type,
                held.offset,
                well_formed("".join(held.texts)),
                held.first_seq,
                held.last_seq,
                held.time,
            )
