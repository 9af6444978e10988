"""The in-memory pipeline, input bytes to Avro bytes, against decode and fold alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from operators.session import Session
from pipeline import limits
from pipeline.batch import fold_batch
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import create_topics
from pipeline.ports import InRecord
from pipeline.topics import Names
from pipeline.wiring import WorkerSettings, build

from . import corpus
from .measure import Figure, Options, figures, interleaved


def run(options: Options) -> Iterable[Figure]:
    logs = corpus.mixed(options)
    records = in_records(logs)
    seconds = interleaved(
        {
            "decode + fold": lambda: corpus.fold(logs),
            "fold_batch: + Avro, snapshots": lambda: fold_all(records),
            "worker in memory: + topics, transactions": worker_over(logs, options.rounds),
        },
        options.rounds,
    )
    return figures(seconds, len(records), "decode + fold")


def in_records(logs: list[corpus.Log]) -> list[InRecord]:
    """The lines as a partition holds them: sessions side by side, a few lines of each in turn."""
    records: list[InRecord] = []
    waiting = [(log.session.encode(), iter(log.lines)) for log in logs]
    while waiting:
        left = []
        for key, lines in waiting:
            some = [line for _, line in zip(range(20), lines, strict=False)]
            for line in some:
                records.append(InRecord("e", 0, len(records), corpus.TIME, key, line))
            if some:
                left.append((key, lines))
        waiting = left
    return records


def fold_all(records: list[InRecord]) -> None:
    states: dict[str, Session] = {}
    for start in range(0, len(records), limits.BATCH_RECORDS):
        states |= fold_batch(records[start : start + limits.BATCH_RECORDS], states).states


def worker_over(logs: list[corpus.Log], rounds: int) -> Callable[[], object]:
    """A worker over filled topics, new ones for every round."""
    ready = [_filled(logs) for _ in range(rounds)]

    def work() -> None:
        broker = ready.pop()
        running = build(WorkerSettings(broker=broker, instance="bench", stop_at_end=True))
        running.run()
        assert running.totals["records"] == sum(len(log.lines) for log in logs)

    return work


def _filled(logs: list[corpus.Log]) -> MemoryBroker:
    broker = MemoryBroker()
    create_topics(broker, Names())
    for record in in_records(logs):
        assert record.key is not None
        partition = zlib.crc32(record.key) % limits.PARTITIONS
        broker.append("sessions.events", partition, record.key, record.value)
    return broker
