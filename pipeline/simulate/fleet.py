"""Many simulated sessions, whole or damaged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from .faults import inject
from .session import SHAPES, SimulatedSession, simulate


def fleet(
    seed: int,
    sessions: int,
    *,
    events: int = 200,
    shapes: Sequence[str] = SHAPES,
    faults: Collection[str] = (),
) -> Iterator[SimulatedSession]:
    """``sessions`` sessions of consecutive seeds, their shapes taken in turn; each damaged once by
    every kind of ``faults`` (:data:`FAULTS`) that it has a place for."""
    for number in range(seed, seed + sessions):
        shape = shapes[(number - seed) % len(shapes)]
        session = simulate(number, events=events, shape=shape)
        yield inject(session, seed=number, kinds=faults).session if faults else session
