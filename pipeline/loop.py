"""The worker's loop: poll, offer the batch, recover; the only place that catches what failed.

What it holds per partition is the offset its states stand at. After any failure the producer is
abandoned, and the *committed* offsets say for each partition what its states must be: those of
before the batch, those after it, or something else, which is read back from the state topic.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from . import limits
from .commit import Folded, deliver
from .errors import Fatal, Fenced, Retriable
from .ports import Clock, InRecord, Polled, Reader, Sink, Source
from .retry import Budget, SystemClock
from .state import States
from .topics import FOLD_ANEW, Names

log = logging.getLogger(__name__)

VOID = -1  #: instead of an offset: the states held are no longer to be believed
PROGRESS_EVERY = 10_000  #: state records between two calls of the progress callback

Progress = Callable[[int, int, int], None]
"""Called while states are restored: partition, records read so far, offsets to read."""


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
    """The outside of one worker."""

    source: Source
    sink: Sink
    reader: Reader
    names: Names


class Worker:
    """One member of the group. ``offer`` hands a batch to the graph, whose subscriber is
    `deliver`; it returns when the batch is committed, or raises."""

    def __init__(
        self,
        ends: Ends,
        states: States,
        *,
        stop: threading.Event,
        stop_at_end: bool = False,
        clock: Clock | None = None,
        progress: Progress = lambda *_: None,
        budget_s: float = limits.RETRY_BUDGET_S,
    ) -> None:
        self._ends = ends
        self._states = states
        self._stop = stop
        self._stop_at_end = stop_at_end
        self._progress = progress
        self._budget = Budget(clock or SystemClock(), budget_s)
        self._held: dict[int, int | None] = {}
        self._awaiting: set[int] = set()
        self._pending: Folded | None = None
        self._others: dict[int, int | None] = {}

    def run(self, offer: Callable[[Polled], None]) -> None:
        """Until ``stop`` is set, or everything is read with ``stop_at_end``. `Fatal` (and
        `Poison`) end it; the ends are closed either way."""
        try:
            with seldom_collected():
                self._work(offer)
        finally:
            self._ends.source.close()
            self._ends.sink.close()
            self._ends.reader.close()

    def _work(self, offer: Callable[[Polled], None]) -> None:
        self._reopen()
        while not self._stop.is_set():
            try:
                if self._turn(offer):
                    break
            except Retriable as error:
                self._recover(error)

    def _reopen(self) -> None:
        """The producer first: opening it ends what an earlier one of this name left open, and only
        then do committed offsets and the state topic say the last word."""
        try:
            self._ends.sink.open()
        except Retriable as error:
            self._recover(error)

    def _turn(self, offer: Callable[[Polled], None]) -> bool:
        """One poll and what it brought; True when all is read and that was the wish."""
        polled = self._ends.source.poll(limits.POLL_TIMEOUT_S)
        self._let_go(polled.revoked)
        self._awaiting.update(polled.assigned)
        self._take_over()
        if polled.records:
            offer(polled)
            self._budget.succeeded()
        return self._stop_at_end and self._all_is_folded()

    def _all_is_folded(self) -> bool:
        """On the whole topic, by this worker and its group."""
        return not self._awaiting and self._ends.source.behind() == 0 and self._others_have_folded()

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
            and not any(self._any_record(topic, p, committed[p] or 0) for p in left)
        )

    def _any_record(self, topic: str, partition: int, start: int = 0) -> bool:
        return any(True for _ in self._ends.reader.read(topic, partition, start))

    # --- partitions come and go -------------------------------------------------------------------

    def _let_go(self, partitions: tuple[int, ...]) -> None:
        """No transaction is open here, as the graph is synchronous: dropping is all there is."""
        for partition in partitions:
            self._states.drop(partition)
            self._held.pop(partition, None)
            self._awaiting.discard(partition)

    def _take_over(self) -> None:
        """Restore what was assigned, then read on from the committed offset. First the offsets:
        that call waits for a predecessor's open transaction, so the state topic is complete."""
        if not self._awaiting:
            return
        committed = self._ends.source.committed(sorted(self._awaiting))
        for partition, offset in committed.items():
            self._restore(partition, offset)
            self._held[partition] = offset
            self._ends.source.start(partition, offset)
            self._awaiting.discard(partition)

    def _restore(self, partition: int, offset: int | None) -> None:
        """`Fatal` if there are no states for what is folded below ``offset``."""
        sessions = self._states.restore(partition, self._records(partition))
        overview, state = (self._ends.names.of(role) for role in ("overview", "state"))
        if offset and not sessions and self._any_record(overview, partition):
            raise Fatal(
                f"partition {partition} is folded up to offset {offset}, yet the states of its "
                f"sessions are gone from {state}",
                FOLD_ANEW,
            )
        log.info("partition %d: %d sessions restored", partition, sessions)

    def _records(self, partition: int) -> Iterator[InRecord]:
        topic, reader = self._ends.names.of("state"), self._ends.reader
        first, end = reader.bounds(topic, partition)
        self._progress(partition, 0, end - first)
        for done, record in enumerate(reader.read(topic, partition, first, end), 1):
            yield record
            if done % PROGRESS_EVERY == 0:
                self._progress(partition, record.offset - first, end - first)
        self._progress(partition, end - first, end - first)

    # --- batches and failures ---------------------------------------------------------------------

    def deliver(self, folded: Folded) -> None:
        """The graph's one subscriber: publish, commit, take over the states."""
        self._pending = folded
        deliver(folded, self._ends.sink, self._states)
        self._held.update(folded.nexts)
        self._pending = None
        for partition, offset in folded.resume.items():
            self._ends.source.start(partition, offset)

    def _recover(self, error: Retriable) -> None:
        """Until a new producer stands and every partition's states are those of its offset."""
        while True:
            log.warning("starting over from the committed offsets: %s", error)
            if isinstance(error, Fenced):
                self._held = dict.fromkeys(self._held, VOID)
            self._ends.sink.abandon()
            self._budget.spend(error)
            if self._stop.is_set():
                return
            try:
                self._ends.sink.open()
                self._settle()
            except Retriable as again:
                error = again
            else:
                return

    def _settle(self) -> None:
        """The committed offsets decide what became of the batch in flight (idempotent)."""
        pending = self._pending
        for partition, offset in self._ends.source.committed(sorted(self._held)).items():
            if self._held[partition] == VOID:
                self._restore(partition, offset)
            elif pending and offset is not None and pending.nexts.get(partition) == offset:
                result = pending.results[partition]
                self._states.merge(partition, result.states, result.segments)
            elif offset != self._held[partition]:
                self._restore(partition, offset)
            self._held[partition] = offset
            self._ends.source.start(partition, offset)
        self._pending = None
