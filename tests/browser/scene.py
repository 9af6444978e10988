"""What the browser is shown: a gateway with its page, over sessions folded in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from starlette.routing import BaseRoute

from pipeline.gateway import live, running, streams
from pipeline.gateway.service import Service
from pipeline.gateway.tail import MemoryTail
from pipeline.health import Address
from pipeline.simulate import SimulatedSession
from tests.operators.build import numbered
from tests.operators.records import Json
from tests.pipeline.world import World, interleaved

STARTED = 1_800_000_000_000  #: of logs told by hand: epoch ms
PACE = live.Pace(ping_s=5.0)


class Scene(World):
    """``tell`` continues a session's log and folds it; ``url`` shows it."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._database = f"sqlite:///{folder}/read.db"
        self._next: dict[str, int] = {}
        self.port = 0  # of the first gateway; those after it take it again

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, session: str, seq: int | None = None) -> str:
        return f"{self.url}/#/s/{session}" + ("" if seq is None else f"/{seq}")

    def tell(self, session: str, *records: Json) -> None:
        """Records of `tests.operators.records`; a new session gets a header first."""
        lines: list[Json] = []
        if session not in self._next:
            self._next[session] = 0
            lines.append({"type": "session", "version": 4, "id": session, "timestamp": STARTED})
        for made in numbered(records, self._next[session]):
            lines.append({**made, "time": STARTED + 1_000 * made["seq"]})
            self._next[session] = made["seq"] + 1
        self.feed((session, json.dumps(line).encode()) for line in lines)
        self.run(batch=500)

    def next_seq(self, session: str) -> int:
        return self._next.get(session, 0)

    def play(self, sessions: Iterable[SimulatedSession]) -> None:
        self.feed(interleaved(sessions))
        self.run(batch=500)

    @contextmanager
    def serving(self, pace: live.Pace = PACE) -> Iterator[None]:
        """A gateway while the block runs; a later one goes on with the same database."""
        core = live.Live(pace)

        def routes(service: Service) -> Sequence[BaseRoute]:
            return streams.routes(core, service)

        settings = running.Settings(self._database, Address("127.0.0.1", self.port))
        tail: Callable[[], MemoryTail] = lambda: MemoryTail(self.broker, self.names, "scene", 500)  # noqa: E731
        with running.serving(
            settings, tail, running.Live(core.heard, routes, live.cursor_of)
        ) as gateway:
            self.port = int(gateway.url.rpartition(":")[2])
            try:
                yield
            finally:
                core.end()
