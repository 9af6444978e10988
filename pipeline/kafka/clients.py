"""What this package asks of the client library and of time, behind one door.

`KafkaPython` is kafka-python with the machine's clock and a watchdog's threads. A simulated client
on virtual time can stand in its place: then all that `source`, `sink`, `reader` and `orphans` do is
run against faults that a real broker shows once in a year.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient

from pipeline.errors import Retriable

T = TypeVar("T")


class Clients(Protocol):
    """``settings`` are kafka-python's own; what is made has the shape of its clients and raises its
    errors."""

    def producer(self, **settings: Any) -> Any: ...
    def consumer(self, **settings: Any) -> Any: ...
    def admin(self, **settings: Any) -> Any: ...

    def bounded(self, what: str, seconds: float, call: Callable[[], T]) -> T:
        """``call()``, waited for at most ``seconds``; then `Retriable`; raises what it raises."""
        ...

    def started(self, what: str, seconds: float, call: Callable[[], T]) -> Callable[[], T]:
        """`bounded` in two steps: the call begins now; what is given back waits for it."""
        ...

    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class KafkaPython:
    """The real one."""

    def producer(self, **settings: Any) -> Any:
        return KafkaProducer(**settings)

    def consumer(self, **settings: Any) -> Any:
        return KafkaConsumer(**settings)

    def admin(self, **settings: Any) -> Any:
        return KafkaAdminClient(**settings)

    def bounded(self, what: str, seconds: float, call: Callable[[], T]) -> T:
        return self.started(what, seconds, call)()

    def started(self, what: str, seconds: float, call: Callable[[], T]) -> Callable[[], T]:
        """In a thread of its own: kafka-python may never return from a transactional call. The
        thread left behind is a daemon and ends with whatever its producer is abandoned to."""
        until = time.monotonic() + seconds
        outcome: list[T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                outcome.append(call())
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
                failure.append(error)

        def wait() -> T:
            thread.join(max(0.0, until - time.monotonic()))
            if failure:
                raise failure[0]
            if not outcome:
                raise Retriable(f"{what} did not return within {seconds:g} s")
            return outcome[0]

        thread = threading.Thread(target=run, name=f"foldstream-{what}", daemon=True)
        thread.start()
        return wait

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
