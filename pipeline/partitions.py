"""The partitions of one worker, each in one of three phases.

*Awaited* until its committed offset is decided, then *restored* from the state topic, in slices so
that others go on being folded, then *held*. After any failure all are awaited again: what a commit
in doubt did is found where it would stand, in the committed offsets and on the state topic
(streams.md §2).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from . import limits
from .errors import Fatal, Retriable, StoreDamaged
from .logs import at
from .observe import Observer
from .outside import Ends
from .ports import Clock, Polled
from .restore import Restore, Start, any_record, begin, check_committed, require_states
from .state import States
from .topics import FOLD_ANEW

log = logging.getLogger(__name__)


class Partitions:
    """``skip_expired`` as in `loop.Policy`."""

    def __init__(
        self,
        ends: Ends,
        states: States,
        clock: Clock,
        observer: Observer,
        *,
        skip_expired: bool = False,
    ) -> None:
        self._ends = ends
        self._states = states
        self._clock = clock
        self._observer = observer
        self._skip_expired = skip_expired
        self._awaited: dict[int, float] = {}
        self._restored: dict[int, Restore] = {}
        self.held: dict[int, int | None] = {}  #: up to which offset each is folded
        self._others: dict[int, int | None] = {}
        self._damaged: set[int] = set()
        self._decide_at = 0.0

    @property
    def settled(self) -> bool:
        """All that were given to us are held."""
        return not self._awaited and not self._restored

    def close(self) -> None:
        for restore in self._restored.values():
            restore.close()

    # --- they come and go -------------------------------------------------------------------------

    def rebalanced(self, polled: Polled) -> None:
        """No transaction is open here, as the graph is synchronous: dropping is all there is."""
        if not polled.revoked and not polled.assigned:
            return
        for partition in polled.revoked:
            self._set_aside(partition)
            self._states.drop(partition)
        self._awaited.update(dict.fromkeys(polled.assigned, self._clock.monotonic()))
        self._observer.rebalanced(polled.revoked, polled.assigned)

    def await_all(self, error: Retriable) -> None:
        """Nothing is read of any before its committed offset is known anew."""
        ours = (*self.held, *self._restored, *self._awaited)
        self._ends.source.pause(ours)
        now = self._clock.monotonic()
        for partition in ours:
            self._set_aside(partition)
            self._awaited[partition] = now
        if isinstance(error, StoreDamaged):
            self._wipe(error)

    def _set_aside(self, partition: int) -> None:
        """In none of the three phases."""
        self.held.pop(partition, None)
        self._awaited.pop(partition, None)
        restore = self._restored.pop(partition, None)
        if restore is not None:
            restore.close()

    def _wipe(self, error: StoreDamaged) -> None:
        if error.partition in self._damaged:  # it was just read from the topic: that is no better
            raise Fatal(error.message, FOLD_ANEW) from error
        self._damaged.add(error.partition)
        self._states.wipe(error.partition)

    # --- from one phase to the next ---------------------------------------------------------------

    def advance(self) -> None:
        """One look for committed offsets, one slice of restoring."""
        self._decide()
        self._restore()

    def folded(self, nexts: Mapping[int, int]) -> None:
        """A batch is committed."""
        self.held.update(nexts)
        self._damaged.difference_update(nexts)

    def _decide(self) -> None:
        """The committed offsets of what is awaited. That they are decided means that a
        predecessor's transaction is over, and so that the state topic is complete."""
        began = self._clock.monotonic()
        if not self._awaited or began < self._decide_at:
            return
        try:
            committed = self._ends.source.committed(sorted(self._awaited), limits.DECIDE_S)
            for partition, offset in committed.items():
                self._begin(partition, offset)
        except Retriable:
            now = self._clock.monotonic()
            if now - min(self._awaited.values()) > limits.COMMITTED_TIMEOUT_S:
                raise
            self._decide_at = 2 * now - began  # as long for the others as it took

    def _begin(self, partition: int, committed: int | None) -> None:
        """Its restoring, if its offset can be folded on from."""
        offset = check_committed(self._ends, partition, committed, skip_expired=self._skip_expired)
        topic, now = self._ends.names.of("state"), self._clock.monotonic()
        self._restored[partition] = begin(
            self._ends.reader, topic, self._states, Start(partition, offset, now)
        )
        del self._awaited[partition]

    def _restore(self) -> None:
        """A slice: one partition after the other, so that the first is folded soonest."""
        until = self._clock.monotonic() + limits.RESTORE_SLICE_S
        while self._restored:
            partition, restore = next(iter(self._restored.items()))
            if not restore.advance(self._states, until - self._clock.monotonic()):
                self._observer.restoring(partition, restore.done, restore.total)
            else:
                self._hold(partition, restore)
            if self._clock.monotonic() >= until:
                return

    def _hold(self, partition: int, restore: Restore) -> None:
        """It is restored: fold on from its committed offset."""
        committed = require_states(
            self._ends,
            self._states,
            partition,
            restore.start.committed,
            skip_expired=self._skip_expired,
        )
        sessions = self._states.sessions(partition)
        seconds = self._clock.monotonic() - restore.start.now
        log.info(
            "%d sessions, %d state records read in %.1f s",
            *(sessions, restore.records, seconds),
            extra=at(topic=self._ends.names.of("events"), partition=partition, offset=committed),
        )
        self._observer.restored(partition, sessions, restore.records, restore.size, seconds)
        del self._restored[partition]
        restore.close()
        self.held[partition] = committed
        self._ends.source.start(partition, committed)

    # --- the end ----------------------------------------------------------------------------------

    def all_is_folded(self) -> bool:
        """On the whole topic, by this worker and its group."""
        if not self.settled:
            return False
        lag = self._ends.source.lag()
        return lag is not None and not any(lag.values()) and self._others_have_folded()

    def _others_have_folded(self) -> bool:
        """What is not ours is read up to its committed offset: another worker's, or not dealt out
        yet. Beyond it may stand transaction markers, which no record tells from lines left: looked
        into only once the offsets have come to rest."""
        topic, reader = self._ends.names.of("events"), self._ends.reader
        others = sorted(set(range(reader.partitions(topic))) - self.held.keys())
        try:
            committed = self._ends.source.committed(others)
        except Retriable:  # a transaction of theirs is open
            return False
        before, self._others = self._others, committed
        left = [p for p in others if reader.bounds(topic, p)[1] > (committed[p] or 0)]
        return not left or (
            committed == before
            and not any(any_record(reader, topic, p, committed[p] or 0) for p in left)
        )
