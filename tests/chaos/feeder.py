"""Simulated sessions onto the events topic, line by line, at a steady rate, each confirmed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka import errors as raised
from msgspec import Struct

from pipeline.simulate import SimulatedSession

TICK_S = 0.05
MOST = 200  #: lines in one go, when it is behind its rate
RESERVE = 0.15  #: of the lines are kept back until the fault is over
CONFIRM_S = 15.0


class Line(Struct, frozen=True, gc=False):
    session: str
    partition: int
    value: bytes


class Feeder:
    """Sends ``lines`` in order, ``rate`` a second. What is not confirmed is sent again, from the
    first such line on, by a new producer: so a line may be there twice, none is missing.

    ``sent``: per partition the moment before sending and the offset of each confirmed line."""

    def __init__(self, bootstrap: str, topic: str, lines: Sequence[Line], rate: float) -> None:
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self.lines = lines
        self.rate = rate
        self.sent: dict[int, list[tuple[float, int]]] = {}
        self.confirmed = 0
        self.repeats = 0  #: times that a go was sent again
        self.error: BaseException | None = None
        self._bootstrap = bootstrap
        self._topic = topic
        self._ended = threading.Event()
        self._released = threading.Event()
        self._producer: Any = None

    @property
    def ends(self) -> dict[int, int]:
        """Per partition the offset after its last confirmed line."""
        return {partition: sent[-1][1] + 1 for partition, sent in self.sent.items()}

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._feed()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self.error = error
        finally:
            self._drop()

    def finish(self, seconds: float) -> None:
        """Wait until all is confirmed."""
        self._thread.join(seconds)
        if self.error is not None:
            raise self.error
        if self._thread.is_alive():
            raise TimeoutError(
                f"{len(self.lines) - self.confirmed} of {len(self.lines)} lines are not on the "
                f"topic after {seconds:.0f} s"
            )

    def release(self) -> None:
        """The fault is over: the rest may be sent, too."""
        self._released.set()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(2 * CONFIRM_S)

    def _feed(self) -> None:
        began, kept_back = time.monotonic(), int(len(self.lines) * (1 - RESERVE))
        while self.confirmed < len(self.lines) and not self._ended.wait(TICK_S):
            most = len(self.lines) if self._released.is_set() else kept_back
            due = min(int((time.monotonic() - began) * self.rate), most)
            go = self.lines[self.confirmed : min(due, self.confirmed + MOST)]
            if go and self._send(go):
                self.confirmed += len(go)

    def _send(self, go: Sequence[Line]) -> bool:
        """Until it is confirmed; False when nobody wants it any more."""
        while not self._ended.is_set():
            try:
                self._try(go)
            except raised.KafkaError:
                self._drop()
                self.repeats += 1
                time.sleep(TICK_S)
            else:
                return True
        return False

    def _try(self, go: Sequence[Line]) -> None:
        if self._producer is None:
            self._producer = _producer(self._bootstrap)
        now = time.monotonic()
        futures = [
            self._producer.send(
                self._topic, line.value, key=line.session.encode(), partition=line.partition
            )
            for line in go
        ]
        self._producer.flush(timeout=CONFIRM_S)
        offsets = [future.get(timeout=0).offset for future in futures]
        for line, offset in zip(go, offsets, strict=True):
            self.sent.setdefault(line.partition, []).append((now, offset))

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(raised.KafkaError):
                producer.close(timeout=1)


def _producer(bootstrap: str) -> Any:
    return KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        enable_idempotence=True,
        acks="all",
        linger_ms=2,
        request_timeout_ms=4_000,
        delivery_timeout_ms=10_000,
        max_block_ms=10_000,
        retry_backoff_ms=50,
        reconnect_backoff_max_ms=500,
        metrics_enabled=False,
    )


def lines_of(sessions: Iterable[SimulatedSession], partitions: int) -> list[Line]:
    """One line of each session in turn, as live sessions write; session by session dealt out to
    the partitions, so that each of them is always written to."""
    queues = [
        [Line(session.id, number % partitions, value) for value in session.lines]
        for number, session in enumerate(sessions)
    ]
    found = []
    for turn in range(max(map(len, queues), default=0)):
        found += [queue[turn] for queue in queues if turn < len(queue)]
    return found
