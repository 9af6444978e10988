"""A deployment in memory for the tests of the worker, and ways to trouble it."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pipeline.batch import Redact
from pipeline.loop import Policy, Worker
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import (
    MemoryReader,
    MemorySink,
    MemorySource,
    create_topics,
)
from pipeline.observe import Observer
from pipeline.outside import Ends
from pipeline.ports import InRecord, Member, OutRecord, Reader, Sink, Source, Transaction
from pipeline.simulate import SimulatedSession
from pipeline.state import States
from pipeline.store import MemoryStore
from pipeline.topics import Names
from pipeline.verify import Verdict, verify
from pipeline.wiring import Running, wire

PARTITIONS = 3


def partition_of(session: str, count: int = PARTITIONS) -> int:
    return zlib.crc32(session.encode()) % count


def interleaved(sessions: Iterable[SimulatedSession]) -> list[tuple[str, bytes]]:
    """(session, line), one of each session in turn, as live sessions write."""
    queues = [(session.id, list(session.lines)) for session in sessions]
    out = []
    while queues:
        for name, lines in queues:
            out.append((name, lines.pop(0)))
        queues = [queue for queue in queues if queue[1]]
    return out


class TestClock:
    """Sleeping passes at once."""

    __test__ = False

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Trouble:
    """Raises ``error`` once, ``when`` ("before" or "after") the ``nth`` call of ``call``."""

    def __init__(self, call: str, when: str, error: BaseException, nth: int = 1) -> None:
        self._at = (call, when)
        self._error = error
        self._left = nth

    def reached(self, call: str, when: str) -> None:
        if (call, when) == self._at and self._left > 0:
            self._left -= 1
            if self._left == 0:
                raise self._error

    def around(self, call: str, function: Callable[[], Any]) -> Any:
        self.reached(call, "before")
        result = function()
        self.reached(call, "after")
        return result


class TroubledSink:
    """A sink in trouble; ``calls`` is what was called, in order."""

    def __init__(self, inner: Sink, trouble: Trouble | None = None) -> None:
        self._inner = inner
        self._trouble = trouble or Trouble("nothing", "before", RuntimeError())
        self.calls: list[str] = []

    def _call(self, name: str, function: Callable[[], Any]) -> Any:
        self.calls.append(name)
        return self._trouble.around(name, function)

    def open(self) -> None:
        self._call("open", self._inner.open)

    def begin(self) -> Transaction:
        transaction = self._call("begin", self._inner.begin)
        return TroubledTransaction(transaction, self._call)

    def abandon(self) -> None:
        self._call("abandon", self._inner.abandon)

    def close(self) -> None:
        self._call("close", self._inner.close)


class TroubledTransaction:
    def __init__(self, inner: Transaction, call: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._inner = inner
        self._call = call

    def send(self, record: OutRecord) -> None:
        self._call("send", lambda: self._inner.send(record))

    def send_offsets(self, offsets: Mapping[int, int], member: Member) -> None:
        self._call("send_offsets", lambda: self._inner.send_offsets(offsets, member))

    def flush(self) -> dict[int, int]:
        positions: dict[int, int] = self._call("flush", self._inner.flush)
        return positions

    def commit(self) -> None:
        self._call("commit", self._inner.commit)


class World:
    """Topics in memory and workers over them."""

    def __init__(self, partitions: int = PARTITIONS) -> None:
        self.names = Names()
        self.broker = MemoryBroker()
        self.partitions = partitions
        create_topics(self.broker, self.names, partitions)
        self.clock = TestClock()

    def feed(self, lines: Iterable[tuple[str, bytes]], epoch: int | None = None) -> None:
        headers = [] if epoch is None else [("epoch", b"%d" % epoch)]
        for session, line in lines:
            partition = partition_of(session, self.partitions)
            self.append(session.encode(), line, partition=partition, headers=headers)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> int:
        return self.broker.append(
            self.names.of("events"), partition, key, value, headers=tuple(headers)
        )

    def source(self, batch: int = 50) -> MemorySource:
        return MemorySource(self.broker, self.names.application, self.names.of("events"), batch)

    def sink(self, instance: str = "1") -> MemorySink:
        return MemorySink(self.broker, self.names, f"{self.names.application}-{instance}")

    def worker(
        self,
        *,
        instance: str = "1",
        batch: int = 50,
        sink: Sink | None = None,
        source: Source | None = None,
        reader: Reader | None = None,
        stop: threading.Event | None = None,
        leave: threading.Event | None = None,
        at_end: bool = True,
        observer: Observer | None = None,
        redact: Redact | None = None,
    ) -> Running:
        """A worker that stops when all is read."""
        states = States(MemoryStore())
        ends = Ends(
            source or self.source(batch),
            sink or self.sink(instance),
            reader or MemoryReader(self.broker),
            self.names,
        )
        policy = Policy(stop or threading.Event(), leave or threading.Event(), at_end=at_end)
        worker = Worker(ends, states, policy, clock=self.clock, observer=observer)
        return wire(worker, states, redact=redact)

    def run(self, **settings: Any) -> Running:
        running = self.worker(**settings)
        running.run()
        return running

    def read(self, role: str) -> list[InRecord]:
        """The committed records of all partitions."""
        topic, reader = self.names.of(role), MemoryReader(self.broker)
        return [
            record
            for partition in range(reader.partitions(topic))
            for record in reader.read(topic, partition)
        ]

    def verify(self) -> Verdict:
        return verify(MemoryReader(self.broker), self.names)

    def verify_after_restart(self) -> Verdict:
        """A process died: its group membership expires, a new one of the same name takes over."""
        for member in self.broker.members(self.names.application):
            self.broker.leave(self.names.application, member)
        self.run()
        return self.verify()
