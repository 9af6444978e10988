"""Partitions that have records and yet bring none: noticed, told, started anew.

A consumer may stop fetching one of its partitions without a word, while all others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec import Struct

from . import limits
from .errors import Stuck
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
        self._busy: float | None = None
        self._restless: float | None = None

    def look(self, source: Source, held: Mapping[int, int | None]) -> bool:
        """``held``: what is folded of each partition. A stalled one is started anew there, and if
        that does not help, `Stuck` is raised: the consumer is broken.

        True if the broker says for the second time since the last `failed` that nothing waits to
        be folded."""
        now = self._clock.monotonic()
        if now < self._next:
            return False
        self._next = now + limits.LAG_EVERY_S
        lag = source.lag()
        if lag is None:
            self._require_rest(now)
            return False
        self._restless = None
        self._observer.lag(lag)
        for partition in [p for p in self._still if not lag.get(p) or p not in held]:
            del self._still[partition]
        for partition, behind in lag.items():
            if behind and partition in held:
                self._watch(source, partition, held[partition], behind)
        calm, self._calm = self._calm, not any(lag.values())
        return calm and self._calm

    def polled(self, *, full: bool) -> None:
        """``full``: a poll brought as many records as it may."""
        if full:
            self._busy = self._clock.monotonic()

    def _require_rest(self, now: float) -> None:
        """`Stuck` if the group has been dealing out partitions, or the brokers have not told
        their offsets, for too long."""
        if self._restless is None:
            self._restless = now
        elif now - self._restless > limits.RESTLESS_S:
            self._restless = None
            raise Stuck(f"the group has not come to rest for {limits.RESTLESS_S:.0f} s")

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
        busy = self._busy is not None and self._busy >= still.since
        if seconds < (limits.STALLED_BUSY_S if busy else limits.STALLED_S):
            return
        at = offset or 0
        self._observer.stalled(partition, at, at + behind, seconds)
        if still.told:
            del self._still[partition]
            raise Stuck(f"partition {partition} brings nothing from offset {at} on")
        log.warning(
            "partition %d has brought nothing from offset %d on for %.0f s, although %d follow: "
            "it is started anew",
            *(partition, at, seconds, behind),
        )
        self._still[partition] = _Still(offset, now, told=True)
        source.start(partition, offset)
