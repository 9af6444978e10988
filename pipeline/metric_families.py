"""The metrics of a worker, in groups: names, meanings, how they change (`metrics.py` says when).

Names follow Prometheus' conventions; what each means is its help text, and a row of the runbook.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .bulk_histogram import BulkHistogram
from .commit import Folded

#: Seconds. The bounds that are promised (60 ms, 250 ms) stand among them.
LATENCY = (0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BATCH = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
REBUILD = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)
RESTORE = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)

_ROLE = attrgetter("role")
_REFUSED = "refused."


class Folding:
    """Batches, and what went wrong with them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._records = Counter(
            "foldstream_records",
            "Input records folded and committed.",
            ["partition"],
            registry=registry,
        )
        self._skipped = Counter(
            "foldstream_skipped_records",
            "Input records that changed nothing: redelivered, or of a generation that has passed.",
            ["why"],
            registry=registry,
        )
        self._outputs = Counter(
            "foldstream_output_records",
            "Records published and committed, by the role of their topic.",
            ["role"],
            registry=registry,
        )
        self._letters = Counter(
            "foldstream_dead_letters",
            "Input records refused, by the reason code of their dead letter.",
            ["reason"],
            registry=registry,
        )
        self._batch = Histogram(
            "foldstream_batch_seconds",
            "From the poll to the end of the commit, of one batch.",
            buckets=BATCH,
            registry=registry,
        )
        self._phase = Histogram(
            "foldstream_batch_phase_seconds",
            "The parts of it: fold, send, flush, commit.",
            ["phase"],
            buckets=BATCH,
            registry=registry,
        )
        self._committed = Gauge(
            "foldstream_last_commit_timestamp_seconds",
            "When the last batch was committed; 0 before the first.",
            registry=registry,
        )
        self.failures = Counter(
            "foldstream_failures",
            "Batches or calls that failed; the transaction is aborted, the producer rebuilt.",
            ["kind"],
            registry=registry,
        )
        self.rebuild = Histogram(
            "foldstream_producer_rebuild_seconds",
            "From a failure until a new producer stood.",
            buckets=REBUILD,
            registry=registry,
        )
        self.latency = BulkHistogram(
            "foldstream_event_to_commit_seconds",
            "From a record's timestamp to its commit.",
            LATENCY,
        )
        registry.register(self.latency)

    def batch(self, folded: Folded, seconds: Mapping[str, float], now: float) -> None:
        counts: Tally[str] = Tally()
        roles: Tally[str] = Tally()
        for partition, result in folded.results.items():
            self._records.labels(str(partition)).inc(result.taken)
            counts.update(result.counts)
            roles.update(map(_ROLE, result.outputs))
        for role, count in roles.items():
            self._outputs.labels(role).inc(count)
        for name, count in counts.items():
            if name.startswith(_REFUSED):
                self._letters.labels(name.removeprefix(_REFUSED)).inc(count)
            elif name in ("redelivered", "stale"):
                self._skipped.labels(name).inc(count)
        for phase, took in seconds.items():
            self._phase.labels(phase).observe(took)
        self._batch.observe(sum(seconds.values()))
        self._committed.set(now)


class Group:
    """Partitions that come and go, how far behind they are, and those that stand still."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rebalances = Counter(
            "foldstream_rebalances", "Rebalances that moved a partition.", registry=registry
        )
        self._moved = Counter(
            "foldstream_partitions_moved",
            "Partitions that came to this worker (assigned) or left it (revoked).",
            ["how"],
            registry=registry,
        )
        self._mine = Gauge(
            "foldstream_partitions", "Partitions that this worker has.", registry=registry
        )
        self._lag = Gauge(
            "foldstream_input_lag_offsets",
            "Offsets from the worker's position to the readable end of the partition.",
            ["partition"],
            registry=registry,
        )
        self._stalls = Counter(
            "foldstream_stalls",
            "Times a partition was found to bring nothing although there is something.",
            ["partition"],
            registry=registry,
        )
        self._stalled = Gauge(
            "foldstream_stalled_partitions", "Partitions that stand still now.", registry=registry
        )
        self._stuck: set[int] = set()
        self._assigned: set[int] = set()
        self._shown: set[int] = set()

    def rebalanced(self, revoked: tuple[int, ...], assigned: tuple[int, ...]) -> None:
        self._rebalances.inc()
        self._moved.labels("revoked").inc(len(revoked))
        self._moved.labels("assigned").inc(len(assigned))
        self._assigned = (self._assigned - set(revoked)) | set(assigned)
        self._mine.set(len(self._assigned))
        self._hide(set(revoked))
        self.moves(revoked)

    def behind(self, lag: Mapping[int, int]) -> None:
        self._hide(self._shown - lag.keys())
        self._shown |= lag.keys()
        for partition, offsets in lag.items():
            self._lag.labels(str(partition)).set(offsets)

    def stands(self, partition: int) -> None:
        if partition not in self._stuck:
            self._stuck.add(partition)
            self._stalls.labels(str(partition)).inc()
            self._stalled.set(len(self._stuck))

    def moves(self, partitions: Iterable[int]) -> None:
        if self._stuck:
            self._stuck.difference_update(partitions)
            self._stalled.set(len(self._stuck))

    def start_over(self) -> None:
        """Every partition is to be restored and started again."""
        self.moves(tuple(self._stuck))

    def _hide(self, partitions: set[int]) -> None:
        """A lag that nobody measures any more would stand there for ever."""
        for partition in partitions & self._shown:
            self._lag.remove(str(partition))
        self._shown -= partitions


class Restoring:
    """How far the states of the partitions are, in offsets of the state topic."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._offsets = Counter(
            "foldstream_restore_offsets",
            "Offsets of the state topic read while restoring; its rate is the speed.",
            registry=registry,
        )
        self._left = Gauge(
            "foldstream_restore_remaining_offsets",
            "Offsets of the state topic that are still to be read.",
            ["partition"],
            registry=registry,
        )
        self._records = Counter(
            "foldstream_restored_records",
            "State records of the partitions that are restored.",
            registry=registry,
        )
        self._bytes = Counter(
            "foldstream_restored_bytes", "Their keys and values, in bytes.", registry=registry
        )
        self._seconds = Histogram(
            "foldstream_restore_seconds",
            "From a partition's assignment, or a failure, until its states were complete.",
            buckets=RESTORE,
            registry=registry,
        )
        self._at: dict[int, tuple[int, int]] = {}

    def progress(self, partition: int, done: int, total: int) -> None:
        before, of = self._at.get(partition, (0, total))
        if done < before or of != total:  # begun anew
            before = 0
        self._at[partition] = (done, total)
        self._offsets.inc(done - before)
        self._left.labels(str(partition)).set(total - done)

    def complete(self, partition: int, records: int, size: int, seconds: float) -> None:
        if partition in self._at:
            _, total = self._at[partition]
            self.progress(partition, total, total)
        self.forget((partition,))
        self._records.inc(records)
        self._bytes.inc(size)
        self._seconds.observe(seconds)

    def start_over(self) -> None:
        self.forget(tuple(self._at))

    def forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if self._at.pop(partition, None) is not None:
                self._left.remove(str(partition))


class Sessions:
    """Sessions: decoded, as bytes, and parked ones."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sessions = Gauge(
            "foldstream_sessions",
            "Sessions of this worker's partitions: resident ones are decoded, cold ones are not.",
            ["kept"],
            registry=registry,
        )
        self._bytes = Gauge(
            "foldstream_sessions_bytes",
            "What they take: resident ones about so much memory, cold ones of the local store.",
            ["kept"],
            registry=registry,
        )
        self._waiting = Gauge(
            "foldstream_parked_sessions",
            "Parked sessions, of those that had records since this worker has their partition.",
            registry=registry,
        )
        self._parked: dict[int, set[str]] = {}

    def set(self, kept: str, sessions: int, size: int) -> None:
        self._sessions.labels(kept).set(sessions)
        self._bytes.labels(kept).set(size)

    def folded(self, folded: Folded) -> None:
        for partition, result in folded.results.items():
            waiting = self._parked.setdefault(partition, set())
            for session, state in result.states.items():
                if state.parked is not None:
                    waiting.add(session)
                elif waiting:
                    waiting.discard(session)
        self._count()

    def forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._parked.pop(partition, None)
        self._count()

    def _count(self) -> None:
        self._waiting.set(sum(map(len, self._parked.values())))
