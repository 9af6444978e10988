"""A read model over topics in memory, fed by a worker in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.gateway.changes import Committed
from pipeline.gateway.feed import Feed
from pipeline.gateway.store import Store
from pipeline.gateway.tail import MemoryTail
from pipeline.simulate import SimulatedSession
from tests.pipeline.world import World, interleaved


def database_in(folder: Path) -> str:
    """Where a stage reads into, unless it is told: `conftest.py` puts another in its place."""
    return f"sqlite:///{folder}/read.db"


class Stage(World):
    """`feed` lines, `run` a worker over them, `read_on` into the store."""

    __test__ = False

    def __init__(self, folder: Path, url: str | None = None, limit: int = 500) -> None:
        super().__init__()
        self.path = folder / "read.db"
        self.url = url or database_in(folder)
        self.heard: list[Committed] = []
        self.name = "one"
        self.limit = limit
        self.open()

    def open(self) -> None:
        """As a gateway that has just been started."""
        self.store = Store(self.url)
        self.feeding = Feed(self.tail, self.store, self.heard.append)

    def tail(self) -> MemoryTail:
        return MemoryTail(self.broker, self.names, self.name, self.limit)

    def read_on(self) -> None:
        self.feeding.catch_up()

    def play(self, sessions: Iterable[SimulatedSession], batch: int = 50) -> None:
        """Log, fold and read all of it."""
        self.feed(interleaved(sessions))
        self.run(batch=batch)
        self.read_on()
