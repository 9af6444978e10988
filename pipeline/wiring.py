"""The composition root: a worker's graph, readable top to bottom, and its ends put together.

    poll ─▶ Polled ─▶ read ─▶ advance ─▶ render ─▶ deliver ─▶ committed ─▶ taps

One item is one batch. Everything is synchronous: ``on_next`` returns when the batch is committed,
so the poll loop is the back-pressure and nothing is queued. There is one subscriber on this path;
taps hang on ``committed``, after the fact, and must not raise.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, field
from reactivex import Observable
from reactivex import operators as ops
from reactivex.disposable import SerialDisposable
from reactivex.subject import Subject

from operators.rx import Batch, map_parts

from . import limits
from .batch import Advanced, BatchResult, ReadRecord, Redact, advance, never, read, render
from .commit import Folded
from .errors import Fatal, PipelineError, StoreDamaged
from .loop import Policy, Worker
from .memory import MemoryBroker
from .memory_ends import MemoryReader, MemorySink, MemorySource, found_topics
from .observe import Observer
from .outside import Ends
from .patterns import matcher
from .ports import InRecord, Polled, StateStore
from .state import States
from .store import LocalStore, MemoryStore
from .topics import Names, require

Records: TypeAlias = Batch[Polled, Sequence[InRecord]]


def _no_step(_: int) -> None:
    """Nobody watches the commit procedure."""


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """One worker. ``broker``: ``HOST:PORT`` (several with commas), or a `MemoryBroker`.

    ``instance`` is stable across restarts of one worker and differs between workers.
    ``stop`` ends the run after the batch in hand; ``stop_at_end`` when everything is read. Its
    partitions are kept for its return for the session timeout, unless ``leave`` is set by then.
    ``skip_expired`` goes on behind records that expired unfolded. ``state_dir``: where the local
    store is kept, None: in memory. ``strict``: patterns of the sessions that park. ``redact``: what
    all that leaves passes. ``step`` is called before each line of `commit.deliver`."""

    broker: str | MemoryBroker
    instance: str
    prefix: str = "sessions."
    application: str = "foldstream"
    client_options: Mapping[str, Any] = {}
    batch_records: int = limits.BATCH_RECORDS
    linger_ms: int = limits.LINGER_MS
    max_row_bytes: int = limits.MAX_ROW_BYTES
    resident_bytes: int = limits.RESIDENT_BYTES
    stop: threading.Event = field(default_factory=threading.Event)
    leave: threading.Event = field(default_factory=threading.Event)
    stop_at_end: bool = False
    skip_expired: bool = False
    state_dir: Path | None = None
    strict: tuple[str, ...] = ()
    redact: Redact | None = None
    step: Callable[[int], None] = _no_step

    @property
    def names(self) -> Names:
        return Names(self.prefix, self.application)

    @property
    def transactional_id(self) -> str:
        return f"{self.application}-{self.instance}"


class Running(Struct, frozen=True):
    """A worker put together: ``run()`` blocks; ``committed`` tells each batch that landed;
    ``totals`` counts what `BatchResult.counts` does, plus ``batches`` and ``out.<role>``;
    ``states`` are for the worker's own thread to look at."""

    run: Callable[[], None]
    committed: Observable[Folded]
    totals: Counter[str]
    states: States


def build(settings: WorkerSettings, observer: Observer | None = None) -> Running:
    """Connect, check the topics, wire the graph. `Fatal` when something is missing."""
    ends = _ends(settings)
    states = States(_store(settings), settings.resident_bytes)
    policy = Policy(
        settings.stop,
        settings.leave,
        at_end=settings.stop_at_end,
        batch=settings.batch_records,
        skip_expired=settings.skip_expired,
    )
    worker = Worker(ends, states, policy, observer=observer, step=settings.step)
    return wire(worker, states, settings.max_row_bytes, matcher(settings.strict), settings.redact)


def wire(
    worker: Worker,
    states: States,
    max_row_bytes: int = limits.MAX_ROW_BYTES,
    strict: Callable[[str], bool] = never,
    redact: Redact | None = None,
) -> Running:
    """The graph around a worker."""
    polls: Subject[Polled] = Subject()
    committed: Subject[Folded] = Subject()
    totals: Counter[str] = Counter()

    def deliver(folded: Folded) -> None:
        worker.deliver(folded)
        committed.on_next(folded)

    connected = SerialDisposable()

    def connect() -> None:
        folded = graph(polls, states, max_row_bytes, strict, redact)
        connected.disposable = folded.subscribe(on_next=deliver, on_error=_broken)

    def offer(polled: Polled) -> None:
        try:
            polls.on_next(polled)
        except StoreDamaged:  # perhaps met inside of the graph, which an error ends
            connect()
            raise

    connect()
    committed.subscribe(lambda folded: _count(totals, folded))
    return Running(lambda: worker.run(offer), committed, totals, states)


def graph(
    polls: Observable[Polled],
    states: States,
    max_row_bytes: int,
    strict: Callable[[str], bool] = never,
    redact: Redact | None = None,
) -> Observable[Folded]:
    """From polled records to a batch that is ready to deliver; ``states`` is only read."""

    def fold(partition: int, lines: list[ReadRecord]) -> Advanced:
        return advance(lines, states.of(partition), limits.BATCH_WEIGHT, strict)

    def write(_: int, folded: Advanced) -> BatchResult:
        return render(folded, max_row_bytes, redact)

    return polls.pipe(
        ops.map(_batch),
        map_parts(_lines),
        map_parts(fold),
        map_parts(write),
        ops.map(_folded),
    )


def _lines(_: int, records: Sequence[InRecord]) -> list[ReadRecord]:
    return read(records)


def _batch(polled: Polled) -> Records:
    return Batch(polled, polled.records)


def _folded(batch: Batch[Polled, BatchResult]) -> Folded:
    records, nexts, resume = batch.cause.records, {}, {}
    for partition, polled in records.items():
        taken = batch.parts[partition].taken
        nexts[partition] = polled[taken - 1].offset + 1
        if taken < len(polled):
            resume[partition] = nexts[partition]
    return Folded(batch.parts, nexts, batch.cause.member, resume)


def _count(totals: Counter[str], folded: Folded) -> None:
    totals["batches"] += 1
    for result in folded.results.values():
        totals.update(result.counts)
        totals.update(f"out.{record.role}" for record in result.outputs)


def _broken(error: Exception) -> None:
    """An exception inside the graph is a bug: data errors are values there."""
    if isinstance(error, PipelineError):
        raise error
    raise Fatal(
        f"the fold failed: {type(error).__name__}: {error}",
        "nothing of this batch was published; report it with the log of the session",
    ) from error


# --- the ends -------------------------------------------------------------------------------------


def _store(settings: WorkerSettings) -> StateStore:
    """On disk, if there is a folder and a broker that outlives this process."""
    if settings.state_dir is None or isinstance(settings.broker, MemoryBroker):
        return MemoryStore()
    from .kafka.client import Cluster  # noqa: PLC0415 - as below
    from .kafka.origin import state_origin  # noqa: PLC0415

    cluster = Cluster(settings.broker, settings.client_options)
    origin = state_origin(cluster, settings.names)
    return LocalStore(settings.state_dir, origin)


def _ends(settings: WorkerSettings) -> Ends:
    names = settings.names
    if isinstance(settings.broker, MemoryBroker):
        broker = settings.broker
        require(names, found_topics(broker))
        return Ends(
            source=MemorySource(
                broker, names.application, names.of("events"), settings.batch_records
            ),
            sink=MemorySink(broker, names, settings.transactional_id),
            reader=MemoryReader(broker),
            names=names,
        )
    from .kafka.client import Cluster  # noqa: PLC0415 - 0.2 s that memory need not pay
    from .kafka.ends import Instance, kafka_ends  # noqa: PLC0415

    return kafka_ends(
        Cluster(settings.broker, settings.client_options),
        names,
        Instance(settings.instance, settings.transactional_id),
        settings.batch_records,
        settings.linger_ms,
    )
