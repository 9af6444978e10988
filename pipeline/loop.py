"""The worker's loop: poll, offer the batch, restore a slice, recover; the only place that catches
what failed.

A partition goes through three phases. It is *awaited* until its committed offset is decided, then
*restored* from the state topic, in slices so that others go on being folded, then *held*. After any
failure the producer is abandoned and every partition is awaited again: what a commit in doubt did
is found where it would stand, in the committed offsets and on the state topic (streams.md §2).
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct, field

from . import limits
from .commit import Folded, deliver
from .errors import Fatal, Retriable, StoreDamaged, Stuck
from .logs import at
from .observe import Observer
from .ownership import Ownerless
from .ports import Clock, Polled, Reader, Sink, Source
from .restore import Restore, Start, any_record, begin, check_committed, require_states
from .retry import Budget, SystemClock
from .stalls import Stalls
from .state import States
from .topics import FOLD_ANEW, Names

log = logging.getLogger(__name__)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """The cycle collector looks seldom while a worker runs, in the whole process.

    A batch makes a hundred thousand objects and frees nearly all by reference count; looked through
    every 700 of them, as is Python's default, they cost a fifth of the worker's time."""
    before = gc.get_threshold()
    if before[0] >= limits.COLLECT_EVERY[0]:  # another worker of this process has seen to it
        yield
        return
    gc.set_threshold(*limits.COLLECT_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Ends(Struct, frozen=True):
    """The outside of one worker. ``events_id``: of the very events topic (`identity.Identity`), ""
    if it has none."""

    source: Source
    sink: Sink
    reader: Reader
    names: Names
    events_id: str = ""


class Policy(Struct, frozen=True):
    """When to stop. ``stop``: asked from outside, after the batch in hand; with ``leave`` for good:
    the place in the group is not kept. ``at_end``: when everything is read; ``budget_s``: that long
    without a success. ``skip_expired`` goes on although records expired before they were folded.
    ``batch``: most records of a poll."""

    stop: threading.Event
    leave: threading.Event = field(default_factory=threading.Event)
    at_end: bool = False
    batch: int = limits.BATCH_RECORDS
    budget_s: float = limits.RETRY_BUDGET_S
    skip_expired: bool = False


class Worker:
    """One member of the group. ``offer`` hands a batch to the graph, whose subscriber is
    `deliver`; it returns when the batch is committed, or raises.

    `run` is `open`, `turn` until that says True or ``stop`` is set, and `close`."""

    def __init__(
        self,
        ends: Ends,
        states: States,
        policy: Policy,
        *,
        clock: Clock | None = None,
        observer: Observer | None = None,
        step: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._ends = ends
        self._states = states
        self._policy = policy
        self._clock = clock or SystemClock()
        self._observer = observer or Observer()
        self._step = step
        self._budget = Budget(self._clock, policy.budget_s)
        self._stalls = Stalls(self._clock, self._observer)
        self._ownerless = Ownerless(self._clock)
        self._awaited: dict[int, float] = {}
        self._restored: dict[int, Restore] = {}
        self._held: dict[int, int | None] = {}
        self._others: dict[int, int | None] = {}
        self._damaged: set[int] = set()
        self._failures = 0
        self._began = self._decide_at = 0.0

    def run(self, offer: Callable[[Polled], None]) -> None:
        """Until ``stop`` is set, or everything is read with ``at_end``. `Fatal` (and `Poison`) end
        it; the ends are closed either way."""
        try:
            with seldom_collected():
                self.open()
                while not self._policy.stop.is_set() and not self.turn(offer):
                    pass
        finally:
            self.close()

    def open(self) -> None:
        """The producer first: opening it ends what an earlier one of this name left open, and only
        then do committed offsets and the state topic say the last word."""
        try:
            self._ends.sink.open()
        except Retriable as error:
            self._recover(error)

    def turn(self, offer: Callable[[Polled], None]) -> bool:
        """One poll, the batch it brought, a slice of restoring; or a failure and the way back from
        it. True when all is read and that was the wish."""
        try:
            ended = self._turn(offer)
        except Retriable as error:
            self._recover(error)
            ended = False
        self._observer.turned()
        return ended

    def close(self) -> None:
        for restore in self._restored.values():
            restore.close()
        self._ends.source.close(leave=self._policy.at_end or self._policy.leave.is_set())
        self._ends.sink.close()
        self._ends.reader.close()
        self._states.close()

    def _turn(self, offer: Callable[[Polled], None]) -> bool:
        busy = self._awaited or self._restored
        polled = self._ends.source.poll(limits.POLL_BUSY_S if busy else limits.POLL_TIMEOUT_S)
        self._observer.polled(polled)
        self._rebalanced(polled)
        if polled.records:
            self._began = self._clock.monotonic()
            self._stalls.polled(full=sum(map(len, polled.records.values())) >= self._policy.batch)
            offer(polled)
            self._succeeded()
        self._decide()
        self._restore()
        idle = self._stalls.look(self._ends.source, self._held)
        if idle and not (self._awaited or self._restored):
            self._succeeded()
        self._ownerless.look(self._ends.source)
        return self._policy.at_end and self._all_is_folded()

    def _succeeded(self) -> None:
        """A batch is committed, or none is owed: whatever failed before is over."""
        self._budget.succeeded()
        self._failures = 0

    # --- the end ----------------------------------------------------------------------------------

    def _all_is_folded(self) -> bool:
        """On the whole topic, by this worker and its group."""
        if self._awaited or self._restored:
            return False
        lag = self._ends.source.lag()
        return lag is not None and not any(lag.values()) and self._others_have_folded()

    def _others_have_folded(self) -> bool:
        """What is not ours is read up to its committed offset: another worker's, or not dealt out
        yet. Beyond it may stand transaction markers, which no record tells from lines left: looked
        into only once the offsets have come to rest."""
        topic, reader = self._ends.names.of("events"), self._ends.reader
        others = sorted(set(range(reader.partitions(topic))) - self._held.keys())
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

    # --- partitions come and go -------------------------------------------------------------------

    def _rebalanced(self, polled: Polled) -> None:
        """No transaction is open here, as the graph is synchronous: dropping is all there is."""
        if not polled.revoked and not polled.assigned:
            return
        for partition in polled.revoked:
            self._set_aside(partition)
            self._states.drop(partition)
        self._awaited.update(dict.fromkeys(polled.assigned, self._clock.monotonic()))
        self._observer.rebalanced(polled.revoked, polled.assigned)

    def _set_aside(self, partition: int) -> None:
        """In none of the three phases."""
        self._held.pop(partition, None)
        self._awaited.pop(partition, None)
        restore = self._restored.pop(partition, None)
        if restore is not None:
            restore.close()

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
        offset = check_committed(
            self._ends, partition, committed, skip_expired=self._policy.skip_expired
        )
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
        """The partition is restored: fold on from its committed offset."""
        committed = require_states(
            self._ends,
            self._states,
            partition,
            restore.start.committed,
            skip_expired=self._policy.skip_expired,
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
        self._held[partition] = committed
        self._ends.source.start(partition, committed)

    # --- batches and failures ---------------------------------------------------------------------

    def deliver(self, folded: Folded) -> None:
        """The graph's one subscriber: publish, commit, take over the states."""
        times: dict[int, float] = {}

        def step(n: int) -> None:
            times[n] = self._clock.monotonic()
            self._step(n)

        source = self._ends.source
        deliver(folded, self._ends.sink, self._states, current=source.current, step=step)
        self._held.update(folded.nexts)
        self._damaged.difference_update(folded.nexts)
        for partition, offset in folded.resume.items():
            source.start(partition, offset)
        self._observer.batch(folded, _phases(self._began, times))

    def _recover(self, error: Retriable) -> None:
        """Until a new producer stands; every partition is awaited again, and nothing is read of it
        before that."""
        began = self._clock.monotonic()
        while True:
            log.warning("starting over from the committed offsets: %s", error)
            self._observer.failed(error)
            self._ends.sink.abandon()
            self._await_all(error)
            self._budget.spend(error)
            if self._policy.stop.is_set():
                return
            try:
                self._ends.sink.open()
            except Retriable as again:
                error = again
            else:
                self._observer.rebuilt(self._clock.monotonic() - began)
                return

    def _await_all(self, error: Retriable) -> None:
        """A second failure in a row makes the consumer suspect as well."""
        ours = (*self._held, *self._restored, *self._awaited)
        self._ends.source.pause(ours)
        now = self._clock.monotonic()
        for partition in ours:
            self._set_aside(partition)
            self._awaited[partition] = now
        if isinstance(error, StoreDamaged):
            self._wipe(error)
        self._stalls.failed()
        self._failures += 1
        if self._failures > 1 or isinstance(error, Stuck):
            self._ends.source.abandon()

    def _wipe(self, error: StoreDamaged) -> None:
        if error.partition in self._damaged:  # it was just read from the topic: that is no better
            raise Fatal(error.message, FOLD_ANEW) from error
        self._damaged.add(error.partition)
        self._states.wipe(error.partition)


def _phases(began: float, times: Mapping[int, float]) -> dict[str, float]:
    """Seconds by phase, from when each line of `commit.deliver` began."""
    ends = {"fold": times[1], "send": times[4], "flush": times[5], "commit": times[7]}
    phases = {}
    for name, end in ends.items():
        phases[name], began = end - began, end
    return phases
