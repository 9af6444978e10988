"""Metrics: what each says after what happened."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from pipeline.batch import fold_batch
from pipeline.bulk_histogram import BulkHistogram
from pipeline.commit import Folded
from pipeline.errors import CommitUnknown, Fenced, Retriable
from pipeline.metric_families import LATENCY
from pipeline.metrics import HELD_EVERY_S, kind_of
from pipeline.ports import InRecord, Polled
from tests.pipeline.scrape import LINE, MEMBER, NOW_MS, PHASES, Prometheus, record


@pytest.fixture
def prometheus() -> Prometheus:
    return Prometheus()


def test_a_batch_is_counted_when_it_is_committed(prometheus: Prometheus) -> None:
    lines = [record(0, n, LINE % (n, n), age_ms=50) for n in range(3)]
    prometheus.batch(*lines, record(0, 9, LINE % (2, 2)), record(1, 4, b"{torn", age_ms=3000))
    seen = prometheus.samples()
    assert seen["foldstream_records_total partition=0"] == 4
    assert seen["foldstream_records_total partition=1"] == 1
    assert seen["foldstream_skipped_records_total why=redelivered"] == 1
    assert seen["foldstream_dead_letters_total reason=not-json"] == 1
    assert seen["foldstream_output_records_total role=deadletter"] == 1
    assert seen["foldstream_output_records_total role=surface"] == 3
    assert seen["foldstream_batch_seconds_count"] == 1
    assert seen["foldstream_batch_seconds_sum"] == pytest.approx(0.07)
    for phase, seconds in PHASES.items():
        assert seen[f"foldstream_batch_phase_seconds_sum phase={phase}"] == seconds
    assert seen["foldstream_last_commit_timestamp_seconds"] == NOW_MS / 1000
    assert seen["foldstream_event_to_commit_seconds_count"] == 5
    assert seen["foldstream_event_to_commit_seconds_bucket le=0.005"] == 1
    assert seen["foldstream_event_to_commit_seconds_bucket le=0.06"] == 4
    assert seen["foldstream_event_to_commit_seconds_sum"] == pytest.approx(3 * 0.05 + 3)


def test_records_that_were_not_taken_are_not_counted(prometheus: Prometheus) -> None:
    records = [record(0, n, LINE % (n, n)) for n in range(5)]
    prometheus.observer.polled(Polled({0: records}, MEMBER))
    result = fold_batch(records[:2], {})
    prometheus.observer.batch(Folded({0: result}, {0: 2}, MEMBER, {0: 2}), PHASES)
    assert prometheus.value("records_total partition=0") == 2
    assert prometheus.value("event_to_commit_seconds_count") == 2


def test_failures_are_counted_by_kind_and_rebuilds_timed(prometheus: Prometheus) -> None:
    for error in (Retriable("x"), Retriable("y"), CommitUnknown("z"), Fenced("f")):
        prometheus.observer.failed(error)
    prometheus.observer.rebuilt(1.5)
    seen = prometheus.samples()
    assert seen["foldstream_failures_total kind=retriable"] == 2
    assert seen["foldstream_failures_total kind=commit-unknown"] == 1
    assert seen["foldstream_failures_total kind=fenced"] == 1
    assert seen["foldstream_producer_rebuild_seconds_sum"] == 1.5
    assert kind_of(CommitUnknown("")) == "commit-unknown"


def test_partitions_and_their_lag_come_and_go(prometheus: Prometheus) -> None:
    prometheus.observer.rebalanced((), (0, 1, 2))
    prometheus.observer.lag({0: 5, 1: 7, 2: 0})
    prometheus.observer.rebalanced((1,), ())
    seen = prometheus.samples()
    assert seen["foldstream_rebalances_total"] == 2
    assert seen["foldstream_partitions_moved_total how=assigned"] == 3
    assert seen["foldstream_partitions_moved_total how=revoked"] == 1
    assert seen["foldstream_partitions"] == 2
    assert seen["foldstream_input_lag_offsets partition=0"] == 5
    assert "foldstream_input_lag_offsets partition=1" not in seen
    prometheus.observer.lag({0: 1})
    assert prometheus.value("input_lag_offsets partition=2") is None


def test_a_partition_stands_still_until_it_moves(prometheus: Prometheus) -> None:
    observer = prometheus.observer
    ends: list[tuple[Callable[[], None], int]] = [
        (lambda: prometheus.batch(record(2, 0, LINE % (0, 0))), 1),
        (lambda: observer.rebalanced((2,), ()), 1),
        (lambda: observer.failed(Retriable("x")), 0),
    ]
    for end, left in ends:
        observer.stalled(2, 10, 20, 30.0)
        observer.stalled(2, 10, 20, 60.0)
        observer.stalled(4, 10, 20, 30.0)
        assert prometheus.value("stalled_partitions") == 2
        end()
        assert prometheus.value("stalled_partitions") == left
    assert prometheus.value("stalls_total partition=2") == 3


def test_restoring_is_seen_while_it_goes_on(prometheus: Prometheus) -> None:
    observer = prometheus.observer
    observer.restoring(3, 0, 1000)
    observer.restoring(3, 400, 1000)
    assert prometheus.value("restore_offsets_total") == 400
    assert prometheus.value("restore_remaining_offsets partition=3") == 600
    observer.failed(Retriable("x"))
    assert prometheus.value("restore_remaining_offsets partition=3") is None
    observer.restoring(3, 450, 1000)  # begun anew, and already beyond where it was
    observer.restored(3, 70, 900, 123_456, 2.5)
    seen = prometheus.samples()
    assert seen["foldstream_restore_offsets_total"] == 400 + 1000
    assert "foldstream_restore_remaining_offsets partition=3" not in seen
    assert seen["foldstream_restored_records_total"] == 900
    assert seen["foldstream_restored_bytes_total"] == 123_456
    assert seen["foldstream_restore_seconds_sum"] == 2.5
    observer.restored(1, 0, 0, 0, 0.0)  # the local store had all
    assert prometheus.value("restore_seconds_count") == 2


class HeldNow:
    residents, weight = 2, 900

    def __init__(self) -> None:
        self.asked: list[int] = []

    def sessions(self, partition: int) -> int:
        self.asked.append(partition)
        return 3 + partition


def test_what_is_held_is_looked_at_now_and_then(
    prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, held, observer = [1000.0], HeldNow(), prometheus.observer
    monkeypatch.setattr("pipeline.metrics.time.monotonic", lambda: now[0])
    observer.turned()
    observer.watch(held, lambda: 400)
    observer.rebalanced((), (0, 1, 2))
    observer.restored(0, 3, 1, 1, 0.1)
    observer.restored(1, 4, 1, 1, 0.1)
    for _ in range(3):
        observer.turned()
    assert held.asked == [0, 1], "not yet of what is not restored"
    seen = prometheus.samples()
    assert seen["foldstream_sessions kept=resident"] == 2
    assert seen["foldstream_sessions kept=cold"] == 3 + 4 - 2
    assert seen["foldstream_sessions_bytes kept=resident"] == 900
    assert seen["foldstream_sessions_bytes kept=cold"] == 400
    observer.rebalanced((1,), ())
    now[0] += HELD_EVERY_S
    observer.turned()
    assert held.asked == [0, 1, 0]
    observer.failed(Retriable("x"))
    now[0] += HELD_EVERY_S
    observer.turned()
    assert len(held.asked) == 3


def test_parked_sessions_are_those_that_wait(prometheus: Prometheus) -> None:
    observer = prometheus.observer
    bad, good = record(0, 0, b"{torn"), record(1, 0, LINE % (0, 0))
    parked = fold_batch([bad], {}, strict=lambda _: True)
    fine = fold_batch([good], {}, strict=lambda _: True)
    assert parked.states["s0"].parked is not None
    observer.batch(Folded({0: parked, 1: fine}, {0: 1, 1: 1}, MEMBER), PHASES)
    assert prometheus.value("parked_sessions") == 1
    freed = fold_batch([record(0, 0, LINE % (0, 0))], {})
    observer.batch(Folded({0: freed}, {0: 1}, MEMBER), PHASES)
    assert prometheus.value("parked_sessions") == 0
    observer.batch(Folded({0: parked}, {0: 1}, MEMBER), PHASES)
    observer.rebalanced((0,), ())
    assert prometheus.value("parked_sessions") == 0


def test_readiness_and_build_are_metrics_too(prometheus: Prometheus) -> None:
    ready = [False]
    prometheus.observer.ready(lambda: ready[0])
    assert prometheus.value("ready") == 0
    ready[0] = True
    assert prometheus.value("ready") == 1
    (build,) = [name for name in prometheus.samples() if name.startswith("foldstream_build_info")]
    assert re.search(r" client=3\.\d+\.\d+ python=3\.\d+\.\d+ version=\d", build)


def test_workers_of_one_process_do_not_clash(prometheus: Prometheus) -> None:
    other = Prometheus()
    other.batch(record(0, 0, LINE % (0, 0)))
    assert other.value("records_total partition=0") == 1
    assert prometheus.value("records_total partition=0") is None


@pytest.mark.parametrize(
    "ages",
    [
        [],
        [0.0],
        [4.9, 5.1, 60_000.0, 60_001.0, 250.0, 250.0],
        [float(n * 7 % 90_000) for n in range(2000)],
    ],
)
def test_the_bulk_histogram_is_the_librarys(ages: list[float]) -> None:
    stamps = [round(NOW_MS - age) for age in ages]
    registry, theirs = CollectorRegistry(), CollectorRegistry()
    bulk = BulkHistogram("x_seconds", "As it is.", LATENCY)
    registry.register(bulk)
    one_by_one = Histogram("x_seconds", "As it is.", buckets=LATENCY, registry=theirs)
    for part in (stamps[::2], stamps[1::2]):
        bulk.add(list(part), NOW_MS / 1000)
    for stamp in stamps:
        one_by_one.observe((NOW_MS - stamp) / 1000)

    def lines(of: CollectorRegistry) -> list[str]:
        text = generate_latest(of).decode()
        return [line for line in text.splitlines() if "created" not in line and "_sum" not in line]

    assert lines(registry) == lines(theirs)
    (total,) = (s.value for m in registry.collect() for s in m.samples if s.name.endswith("_sum"))
    assert total == pytest.approx(sum(NOW_MS - stamp for stamp in stamps) / 1000)


def test_clocks_that_disagree_and_stamps_that_are_none() -> None:
    bulk = BulkHistogram("x_seconds", "As it is.", (1.0, 2.0))
    bulk.add([NOW_MS + 5000, -1, NOW_MS - 1500], NOW_MS / 1000)
    (family,) = bulk.collect()
    values = {
        sample.name + str(sample.labels.get("le", "")): sample.value for sample in family.samples
    }
    assert values == {
        "x_seconds_bucket1.0": 1,
        "x_seconds_bucket2.0": 2,
        "x_seconds_bucket+Inf": 2,
        "x_seconds_count": 2,
        "x_seconds_sum": 1.5,
    }


def test_the_number_of_series_does_not_grow_with_sessions(prometheus: Prometheus) -> None:
    def fold(first: int) -> int:
        records = [
            InRecord("t", 0, n, NOW_MS, b"session-%d" % n, LINE % (0, 0))
            for n in range(first, first + 50)
        ]
        prometheus.batch(*records)
        return len(prometheus.samples())

    assert fold(0) == fold(50)
    assert "session-" not in generate_latest(prometheus.observer.registry).decode()


def test_observing_costs_next_to_nothing(prometheus: Prometheus) -> None:
    """A batch of 2000 takes 100 ms and more; the bound is ten times what was measured."""
    records = [record(n % 6, n, LINE % (n, n), age_ms=n % 97) for n in range(2000)]
    by_partition = {p: [r for r in records if r.partition == p] for p in range(6)}
    results = {p: fold_batch(found, {}) for p, found in by_partition.items()}
    folded = Folded(results, dict.fromkeys(range(6), 2000), MEMBER)

    def once() -> float:
        began = time.perf_counter()
        prometheus.observer.polled(Polled(by_partition, MEMBER))
        prometheus.observer.batch(folded, PHASES)
        prometheus.observer.turned()
        return time.perf_counter() - began

    assert min(once() for _ in range(20)) < 0.005
