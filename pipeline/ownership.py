"""Partitions that nobody owns, although the group is at rest: noticed, told, dealt out anew.

A partition on its way from one member to another is in nobody's hands until the former has given it
up and joined again. A static member that dies in between and comes back in time is given its old
place without a new deal, and then nobody is ever given that partition: all workers are well, and
its lag grows.
"""

from __future__ import annotations

import logging

from . import limits
from .errors import Retriable
from .logs import at
from .ports import Clock, Source

log = logging.getLogger(__name__)


class Ownerless:
    """Looks every `limits.OWNERLESS_EVERY_S`, and acts on what it sees twice in a row."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next = clock.monotonic() + limits.OWNERLESS_EVERY_S
        self._seen: frozenset[int] = frozenset()

    def look(self, source: Source) -> None:
        """Leaves the group and joins it anew, where that is the way to have all dealt out."""
        now = self._clock.monotonic()
        if now < self._next:
            return
        self._next = now + limits.OWNERLESS_EVERY_S
        try:
            found = source.ownerless()
        except Retriable as error:
            log.debug("who owns which partition cannot be told: %s", error)
            return
        again, self._seen = found & self._seen, found
        if not again:
            return
        for partition in sorted(again):
            log.warning(
                "no worker holds the partition: leaving the group and joining it anew, so that all "
                "are dealt out again",
                extra=at(partition=partition),
            )
        self._seen = frozenset()
        source.abandon(leave=True)
