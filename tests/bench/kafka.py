"""A worker on a real Kafka against a bare kafka-python loop: the same records read and sent in
transactions of the same size, nothing in between (aim: 0.7 of its rate)."""

from __future__ import annotations

import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from msgspec import Struct

from operators.session import Session
from pipeline import limits
from pipeline.batch import fold_batch
from pipeline.broker import local_kafka
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.ports import InRecord, OutRecord
from pipeline.topics import Names, specs
from pipeline.wiring import WorkerSettings, build

from . import corpus
from .measure import Figure, Options, figures, interleaved
from .pipeline import in_records

ROUNDS = 3


class Setting(Struct, frozen=True):
    bootstrap: str
    prefix: str
    records: list[InRecord]
    outputs: list[OutRecord]

    def names(self, round_: str) -> Names:
        return Names(self.prefix, f"{self.prefix}{round_}")


def run(options: Options) -> Iterable[Figure]:
    records = _partitioned(in_records(corpus.mixed(options)))
    rounds = min(options.rounds, ROUNDS)
    with _broker(options) as bootstrap:
        setting = Setting(bootstrap, f"b{uuid.uuid4().hex[:8]}.", records, _outputs(records))
        _fill(setting, [f"{side}{n}" for side in ("worker", "bare") for n in range(rounds)])
        sides = {
            "bare transactional loop": _each(_bare, setting, "bare", rounds),
            "worker": _each(_worker, setting, "worker", rounds),
        }
        seconds = interleaved(sides, rounds, time.perf_counter)
    base = "bare transactional loop"
    return figures(seconds, len(records), base, {"worker": 1 / 0.7})


@contextmanager
def _broker(options: Options) -> Iterator[str]:
    if options.bootstrap is not None:
        yield options.bootstrap
        return
    with local_kafka() as bootstrap:
        yield bootstrap


def _each(
    side: Callable[[Setting, Names], object], setting: Setting, name: str, rounds: int
) -> Callable[[], object]:
    """One side; every round is an application of its own, with topics that are empty."""
    left = [setting.names(f"{name}{n}") for n in range(rounds)]
    return lambda: side(setting, left.pop())


def _partitioned(records: list[InRecord]) -> list[InRecord]:
    return [
        InRecord("e", zlib.crc32(r.key or b"") % limits.PARTITIONS, r.offset, 0, r.key, r.value)
        for r in records
    ]


def _outputs(records: list[InRecord]) -> list[OutRecord]:
    """What a worker publishes of the records, so that the bare loop can send the same."""
    states: dict[str, Session] = {}
    outputs: list[OutRecord] = []
    for start in range(0, len(records), limits.BATCH_RECORDS):
        by_partition: dict[int, list[InRecord]] = {}
        for record in records[start : start + limits.BATCH_RECORDS]:
            by_partition.setdefault(record.partition, []).append(record)
        for some in by_partition.values():
            result = fold_batch(some, states)
            states |= result.states
            outputs += result.outputs
    return outputs


def _fill(setting: Setting, rounds: list[str]) -> None:
    with KafkaTopics(Cluster(setting.bootstrap)) as topics:
        for round_ in rounds:
            topics.create(specs(setting.names(round_)))
    producer = KafkaProducer(bootstrap_servers=setting.bootstrap, linger_ms=20, batch_size=1 << 17)
    for record in setting.records:
        producer.send(
            f"{setting.prefix}events", record.value, record.key, partition=record.partition
        )
    producer.flush()
    producer.close()


def _worker(setting: Setting, names: Names) -> None:
    running = build(
        WorkerSettings(
            broker=setting.bootstrap,
            instance="bench",
            prefix=names.prefix,
            application=names.application,
            stop_at_end=True,
        )
    )
    running.run()
    assert running.totals["records"] == len(setting.records), running.totals


def _bare(setting: Setting, names: Names) -> None:
    """Poll, begin, send, offsets, flush, commit: kafka-python and no more."""
    consumer: Any = KafkaConsumer(
        names.of("events"),
        bootstrap_servers=setting.bootstrap,
        group_id=names.application,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=limits.BATCH_RECORDS,
        max_partition_fetch_bytes=limits.FETCH_PARTITION_BYTES,
        fetch_min_bytes=limits.FETCH_MIN_BYTES,
        fetch_max_wait_ms=limits.LINGER_MS,
    )
    producer: Any = KafkaProducer(
        bootstrap_servers=setting.bootstrap,
        transactional_id=names.application,
        batch_size=131_072,
        linger_ms=5,
        max_request_size=limits.MAX_OUTPUT_RECORD_BYTES,
    )
    producer.init_transactions()
    topics = {output.role: names.of(output.role) for output in setting.outputs}
    read, sent, total = 0, 0, len(setting.records)
    while read < total:
        polled = consumer.poll(timeout_ms=500, max_records=limits.BATCH_RECORDS)
        if not polled:
            continue
        read += sum(len(records) for records in polled.values())
        upto = len(setting.outputs) * read // total
        producer.begin_transaction()
        futures = [
            producer.send(topics[o.role], o.value, o.key, o.headers, partition=_at(o))
            for o in setting.outputs[sent:upto]
        ]
        sent = upto
        offsets = {
            TopicPartition(at.topic, at.partition): OffsetAndMetadata(some[-1].offset + 1, "", -1)
            for at, some in polled.items()
        }
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.flush()
        for future in futures:
            future.get(timeout=10)
        producer.commit_transaction()
    consumer.close()
    producer.close()


def _at(output: OutRecord) -> int:
    return 0 if output.role == "deadletter" else output.partition
