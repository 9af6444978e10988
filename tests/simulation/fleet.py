"""Workers of the product over simulated brokers, one turn after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache

from pipeline.errors import Fatal, PipelineError
from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.simulated import SimulatedClients
from pipeline.kafka.simulated_brokers import Brokers
from pipeline.kafka.sink import KafkaSink, SinkSettings
from pipeline.kafka.source import KafkaSource, SourceSettings
from pipeline.loop import Policy, Worker
from pipeline.memory_ends import create_topics
from pipeline.memory_network import Process
from pipeline.memory_time import VirtualTime
from pipeline.outside import Ends
from pipeline.ports import Polled, Segment
from pipeline.simulate import fleet as simulated_sessions
from pipeline.state import States
from pipeline.store.memory import MemoryStore
from pipeline.topics import Names
from pipeline.wiring import wire
from tests.pipeline.world import interleaved, partition_of
from tests.simulation.histories import History
from tests.simulation.offsets import Watched
from tests.simulation.troubles import DEPTH, Struck, Troubles

NAMES = Names()
RESTART_S = 2.0
RESIDENT_BYTES = 25_000  #: one or two sessions: the others come from the store


class Crash(BaseException):
    """The process dies here: nothing is caught, nothing is cleaned up."""


class KeptStore(MemoryStore):
    """What a disk keeps: it outlives the process and the partition's stay with another worker.
    ``reached`` is told the points at which the process may die."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: Callable[[str], None] = lambda _: None

    def write(
        self,
        partition: int,
        items: Iterable[Segment],
        position: int,
        *,
        current: bool = True,
    ) -> None:
        self.reached("store:before")
        super().write(partition, items, position, current=current)
        self.reached("store:after")

    def release(self, partition: int) -> None:
        """Stays for its return."""

    def close(self) -> None:
        """Stays."""


class _Stepped(Worker):
    """The worker, whose turns are taken from outside."""

    offer: Callable[[Polled], None]

    def run(self, offer: Callable[[Polled], None]) -> None:
        self.offer = offer


class Running:
    """One process: the product's worker, alive until it crashes or ends."""

    def __init__(self, fleet: Fleet, instance: str, store: KeptStore) -> None:
        self.instance = instance
        self.store = store
        self.process = Process(instance, lambda point: fleet.reached(self, point))
        self.process.idle = fleet.idle
        store.reached = self.process.hook
        self.busy = False
        self.leaving = False
        self.worker: _Stepped | None = None

    def begin(self, fleet: Fleet) -> None:
        clients = SimulatedClients(fleet.brokers, self.process)
        cluster, name = Cluster("simulated", {}, clients), NAMES.application
        source = SourceSettings(
            NAMES.of("events"), name, self.instance, batch_records=fleet.history.batch
        )
        sink = SinkSettings(NAMES, fleet.transactional_id(self.instance), 1)
        ends = Ends(
            source=KafkaSource(cluster, source),
            sink=KafkaSink(cluster, sink),
            reader=KafkaReader(cluster),
            names=NAMES,
        )
        states = States(self.store, RESIDENT_BYTES)
        worker = _Stepped(
            ends,
            states,
            Policy(threading.Event()),
            clock=clients,
            step=lambda line: self.process.hook(f"line {line}"),
        )
        wire(worker, states).run()
        self.worker = worker
        worker.open()


class Fleet:
    """The deployment of one history. ``deaths``: when and why workers ended by themselves, and
    until when there had been trouble."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.time = VirtualTime()
        self.brokers = Brokers(self.time)
        self.offsets = self.brokers.memory.offsets = Watched()
        self.depth = 0
        self.events: list[str] = []
        self.deaths: list[tuple[float, float, str]] = []
        self.workers: list[Running] = []
        self._lines = deque(lines(history.input))
        self._fed: list[tuple[str, bytes]] = []
        self._restarts: list[tuple[float, str, KeptStore]] = []
        create_topics(self.brokers.memory, NAMES, history.partitions)
        self.troubles = Troubles(history.faults, self)
        for n in range(history.workers):
            self.join(f"w{n}")

    def note(self, what: str) -> None:
        self.events.append(f"{self.time.monotonic():8.2f} {what}")

    def transactional_id(self, instance: str) -> str:
        return f"{NAMES.application}-{instance}"

    # --- input ------------------------------------------------------------------------------------

    def feed(self, count: int) -> None:
        for _ in range(min(count, len(self._lines))):
            self._append(*self._lines.popleft())

    def again(self, back: int, count: int) -> None:
        """Records that were ``back`` ago are produced once more."""
        for line in self._fed[-back:][:count]:
            self._append(*line)

    def _append(self, session: str, line: bytes) -> None:
        partition = partition_of(session, self.history.partitions)
        self.brokers.memory.append(NAMES.of("events"), partition, session.encode(), line)
        self._fed.append((session, line))

    def folded(self) -> bool:
        """All input is committed."""
        memory, events = self.brokers.memory, NAMES.of("events")
        done = memory.offsets.committed(NAMES.application)
        return not self._lines and all(
            done.get((events, partition), 0) == memory.end(events, partition)
            for partition in range(self.history.partitions)
        )

    # --- workers ----------------------------------------------------------------------------------

    def join(self, instance: str, store: KeptStore | None = None) -> None:
        self.workers.append(Running(self, instance, store or KeptStore()))

    def leave(self, who: Struck) -> None:
        assert isinstance(who, Running)
        who.leaving = True

    def crash(self, who: Struck, *, keeps_store: bool) -> None:
        assert isinstance(who, Running)
        self._gone(who)
        self._restart(who, who.store if keeps_store else KeptStore())
        raise Crash

    def reached(self, running: Running, point: str) -> None:
        if running.process.dead:
            raise Crash
        self.troubles.reached(running, point)

    def round(self, until: float = float("inf")) -> None:
        """A turn of each, and the dead start again."""
        for due in [due for due in self._restarts if due[0] <= self.time.monotonic()]:
            self._restarts.remove(due)
            self.join(due[1], due[2])
        for running in list(self.workers):
            if not running.busy and running in self.workers and self.time.monotonic() < until:
                self.turn(running)
        if not self.workers:
            self.time.sleep(RESTART_S)

    def idle(self) -> None:
        """Somebody waits: a turn for the others."""
        if self.depth < DEPTH:
            with self.time.meanwhile():
                self.round()

    def others(self, seconds: float) -> None:
        """Let everybody else run for so long."""
        until = self.time.monotonic() + seconds
        with self.time.meanwhile():
            while self.time.monotonic() < until:
                before = self.time.monotonic()
                self.round(until)
                if self.time.monotonic() == before:
                    self.time.sleep(until - before)

    def turn(self, running: Running) -> None:
        """One turn of one worker, whatever comes of it."""
        running.busy = True
        self.depth += 1
        try:
            with self.time.meanwhile():
                self._turn(running)
        except Crash:
            self.note(f"{running.instance} crashed")
        except Fatal as error:
            self.note(f"{running.instance} ended: {error}")
            self.deaths.append((self.time.monotonic(), self.troubles.last, error.message))
            self._end(running)
        finally:
            self.depth -= 1
            running.busy = False

    def _turn(self, running: Running) -> None:
        if running.worker is None:
            running.begin(self)
        elif running.leaving:
            self.note(f"{running.instance} leaves")
            self._end(running)
        else:
            running.worker.turn(running.worker.offer)

    def _end(self, running: Running) -> None:
        """The worker closes what it holds, and its supervisor starts it again."""
        try:
            if running.worker is not None:
                running.worker.close()
        except (Crash, PipelineError) as error:
            self.note(f"{running.instance} did not close: {error!r}")
        if running in self.workers:
            self._gone(running)
            self._restart(running, running.store)

    def _gone(self, running: Running) -> None:
        running.process.dead = True
        self.workers.remove(running)

    def _restart(self, running: Running, store: KeptStore) -> None:
        """Unless another process has its name by now."""
        named = [*(w.instance for w in self.workers), *(due[1] for due in self._restarts)]
        if running.instance not in named:
            self._restarts.append((self.time.monotonic() + RESTART_S, running.instance, store))


@cache
def lines(number: int) -> tuple[tuple[str, bytes], ...]:
    """Sessions of a few turns, as they are written at the same time; one line is broken."""
    found = interleaved(simulated_sessions(100 + number, 3, events=12))
    found.insert(len(found) // 2, (found[0][0], b"{broken"))
    return tuple(found)
