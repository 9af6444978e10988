"""Virtual time: events in the order of their moments, and waiting that passes at once.

One thread. Whoever waits runs the events until what it waits for has come, so several processes
stand on one stack and never run at the same moment. Nothing here reads a clock or sleeps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

#: Waiting for longer than this, without a limit of its own, is waiting for ever: an hour.
FOR_EVER_S = 3_600.0


class Elapsed(BaseException):
    """The time of the limit ``token`` is over. Not an `Exception`: only who set it catches it."""

    def __init__(self, token: object) -> None:
        super().__init__(token)
        self.token = token


class Hang(BaseException):
    """Something waits without a limit for what cannot come."""


class VirtualTime:
    """Seconds since the beginning, an event queue, and the limits of who runs now."""

    def __init__(self) -> None:
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._limits: list[tuple[float, object]] = []

    def monotonic(self) -> float:
        return self._now

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Run ``call`` in ``seconds``, on the stack of whoever waits then."""
        self._count += 1
        heapq.heappush(self._events, (self._now + seconds, self._count, call))

    def sleep(self, seconds: float) -> None:
        self.wait(lambda: False, seconds)

    def wait(self, done: Callable[[], bool], seconds: float = FOR_EVER_S) -> bool:
        """Until ``done()``, at most ``seconds``; whether it came to that. `Elapsed` when a limit
        set around it is over first, `Hang` when nothing bounds it and an hour passes."""
        until, bounded = self._now + seconds, seconds < FOR_EVER_S
        while not done():
            limit, token = min(self._limits, key=lambda at: at[0], default=(until, None))
            end = min(until, limit)
            if self._events and self._events[0][0] <= end:
                when, _, call = heapq.heappop(self._events)
                self._now = max(self._now, when)
                call()
                continue
            self._now = max(self._now, end)
            if token is not None and limit <= until:
                raise Elapsed(token)
            if not bounded:
                raise Hang("waits for what never comes")
            return done()
        return True

    def limited(self, seconds: float, call: Callable[[], T]) -> T:
        """``call()``; `TimeoutError` once ``seconds`` have passed inside it."""
        token = object()
        self._limits.append((self._now + seconds, token))
        try:
            return call()
        except Elapsed as elapsed:
            if elapsed.token is not token:
                raise
            raise TimeoutError from None
        finally:
            self._limits = [limit for limit in self._limits if limit[1] is not token]

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Somebody else runs: the limits of who was running do not bound it."""
        limits, self._limits = self._limits, []
        try:
            yield
        finally:
            self._limits = limits
