"""Processes and the network between them and the brokers, on virtual time.

A request travels, is answered, and the answer travels back; on the way either may be lost or late,
a connection may be cut, a broker may be away, and the process may be stopped or dead by then.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeAlias

from .memory_log import Refusal
from .memory_time import VirtualTime

TRIP_S = 0.0005  #: one way, undisturbed
RECONNECT_S = 0.05  #: until a connection to a broker that is away fails


class Fate(enum.Enum):
    """What becomes of one request."""

    DONE = "done"
    LOST = "lost"  #: never arrives; no answer
    UNANSWERED = "unanswered"  #: takes effect; no answer
    LATE = "late"  #: takes effect long after the client stopped waiting
    CUT = "cut"  #: the connection closes before it arrives
    CUT_AFTER = "cut after"  #: it takes effect, then the connection closes


class Disconnected(Exception):  # noqa: N818 - what happened
    """The connection closed before an answer."""


class Unanswered(Exception):  # noqa: N818 - what happened
    """No answer within the request's time."""


Answer: TypeAlias = Callable[[Any], None]
"""Takes a request's answer, or a `Refusal`, `Disconnected` or `Unanswered`."""


class Process:
    """One operating-system process: stopped, what reaches it waits; dead, it is gone.

    ``hook`` is called at each point of each client call it makes; what it does there (let others
    run, raise) happens to the process at that point. ``idle`` is called while it waits for long:
    others may run."""

    def __init__(self, name: str, hook: Callable[[str], None] = lambda _: None) -> None:
        self.name = name
        self.hook = hook
        self.idle: Callable[[], None] = lambda: None
        self.stopped = False
        self.dead = False
        self._waiting: list[Callable[[], None]] = []

    def deliver(self, call: Callable[[], None]) -> None:
        if self.stopped:
            self._waiting.append(call)
        elif not self.dead:
            call()

    def resume(self) -> None:
        self.stopped = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self.deliver(call)


class Network:
    """``fate`` decides about each request (process, request name). Brokers are numbered."""

    def __init__(self, time: VirtualTime, brokers: int = 3) -> None:
        self._time = time
        self._brokers = brokers
        self._away: dict[int, float] = {}
        self.fate: Callable[[str, str], Fate] = lambda _process, _request: Fate.DONE
        self.late_s = 15.0

    def kill(self, broker: int, seconds: float) -> None:
        """What it leads is away for so long: until it is back, or others have taken over."""
        self._away[broker % self._brokers] = self._time.monotonic() + seconds

    def heal(self) -> None:
        self._away.clear()
        self.fate = lambda _process, _request: Fate.DONE

    def reachable(self, key: int) -> bool:
        """Whether the leader of what ``key`` stands for answers."""
        return self._away.get(key % self._brokers, 0.0) <= self._time.monotonic()

    def send(
        self,
        process: Process,
        request: tuple[str, int],
        serve: Callable[[Answer], None],
        answer: Answer,
        timeout_s: float,
    ) -> None:
        """``request``: its name, and the key of the broker it goes to. ``serve`` is the broker's
        part: it calls back at once or later, or raises `Refusal`."""
        exchange = _Exchange(self._time, process, answer)
        name, key = request
        fate = self.fate(process.name, name) if self.reachable(key) else Fate.CUT
        if fate in (Fate.CUT, Fate.CUT_AFTER):
            self._time.after(RECONNECT_S, lambda: exchange.finish(Disconnected(name)))
        elif timeout_s < float("inf"):
            self._time.after(timeout_s, lambda: exchange.finish(Unanswered(name)))
        if fate in (Fate.LOST, Fate.CUT):
            return
        silent = fate is not Fate.DONE
        delay = timeout_s + self.late_s if fate is Fate.LATE else TRIP_S
        self._time.after(delay, lambda: exchange.arrive(serve, silent=silent))


class _Exchange:
    """One request and its answer, of which only the first counts."""

    def __init__(self, time: VirtualTime, process: Process, answer: Answer) -> None:
        self._time = time
        self._process = process
        self._answer = answer
        self._over = False

    def arrive(self, serve: Callable[[Answer], None], *, silent: bool) -> None:
        back: Answer = (lambda _: None) if silent else self._back
        try:
            serve(back)
        except Refusal as refusal:
            back(refusal)

    def _back(self, answer: Any) -> None:
        self._time.after(TRIP_S, lambda: self.finish(answer))

    def finish(self, answer: Any) -> None:
        if not self._over:
            self._over = True
            self._process.deliver(lambda: self._answer(answer))
