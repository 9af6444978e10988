"""The way of log lines onto the events topic.

Unlike a worker's outputs they are sent outside of any transaction: by an idempotent producer with
``acks=all`` (streams.md §3).
"""

from __future__ import annotations

from typing import Protocol

from xxhash import xxh3_64_intdigest

from . import limits
from .memory import MemoryBroker
from .ports import OutRecord, too_large
from .topics import Names


class LineSink(Protocol):
    """Takes records of the roles ``events`` and ``deadletter``. Raises the pipeline's errors."""

    def partition(self, key: bytes) -> int:
        """The partition of the events topic where every producer puts this key."""
        ...

    def send(self, record: OutRecord) -> None:
        """Hand over one record, in order with those sent before to its partition."""
        ...

    def flush(self) -> None:
        """Return when everything sent is acknowledged; raise if something is not."""
        ...


class MemoryLineSink:
    """Into a `MemoryBroker` whose topics exist."""

    def __init__(self, broker: MemoryBroker, names: Names) -> None:
        self._broker = broker
        self._names = names

    def partition(self, key: bytes) -> int:
        return xxh3_64_intdigest(key) % self._broker.topics()[self._names.of("events")]

    def send(self, record: OutRecord) -> None:
        topic = self._names.of(record.role)
        size = len(record.key or b"") + len(record.value or b"")
        if size > limits.MAX_OUTPUT_RECORD_BYTES:
            raise too_large(record, size)
        partition = record.partition % self._broker.topics()[topic]
        self._broker.append(topic, partition, record.key, record.value, headers=record.headers)

    def flush(self) -> None:
        """Nothing is ever underway."""
