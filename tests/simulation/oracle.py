"""What must hold after a history: every event folded exactly once, and nothing hangs."""

from __future__ import annotations

from collections.abc import Callable

from pipeline import limits
from pipeline.memory_ends import MemoryReader
from pipeline.memory_time import Hang
from pipeline.verify import verify
from tests.simulation.fleet import NAMES, Fleet
from tests.simulation.histories import History

ROUNDS = 60  #: of turns while faults strike
HEALING_S = 300.0  #: within which all must be folded afterwards
CALM_S = limits.RETRY_BUDGET_S - 15  #: without any trouble, within which a worker must be back
#: The last words of a worker that has a twin: fenced twice at once, or at the end of its patience.
TWIN = ("second worker", "a newer producer has this worker's transactional id")


class Violation(AssertionError):  # noqa: N818 - what it is
    """``what`` does not hold; the text also says what happened, in order."""

    def __init__(self, what: str, fleet: Fleet) -> None:
        super().__init__("\n".join([what, *fleet.events[-80:]]))
        self.what = what


def check(history: History, told: Callable[[Fleet], None] = lambda _: None) -> Fleet:
    """Run the history; `Violation` if something does not hold."""
    fleet = Fleet(history)
    told(fleet)
    try:
        _live(fleet)
    except Hang as hang:
        raise Violation(f"hangs: {hang}", fleet) from hang
    _judge(fleet)
    return fleet


def _live(fleet: Fleet) -> None:
    fleet.feed(16)
    for _ in range(ROUNDS):
        fleet.round()
        fleet.feed(8)
        if fleet.folded():
            break
    fleet.feed(10_000)
    fleet.troubles.heal()
    fleet.note("healed")
    until = fleet.time.monotonic() + HEALING_S
    while not fleet.folded():
        fleet.round()
        if fleet.time.monotonic() > until:
            raise Violation("not all is folded", fleet)
    _justify_deaths(fleet)


def _justify_deaths(fleet: Fleet) -> None:
    """A worker may give up while its trouble lasts, and when it has a twin; for nothing else."""
    for when, last, why in fleet.deaths:
        lasting = why.startswith("nothing could be committed") and when - last < CALM_S
        if not lasting and not (fleet.troubles.twins and any(words in why for words in TWIN)):
            raise Violation(f"a worker ended at {when:.0f} s: {why}", fleet)


def _judge(fleet: Fleet) -> None:
    if fleet.offsets.passed:
        raise Violation(f"folded again: {fleet.offsets.passed[0]}", fleet)
    reader = MemoryReader(fleet.brokers.memory, wait=fleet.time.sleep, patience=30.0)
    verdict = verify(reader, NAMES)
    if not verdict.ok:
        raise Violation(f"verify: {verdict.mismatch}", fleet)
    if verdict.behind:
        raise Violation(f"{verdict.behind} records were not folded", fleet)
