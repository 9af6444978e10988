"""The worker's loop: poll, offer the batch, restore a slice, recover; the only place that catches
what failed.

After any failure the producer is abandoned, and every partition starts over from what is committed
(`partitions.Partitions`).
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
from .errors import Retriable, Stuck
from .observe import Observer
from .outside import Ends
from .ownership import Ownerless
from .partitions import Partitions
from .ports import Clock, Polled
from .retry import Budget, SystemClock
from .stalls import Stalls
from .state import States

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
        self._partitions = Partitions(
            ends, states, self._clock, self._observer, skip_expired=policy.skip_expired
        )
        self._failures = 0
        self._began = 0.0

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
        self._partitions.close()
        self._ends.source.close(leave=self._policy.at_end or self._policy.leave.is_set())
        self._ends.sink.close()
        self._ends.reader.close()
        self._states.close()

    def _turn(self, offer: Callable[[Polled], None]) -> bool:
        partitions, source = self._partitions, self._ends.source
        polled = source.poll(limits.POLL_TIMEOUT_S if partitions.settled else limits.POLL_BUSY_S)
        self._observer.polled(polled)
        partitions.rebalanced(polled)
        if polled.records:
            self._began = self._clock.monotonic()
            self._stalls.polled(full=sum(map(len, polled.records.values())) >= self._policy.batch)
            offer(polled)
            self._succeeded()
        partitions.advance()
        if self._stalls.look(source, partitions.held) and partitions.settled:
            self._succeeded()
        self._ownerless.look(source)
        return self._policy.at_end and partitions.all_is_folded()

    def _succeeded(self) -> None:
        """A batch is committed, or none is owed: whatever failed before is over."""
        self._budget.succeeded()
        self._failures = 0

    # --- batches and failures ---------------------------------------------------------------------

    def deliver(self, folded: Folded) -> None:
        """The graph's one subscriber: publish, commit, take over the states."""
        times: dict[int, float] = {}

        def step(n: int) -> None:
            times[n] = self._clock.monotonic()
            self._step(n)

        source = self._ends.source
        deliver(folded, self._ends.sink, self._states, current=source.current, step=step)
        self._partitions.folded(folded.nexts)
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
        self._partitions.await_all(error)
        self._stalls.failed()
        self._failures += 1
        if self._failures > 1 or isinstance(error, Stuck):
            self._ends.source.abandon()


def _phases(began: float, times: Mapping[int, float]) -> dict[str, float]:
    """Seconds by phase, from when each line of `commit.deliver` began."""
    ends = {"fold": times[1], "send": times[4], "flush": times[5], "commit": times[7]}
    phases = {}
    for name, end in ends.items():
        phases[name], began = end - began, end
    return phases
