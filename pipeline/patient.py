"""A reader that waits for a broker (`ports.Reader`): a command that reads topics for minutes, as
``verify`` does, need not begin anew because one was restarted meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from . import limits
from .errors import Retriable
from .ports import Clock, Cursor, InRecord, Reader
from .retry import SystemClock

log = logging.getLogger(__name__)

T = TypeVar("T")


class PatientReader:
    """``patience_s``: since the last answer; the error that comes after that is raised."""

    def __init__(
        self,
        reader: Reader,
        clock: Clock | None = None,
        patience_s: float = limits.READ_PATIENCE_S,
    ) -> None:
        self._reader = reader
        self._clock = clock or SystemClock()
        self._patience_s = patience_s

    def partitions(self, topic: str) -> int:
        return self._answered(partial(self._reader.partitions, topic))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._answered(partial(self._reader.bounds, topic, partition))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return self._answered(partial(self._reader.committed, group, topic))

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        """Goes on behind the last record that came, each once."""
        stop = self.bounds(topic, partition)[1] if end is None else end
        waiting = _Waiting(self._clock, self._patience_s)
        while True:
            try:
                for record in self._reader.read(topic, partition, start, stop):
                    start = record.offset + 1
                    waiting.answered()
                    yield record
            except Retriable as error:
                waiting.more(error)
            else:
                return

    def cursor(self, topic: str, partition: int, start: int, end: int) -> Cursor:
        """As it is: who reads in slices has other things to do meanwhile."""
        return self._reader.cursor(topic, partition, start, end)

    def close(self) -> None:
        self._reader.close()

    def _answered(self, ask: Callable[[], T]) -> T:
        waiting = _Waiting(self._clock, self._patience_s)
        while True:
            try:
                return ask()
            except Retriable as error:
                waiting.more(error)


class _Waiting:
    """How long it has been since the last answer, and a pause that grows."""

    def __init__(self, clock: Clock, patience_s: float) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self.answered()

    def answered(self) -> None:
        self._since = self._clock.monotonic()
        self._pause = limits.RETRY_FIRST_S

    def more(self, error: Retriable) -> None:
        """Raises the error once the patience is gone."""
        if self._clock.monotonic() - self._since >= self._patience_s:
            raise error
        log.warning("%s; trying again", error.message)
        self._clock.sleep(self._pause)
        self._pause = min(2 * self._pause, limits.RETRY_LAST_S)
