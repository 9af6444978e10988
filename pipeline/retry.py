"""How long a worker keeps trying, and when it says that somebody must look."""

from __future__ import annotations

import time

from . import limits
from .errors import Fatal, Fenced, Retriable, Stuck
from .ports import Clock

OWN_INSTANCE = "give each worker its own --instance"


class SystemClock:
    """The machine's own time (`ports.Clock`)."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Budget:
    """Time without a success that is still worth waiting: ``spend`` waits or gives up."""

    def __init__(self, clock: Clock, seconds: float = limits.RETRY_BUDGET_S) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since: float | None = None
        self._last: float | None = None
        self._pause = limits.RETRY_FIRST_S
        self._fenced: float | None = None

    def succeeded(self) -> None:
        self._since = None
        self._pause = limits.RETRY_FIRST_S

    def spend(self, error: Retriable) -> None:
        """Wait a little longer than last time. `Fatal` when the budget is gone, or when a second
        worker evidently runs under our name."""
        now = self._clock.monotonic()
        if isinstance(error, Fenced):
            self._refuse_twin(now, error)
        if isinstance(error, Stuck):  # no outage: the time before it was waited in good faith
            self.succeeded()
        if self._last is not None and now - self._last > 2 * self._seconds:
            self.succeeded()  # idle since: this is another trouble
        self._last = now
        if self._since is None:
            self._since = now
        elif now - self._since >= self._seconds:
            raise Fatal(
                f"nothing could be committed for {now - self._since:.0f} s: {error.message}",
                error.remedy
                or "see that the brokers answer, then start the worker again: "
                "it goes on from the committed offsets",
            ) from error
        self._clock.sleep(self._pause)
        self._pause = min(2 * self._pause, limits.RETRY_LAST_S)

    def _refuse_twin(self, now: float, error: Fenced) -> None:
        last, self._fenced = self._fenced, now
        if last is not None and now - last < limits.FENCED_WINDOW_S:
            raise Fatal(
                f"{error.message}, again: a second worker runs under this name",
                OWN_INSTANCE,
            ) from error
