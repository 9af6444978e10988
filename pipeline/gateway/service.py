"""What every route works with: the store, how it stands, who asks and what they may see."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from msgspec import Struct, field
from sqlalchemy import Connection

from operators.readers.money import Card
from operators.readers.references import SCHEME, AddressError, session_at
from pipeline.errors import PipelineError

from . import sessions
from .changes import Offsets
from .feed import Feed
from .problems import away, not_found
from .queues import Tally
from .security import Principal, Rules
from .sessions import Held
from .status import Status
from .store import Store


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


MakeCursor: TypeAlias = Callable[[str, Offsets, Mapping[str, int]], str]
"""Names a place to go on from: which topics, the next offsets, the sessions' epochs."""


class Service(Struct, frozen=True):
    """A gateway put together. ``cursor``: of the streams that go on from a page, ``tally``: what
    became of their frames; None: there are none. ``card``: what tokens cost, if that is known."""

    store: Store
    feed: Feed
    rules: Rules
    version: str
    now_ms: Callable[[], int] = field(default=_now_ms)
    cursor: MakeCursor | None = None
    tally: Callable[[], Tally] | None = None
    card: Card | None = None

    @property
    def status(self) -> Status:
        return self.feed.board.now


class Asking(Struct, frozen=True):
    """One request: who asks the service."""

    service: Service
    principal: Principal

    @property
    def visible(self) -> Callable[[str], bool] | None:
        """Which sessions may be seen, None: all."""
        return self.service.rules.sees(self.principal)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One moment of the read model. `Problem` 503 while it cannot be read."""
        status = self.service.status
        if not status.servable:
            why = status.why or "the read model is being opened"
            raise away(f"nothing can be served yet: {why}")
        try:
            with self.service.store.read() as connection:
                yield connection
        except PipelineError as error:
            raise away(str(error)) from error

    def needs_raw(self) -> None:
        """`Problem` 404 unless raw events, which no redaction covers, may be seen."""
        if not self.principal.raw:
            raise not_found("raw events are not for this principal; the transcript may be")

    def session(self, connection: Connection, session: str) -> Held:
        """By its id, or by its address (readers.md §8). `Problem` 404 for one that is not there,
        and just so for one that may not be seen; 503 while it may be among what is still to be
        read."""
        found = self._find(connection, session)
        if found is None and session.startswith(SCHEME):
            try:
                found = self._find(connection, session_at(session))
            except AddressError as error:
                raise not_found(f"{session}: {error}") from None
        if found is None:
            status = self.service.status
            if status.state == "catching-up":
                done = f"{status.done} of {status.total} offsets are read"
                raise away(f"there is no session {session!r} yet: catching-up, {done}")
            raise not_found(f"there is no session {session!r}: GET /v1/sessions lists them")
        return found

    def _find(self, connection: Connection, session: str) -> Held | None:
        visible = self.visible
        if visible is not None and not visible(session):
            return None
        return sessions.find(connection, session)
