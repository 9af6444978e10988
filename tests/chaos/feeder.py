"""Simulated sessions onto the events topic, line by line, at a steady rate, each confirmed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count, islice
from random import Random
from typing import Any

import msgspec
from kafka import KafkaProducer
from kafka import errors as raised
from msgspec import Struct

from pipeline.simulate import SHAPES, simulate

TICK_S = 0.05
REMEMBERED = 100_000
MOST = 500  #: lines of a partition in one go
WAITING = 50_000  #: lines
LIVE = 6  #: sessions at a time, per partition
EVENTS = 120  #: of one session
REDELIVERED_WITHIN = 200  #: lines
CONFIRM_S = 20.0


class Line(Struct, frozen=True, gc=False):
    """``again``: sent before."""

    session: str
    partition: int
    value: bytes
    again: bool = False


class _Lane:
    """One partition: what waits, and what is underway since when; one go at a time, so that its
    lines stay in order whatever happens to the others."""

    def __init__(self) -> None:
        self.waiting: deque[Line] = deque()
        self.going: list[tuple[Line, Any]] = []
        self.since = 0.0

    def give_back(self) -> None:
        """What is underway may be there or not: it is sent again."""
        self.waiting.extendleft(line for line, _ in reversed(self.going))
        self.going = []


class Feeder:
    """Sends ``lines`` in order, ``rate`` a second, until it is told to finish. A partition that
    cannot be written to holds up no other. What is not confirmed is sent again by a new producer:
    so a line may be there twice, none is missing.

    ``sent``: per partition the moment before sending and the offset of its last `REMEMBERED`
    confirmed lines. ``fed``: per session its lines, each once; not kept without ``keep``."""

    def __init__(
        self, bootstrap: str, topic: str, lines: Iterator[Line], rate: float, *, keep: bool = True
    ) -> None:
        self.sent: dict[int, deque[tuple[float, int]]] = {}
        self.fed: dict[str, list[bytes]] = {}
        self.confirmed = 0
        self.repeats = 0  #: producers that were given up
        self._taken = 0
        self._lanes: dict[int, _Lane] = {}
        self._rate = rate
        self._keep = keep
        self._lines = lines
        self._servers = bootstrap
        self._topic = topic
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._given_up = threading.Event()
        self._producer: Any = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    @property
    def ends(self) -> dict[int, int]:
        """Per partition the offset after its last confirmed line."""
        return {partition: sent[-1][1] + 1 for partition, sent in self.sent.items()}

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """No more lines; wait until those that were begun are confirmed."""
        self._ended.set()
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            left = self._taken - self.confirmed
            raise TimeoutError(f"{left} lines are not on the topic after {seconds:.0f} s")

    def stop(self) -> None:
        """Whatever is underway."""
        self._ended.set()
        self._given_up.set()
        self._thread.join(2 * CONFIRM_S)

    def _run(self) -> None:
        try:
            self._feed()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self._error = error
        finally:
            self._drop()

    def _feed(self) -> None:
        began = time.monotonic()
        while not self._given_up.wait(TICK_S):
            if not self._ended.is_set():
                self._take(int((time.monotonic() - began) * self._rate))
            elif self.confirmed == self._taken:
                return
            try:
                for partition, lane in self._lanes.items():
                    self._advance(partition, lane)
            except raised.KafkaError:
                self._drop()
                self.repeats += 1

    def _take(self, due: int) -> None:
        """As many as are due, but no more than `WAITING` may wait."""
        room = WAITING - (self._taken - self.confirmed)
        for line in islice(self._lines, max(0, min(due - self._taken, room))):
            self._lanes.setdefault(line.partition, _Lane()).waiting.append(line)
            self._taken += 1
            if self._keep and not line.again:
                self.fed.setdefault(line.session, []).append(line.value)

    def _advance(self, partition: int, lane: _Lane) -> None:
        """Confirm the go that is done, begin the next."""
        if not all(future.is_done for _, future in lane.going):
            if time.monotonic() - lane.since > CONFIRM_S:
                raise raised.KafkaTimeoutError("lines are not confirmed")
            return
        offsets = [future.get(timeout=0).offset for _, future in lane.going]
        told = self.sent.setdefault(partition, deque(maxlen=REMEMBERED))
        told.extend((lane.since, offset) for offset in offsets)
        self.confirmed += len(offsets)
        lane.going, lane.since = [], time.monotonic()
        if lane.waiting and self._producer is None:
            self._producer = _producer(self._servers)
        for _ in range(min(len(lane.waiting), MOST)):
            line = lane.waiting[0]
            key = line.session.encode()
            future = self._producer.send(self._topic, line.value, key=key, partition=partition)
            lane.going.append((line, future))
            lane.waiting.popleft()

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(raised.KafkaError):
                producer.close(timeout=1)
        for lane in self._lanes.values():
            lane.give_back()


def _producer(bootstrap: str) -> Any:
    return KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        batch_size=1 << 20,  # a go is one batch
        request_timeout_ms=4_000,
        delivery_timeout_ms=60_000,
        max_block_ms=10_000,
        retry_backoff_ms=50,
        reconnect_backoff_max_ms=500,
        metrics_enabled=False,
    )


def stream(random: Random, partitions: int) -> Iterator[Line]:
    """Lines without end: one of each live session in turn, as such write; where one is over, the
    next begins in its partition. The shapes are taken in turn."""
    numbers = count(random.randrange(10**6))

    def begin(partition: int) -> tuple[str, int, Iterator[bytes]]:
        number = next(numbers)
        session = simulate(number, events=EVENTS, shape=SHAPES[number % len(SHAPES)])
        return session.id, partition, iter(session.lines)

    live = deque(begin(n % partitions) for n in range(LIVE * partitions))
    while True:
        name, partition, lines = live.popleft()
        value = next(lines, None)
        if value is None:
            live.append(begin(partition))
            continue
        live.append((name, partition, lines))
        yield Line(name, partition, value)


def twice(random: Random, lines: Iterator[Line]) -> Iterator[Line]:
    """Every line once more, up to so many lines later, so that what is repeated is out of order,
    too; and one in ten a third time. The first of each stands in order."""
    due: list[tuple[float, int, Line]] = []
    for place, line in enumerate(lines):
        yield line
        for turn in range(2 if random.random() < 0.1 else 1):
            later = place + random.uniform(0.5, REDELIVERED_WITHIN)
            again = msgspec.structs.replace(line, again=True)
            heappush(due, (later, 2 * place + turn, again))
        while due and due[0][0] <= place:
            yield heappop(due)[2]
