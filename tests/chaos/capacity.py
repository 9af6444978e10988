"""How many records a second the workers of this machine fold when there are always more."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from pipeline.topics import Names

from . import journal
from .crew import Crew, Place
from .feeder import Feeder, stream
from .stage import PARTITIONS, Stage

INSTANCES = ("w1", "w2", "w3")
BACKLOG_S = 20.0
READY_S = 60.0
EVERYWHERE = frozenset(range(PARTITIONS))


def measured(there: Stage, folder: Path, seed: str, fastest: float) -> float:
    """Records a second over `BACKLOG_S`; ``fastest``: so many are fed, if they can be."""
    names = Names("capacity.", "capacity")
    there.create(names)
    place = place_in(there, folder, names)
    lines = stream(Random(seed), PARTITIONS)
    feeder = Feeder(there.bootstrap, names.of("events"), lines, fastest, keep=False)
    with Crew(place) as crew:
        feeder.start()
        try:
            for instance in INSTANCES:
                crew.start(instance)
            ready(folder)
            time.sleep(BACKLOG_S / 4)
            before, began = journal.folded_to(journal.read(folder)), time.monotonic()
            time.sleep(BACKLOG_S)
            after, ended = journal.folded_to(journal.read(folder)), time.monotonic()
        finally:
            feeder.stop()
        crew.stop()
    there.delete(names)
    return (sum(after.values()) - sum(before.values())) / (ended - began)


def place_in(there: Stage, folder: Path, names: Names) -> Place:
    state = folder / "state"
    state.mkdir(parents=True)
    return Place(bootstrap=there.bootstrap, names=names, folder=folder, state=state)


def ready(folder: Path) -> None:
    def all_commit() -> bool:
        return set(journal.folded_to(journal.read(folder))) == EVERYWHERE

    if not Crew.until(all_commit, READY_S):
        raise TimeoutError("not every partition is folded")
