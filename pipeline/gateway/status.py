"""Whether what is served is all there is: told by the feed, asked by requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

#: The feed speaks several times a second; a call of its own may take 8 s, a large poll a few.
SILENT_S = 20.0


class Status(Struct, frozen=True):
    """``state``: starting (nothing can be served yet), catching-up, live or stale. ``stale_since``
    in epoch ms: what is served was all there was then, and ``why`` it no longer may be. ``done`` of
    ``total`` offsets are read of what was there at the start; ``lag``: offsets still to read.
    ``log`` names the very topics (`cursor.Position`)."""

    state: str = "starting"
    stale_since: int | None = None
    why: str | None = None
    done: int = 0
    total: int = 0
    lag: int | None = None
    log: str = ""

    @property
    def servable(self) -> bool:
        return self.state != "starting"


class StatusBoard:
    """The last word, and when the feed was last heard: one that does not speak any more, as a
    database or a broker holds it up, must not be taken for one that has nothing to say.
    Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._status = Status()
        self._monotonic = monotonic
        self._heard: float | None = None  # None: nobody follows the topics
        self._good_ms = 0

    @property
    def now(self) -> Status:
        """The same, unless the feed has fallen silent."""
        with self._lock:
            status, heard, good_ms = self._status, self._heard, self._good_ms
        if heard is None or status.state == "starting" or status.why is not None:
            return status
        silent = self._monotonic() - heard
        if silent < SILENT_S:
            return status
        why = f"neither the brokers nor the database have answered for {silent:.0f} s"
        return replace(status, state="stale", stale_since=good_ms, why=why)

    @property
    def told(self) -> Status:
        """What the feed said last."""
        with self._lock:
            return self._status

    @property
    def followed(self) -> bool:
        """Whether a feed is at work."""
        with self._lock:
            return self._heard is not None

    def put(self, status: Status) -> None:
        with self._lock:
            self._status = status

    def alive(self, good_ms: int) -> None:
        """All was well at that time (epoch ms)."""
        with self._lock:
            self._heard, self._good_ms = self._monotonic(), good_ms

    def ended(self) -> None:
        """As it was told to."""
        with self._lock:
            self._heard = None
