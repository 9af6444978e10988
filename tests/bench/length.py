"""What one event costs in a session of 1 000, 10 000 and 100 000 events: counted calls must not
grow at all, time by no more than noise; nor may what a batch saves (law ``one_event_one_cost``)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any

from msgspec import Struct

from operators.session import Out, Session
from schemas import snapshot
from schemas.inbound import read_line
from schemas.outbound import encode

from . import corpus
from .measure import Figure, Options, count_figures, figures, interleaved

LENGTHS = (1_000, 10_000, 100_000)
WINDOW = 3  #: periods that are measured at each length
PER_BATCH = corpus.PERIOD // 2


class Place(Struct, frozen=True):
    """A session of some length, and the lines that come next."""

    events: int
    state: Session
    coming: list[bytes]


def run(options: Options) -> Iterable[Figure]:
    places = list(_places([options.scaled(length) for length in LENGTHS]))
    base = f"at {places[0].events} events"
    count = WINDOW * corpus.PERIOD
    seconds = interleaved(
        {f"at {place.events} events": partial(_fold, place) for place in places},
        options.rounds,
    )
    aims = {name: 1.15 for name in seconds if name != base}
    for figure in figures(seconds, count, base, aims):
        yield _named("time an event, ", figure)
    calls = {f"at {place.events} events": _calls(place) / count for place in places}
    for figure in count_figures(calls, "calls", base, 1.02):
        yield _named("calls an event, ", figure)
    batches = count / PER_BATCH
    saved = {f"at {place.events} events": _fold(place) / batches for place in places}
    for figure in count_figures(saved, "bytes", base, 1.15):
        yield _named("saved a batch, ", figure)


def _named(prefix: str, figure: Figure) -> Figure:
    against = None if figure.against is None else prefix + figure.against
    fields: dict[str, Any] = {name: getattr(figure, name) for name in figure.__struct_fields__}
    return Figure(**(fields | {"what": prefix + figure.what, "against": against}))


def _places(lengths: list[int]) -> Iterator[Place]:
    periods = corpus.periods()
    state = Session("steady")
    for length in lengths:
        while state.next_seq < length:
            state = _batches(state, next(periods))[0]
        coming = [line for period in islice(periods, WINDOW) for line in period]
        yield Place(state.next_seq, state, coming)
        state = _batches(state, coming)[0]


def _fold(place: Place) -> int:
    return _batches(place.state, place.coming)[1]


def _batches(state: Session, lines: list[bytes]) -> tuple[Session, int]:
    """Lines through decode, fold, Avro and snapshot in batches; the state and the bytes saved."""
    saved = 0
    for start in range(0, len(lines), PER_BATCH):
        state, out = state.fork(), Out()
        for line in lines[start : start + PER_BATCH]:
            state.take(read_line(line), out)
        assert not out.refused, out.refused[0]
        for change in out.changes(state):
            encode(change)
        saved += sum(len(value or b"") for value in snapshot.save(state).values())
    return state, saved


def _calls(place: Place) -> int:
    """Calls of Python and of C functions while folding."""
    count = 0

    def tell(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(tell)
    try:
        _fold(place)
    finally:
        sys.setprofile(None)
    return count
