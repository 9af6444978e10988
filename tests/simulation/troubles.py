"""What happens to workers, brokers and the network between them, as a history says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol

from pipeline.kafka.simulated_brokers import Brokers
from pipeline.memory_log import Refusal
from pipeline.memory_network import Fate, Process
from tests.simulation.histories import Fault

DEPTH = 3  #: workers on one stack
REQUESTS = (1, 1, 1, 1, 2, 2, 3, 4, 6, 12)  #: disturbed in a row
LATEST_S = 20.0  #: until a late request arrives
PATIENCE = 300  #: points; a fault whose place never comes strikes where it stands
LATENESS_S = (0.5, 14.0, 20.0, 30.0)
STOPS_S = (0.05, 0.5, 2.0, 5.0, 9.0, 11.0, 13.0, 16.0, 22.0, 35.0)
STALLS_S = (0.05, 2.0, 8.0, 30.0, 61.0, 90.0, 125.0, 130.0, 140.0, 200.0)
AWAY_S = (0.2, 1.0, 3.0, 6.0, 7.0, 8.0, 9.0, 11.0, 14.0, 20.0)


class Struck(Protocol):
    """The process at whose point a fault strikes."""

    @property
    def instance(self) -> str: ...
    @property
    def process(self) -> Process: ...


class Deployment(Protocol):
    """What a fault may do beyond brokers and network (`fleet.Fleet`)."""

    brokers: Brokers
    depth: int

    def note(self, what: str) -> None: ...
    def crash(self, who: Struck, *, keeps_store: bool) -> None: ...
    def others(self, seconds: float) -> None: ...
    def join(self, instance: str) -> None: ...
    def leave(self, who: Struck) -> None: ...
    def again(self, back: int, count: int) -> None: ...
    def transactional_id(self, instance: str) -> str: ...


class Troubles:
    """The faults of one history that are still to come, and those under way."""

    def __init__(self, faults: tuple[Fault, ...], deployment: Deployment) -> None:
        self._faults = deque(faults)
        self._points = 0
        self._deployment = deployment
        self._requests: list[tuple[str, str, Fate]] = []
        self._dropped: set[str] = set()
        self._markers: list[float | None] = []
        self._joined = 0
        self.twins = 0
        self._last = 0.0  # the moment until which something was troubled
        self._frozen = 0  # workers that are stopped or stalled now
        self._lost = False  # whether a marker was
        deployment.brokers.network.fate = self._fate
        deployment.brokers.marker_s = self._marker_s
        deployment.brokers.forgets = self._forgets

    def reached(self, who: Struck, point: str) -> None:
        """A worker stands at a point of its doing: is it time for the next fault?"""
        self._points += 1
        if not self._faults or self._points <= self._faults[0].after:
            return
        if not point.startswith(self._faults[0].at) and self._points < PATIENCE:
            return
        self._points = 0
        fault = self._faults.popleft()
        what = " ".join(filter(None, [fault.kind, fault.request, str(fault.amount)]))
        self._deployment.note(f"{who.instance} at {point}: {what}")
        self._troubled()
        _STRIKES[fault.kind](self, fault, who)

    def _troubled(self, seconds: float = 0.0) -> None:
        now = self._deployment.brokers.time.monotonic()
        self._last = max(self._last, now + seconds)

    @property
    def last(self) -> float:
        """The moment until which something was troubled. A marker that was lost is written again
        by the worker whose transaction it ends, which must stand there for that."""
        now = self._deployment.brokers.time.monotonic()
        return now if self._lost and self._frozen else self._last

    @contextmanager
    def _freezing(self) -> Iterator[None]:
        self._frozen += 1
        try:
            yield
        finally:
            self._frozen -= 1
            self._troubled()

    def heal(self) -> None:
        """No more of them."""
        self._faults.clear()
        self._requests.clear()
        self._dropped.clear()
        self._markers.clear()
        self._deployment.brokers.network.heal()

    # --- each of them -----------------------------------------------------------------------------

    def _crash(self, fault: Fault, who: Struck) -> None:
        self._deployment.crash(who, keeps_store=fault.kind == "crash")

    def _stop(self, fault: Fault, who: Struck) -> None:
        if self._deployment.depth < DEPTH:
            who.process.stopped = True
            with self._freezing():
                self._deployment.others(STOPS_S[fault.amount])
                who.process.resume()
            self._deployment.note(f"{who.instance} goes on")

    def _stall(self, fault: Fault, who: Struck) -> None:
        if self._deployment.depth < DEPTH:
            with self._freezing():
                self._deployment.others(STALLS_S[fault.amount])
            self._deployment.note(f"{who.instance} goes on")

    def _disturb(self, fault: Fault, who: Struck) -> None:
        fate = who.process.name, fault.request, Fate(fault.kind)
        self._requests += [fate] * REQUESTS[fault.amount]

    def _broker(self, fault: Fault, _: Struck) -> None:
        seconds = AWAY_S[(3 * fault.amount + 1) % 10]
        self._deployment.brokers.network.kill(fault.amount, seconds)
        self._troubled(seconds)

    def _drop(self, fault: Fault, _: Struck) -> None:
        self._dropped.add(fault.request)

    def _late_markers(self, fault: Fault, _: Struck) -> None:
        self._markers += [LATENESS_S[fault.amount % 4]] * 2

    def _lost_markers(self, _fault: Fault, _: Struck) -> None:
        self._markers.append(None)

    def _twin(self, _: Fault, who: Struck) -> None:
        self.twins += 1
        name = self._deployment.transactional_id(who.instance)
        with suppress(Refusal):
            self._deployment.brokers.memory.transactions.init(name, 10.0)

    def _join(self, _fault: Fault, _: Struck) -> None:
        self._joined += 1
        self._deployment.join(f"x{self._joined}")

    def _leave(self, _: Fault, who: Struck) -> None:
        self._deployment.leave(who)

    def _replace(self, _: Fault, who: Struck) -> None:
        self.twins += 1
        self._deployment.join(who.instance)

    def _again(self, fault: Fault, _: Struck) -> None:
        self._deployment.again(5 * fault.amount + 1, fault.amount + 1)

    # --- asked by the brokers ---------------------------------------------------------------------

    def _fate(self, process: str, request: str) -> Fate:
        for entry in self._requests:
            if entry[0] == process and entry[1] in ("", request):
                self._requests.remove(entry)
                self._troubled(LATEST_S if entry[2] is Fate.LATE else 0.0)
                self._deployment.note(f"{process}: {request} is {entry[2].value}")
                return entry[2]
        return Fate.DONE

    def _marker_s(self) -> float | None:
        if not self._markers:
            return 0.0
        seconds = self._markers.pop(0)
        self._lost = self._lost or seconds is None
        self._troubled(seconds or 0.0)
        return seconds

    def _forgets(self, request: str) -> bool:
        if request not in self._dropped:
            return False
        self._dropped.discard(request)
        self._deployment.note(f"{request} is dropped by the client")
        return True


_STRIKES: Mapping[str, Callable[[Troubles, Fault, Struck], None]] = {
    "crash": Troubles._crash,
    "crash without store": Troubles._crash,
    "stop": Troubles._stop,
    "stall": Troubles._stall,
    "lost": Troubles._disturb,
    "unanswered": Troubles._disturb,
    "late": Troubles._disturb,
    "cut": Troubles._disturb,
    "cut after": Troubles._disturb,
    "broker": Troubles._broker,
    "dropped": Troubles._drop,
    "markers late": Troubles._late_markers,
    "markers lost": Troubles._lost_markers,
    "twin": Troubles._twin,
    "join": Troubles._join,
    "leave": Troubles._leave,
    "replace": Troubles._replace,
    "again": Troubles._again,
}
