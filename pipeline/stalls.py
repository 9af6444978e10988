"""Partitions that have records and yet bring none: noticed, told, started anew.

A consumer may stop fetching one of its partitions without a word, while all others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec import Struct

from . import limits
from .errors import Retriable
from .observe import Observer
from .ports import Clock, Source

log = logging.getLogger(__name__)


class _Still(Struct):
    """Where a partition stood when it was first seen there with a lag."""

    offset: int | None
    since: float
    told: bool = False


class Stalls:
    """Looks every `limits.LAG_EVERY_S`."""

    def __init__(self, clock: Clock, observer: Observer) -> None:
        self._clock = clock
        self._observer = observer
        self._next = 0.0
        self._still: dict[int, _Still] = {}
        self._calm = False

    def look(self, source: Source, held: Mapping[int, int | None]) -> bool:
        """``held``: what is folded of each partition. A stalled one is started anew there, and if
        that does not help, `Retriable` is raised: the consumer is broken.

        True if the broker says for the second time since the last `failed` that nothing waits to
        be folded."""
        now = self._clock.monotonic()
        if now < self._next:
            return False
        self._next = now + limits.LAG_EVERY_S
        lag = source.lag()
        if lag is None:
            return False
        self._observer.lag(lag)
        for partition in [p for p in self._still if not lag.get(p) or p not in held]:
            del self._still[partition]
        for partition, behind in lag.items():
            if behind and partition in held:
                self._watch(source, partition, held[partition], behind)
        calm, self._calm = self._calm, not any(lag.values())
        return calm and self._calm

    def failed(self) -> None:
        """Whatever was seen before does not say that all is well."""
        self._calm = False

    def _watch(self, source: Source, partition: int, offset: int | None, behind: int) -> None:
        now = self._clock.monotonic()
        still = self._still.get(partition)
        if still is None or still.offset != offset:
            self._still[partition] = _Still(offset, now)
            return
        seconds = now - still.since
        if seconds < limits.STALLED_S:
            return
        at = offset or 0
        self._observer.stalled(partition, at, at + behind, seconds)
        if still.told:
            del self._still[partition]
            raise Retriable(f"partition {partition} brings nothing from offset {at} on")
        log.warning(
            "partition %d has brought nothing from offset %d on for %.0f s, although %d follow: "
            "it is started anew",
            *(partition, at, seconds, behind),
        )
        self._still[partition] = _Still(offset, now, told=True)
        source.start(partition, offset)
