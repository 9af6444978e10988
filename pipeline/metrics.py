"""What a worker tells, as Prometheus metrics. Every worker has a registry of its own, so that
several in one process do not clash.

Labels are partitions, phases, topic roles, reasons and kinds of errors: their number does not grow
with the sessions. All is counted once per batch, the latency too, from the records' timestamps.
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from operator import attrgetter
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from .commit import Folded
from .errors import Retriable
from .metric_families import Folding, Group, Restoring, Sessions
from .observe import Observer
from .ports import InRecord, Polled

HELD_EVERY_S = 5.0  #: between two looks at what is held in memory and on the disk

_TIMESTAMP = attrgetter("timestamp")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class HeldStates(Protocol):
    """What is asked of `state.States`."""

    @property
    def residents(self) -> int: ...

    @property
    def weight(self) -> int: ...

    def sessions(self, partition: int) -> int: ...


class PrometheusObserver(Observer):
    """Fills ``registry``. ``wall`` is the clock of the records' timestamps, in epoch seconds."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        # Each counter would be followed by the time it was made at: twice the series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._wall = wall
        self._folding = Folding(self.registry)
        self._group = Group(self.registry)
        self._restoring = Restoring(self.registry)
        self._sessions = Sessions(self.registry)
        self._records: Mapping[int, Sequence[InRecord]] = {}
        self._restored: set[int] = set()
        self._states: HeldStates | None = None
        self._stored: Callable[[], int] = int
        self._looked = 0.0
        ProcessCollector(registry=self.registry)
        _build_info(self.registry)

    def watch(self, states: HeldStates, stored: Callable[[], int]) -> None:
        """Look at ``states`` now and then, on the loop's own thread; ``stored``: the bytes that the
        local store takes on the disk."""
        self._states, self._stored = states, stored

    def ready(self, ready: Callable[[], bool]) -> None:
        """Ask ``ready`` whenever the metrics are read, on the thread that reads them."""
        gauge = Gauge("foldstream_ready", "1 while /readyz says yes.", registry=self.registry)
        gauge.set_function(ready)

    def polled(self, polled: Polled) -> None:
        self._records = polled.records

    def rebalanced(self, revoked: tuple[int, ...], assigned: tuple[int, ...]) -> None:
        self._group.rebalanced(revoked, assigned)
        self._restoring.forget(revoked)
        self._restored.difference_update(revoked, assigned)
        self._sessions.forget(revoked)

    def restoring(self, partition: int, done: int, total: int) -> None:
        self._restoring.progress(partition, done, total)

    def restored(
        self,
        partition: int,
        sessions: int,  # noqa: ARG002 - `watch` shows them
        records: int,
        size: int,
        seconds: float,
    ) -> None:
        self._restoring.complete(partition, records, size, seconds)
        self._restored.add(partition)

    def batch(self, folded: Folded, seconds: Mapping[str, float]) -> None:
        self._folding.batch(folded, seconds, self._wall())
        stamps = [
            stamp
            for partition, result in folded.results.items()
            for stamp in map(_TIMESTAMP, self._records.get(partition, ())[: result.taken])
        ]
        self._folding.latency.add(stamps, self._wall())
        self._group.moves(folded.nexts)
        self._sessions.folded(folded)
        self._records = {}

    def failed(self, error: Retriable) -> None:
        self._folding.failures.labels(kind_of(error)).inc()
        self._group.start_over()
        self._restoring.start_over()
        self._restored.clear()

    def rebuilt(self, seconds: float) -> None:
        self._folding.rebuild.observe(seconds)

    def lag(self, lag: Mapping[int, int]) -> None:
        self._group.behind(lag)

    def stalled(
        self,
        partition: int,
        position: int,  # noqa: ARG002 - the log says where, and for how long
        end: int,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> None:
        self._group.stands(partition)

    def turned(self) -> None:
        now = time.monotonic()
        if self._states is None or now - self._looked < HELD_EVERY_S:
            return
        self._looked = now
        states = self._states
        known = sum(states.sessions(partition) for partition in self._restored)
        cold = max(0, known - states.residents)
        self._sessions.set("resident", states.residents, states.weight)
        self._sessions.set("cold", cold, self._stored())


def kind_of(error: BaseException) -> str:
    """``CommitUnknown`` is ``commit-unknown``: there are as many as there are classes."""
    return _WORDS.sub("-", type(error).__name__).lower()


def _build_info(registry: CollectorRegistry) -> None:
    info = Info("foldstream_build", "What runs.", registry=registry)
    versions = {"python": platform.python_version()}
    for package in ("foldstream", "kafka-python"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from its sources
            version = "unknown"
        versions["version" if package == "foldstream" else "client"] = version
    info.info(versions)
