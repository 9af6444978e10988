"""``foldstream verify`` on a real broker: its rate against the fold alone, its memory over the run,
and three damages in one pass: a flipped byte, a removed row, a doubled record."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
from kafka import KafkaProducer

from operators.session import Session
from pipeline import limits
from pipeline.batch import fold_batch
from pipeline.broker import local_kafka
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.ports import InRecord
from pipeline.proof.partition import BATCH
from pipeline.proof.records import session_of
from pipeline.simulate import SHAPES, simulate
from pipeline.topics import Names, specs
from pipeline.verify import Verdict, verify
from pipeline.wiring import WorkerSettings, build

from .corpus import Log
from .measure import Figure, Options
from .pipeline import in_records

EVENTS = 1_000_000
PER_SESSION = 120
SAMPLE = (
    24_000  #: events of which the fold alone is measured, and that are repeated under new names
)
SAMPLE_S = 0.5
MIB = 1024 * 1024
FLAT = 1.1  #: what memory may grow by from a third of the run on


def run(options: Options) -> Iterable[Figure]:
    logs = _logs()
    records = in_records(logs)
    copies = max(1, options.scaled(EVENTS) // len(records))
    with _broker(options) as bootstrap:
        names = Names(f"v{uuid.uuid4().hex[:8]}.", f"v{uuid.uuid4().hex[:8]}")
        with KafkaTopics(Cluster(bootstrap)) as topics:
            topics.create(specs(names))
        for copy in range(copies):
            _fill(bootstrap, names, records, copy)
        _say(f"{copies * len(records)} events of {copies * len(logs)} sessions written")
        _work(bootstrap, names)
        yield from _proven(bootstrap, names, records)
        yield _damaged(bootstrap, names)


def _logs() -> list[Log]:
    logs: list[Log] = []
    seed = 0
    while sum(len(log.lines) for log in logs) < SAMPLE:
        seed += 1
        made = simulate(seed, events=PER_SESSION, shape=SHAPES[seed % len(SHAPES)])
        logs.append(Log(made.id, made.lines))
    return logs


@contextmanager
def _broker(options: Options) -> Iterator[str]:
    if options.bootstrap is not None:
        yield options.bootstrap
        return
    with local_kafka() as bootstrap:
        yield bootstrap


def _fill(bootstrap: str, names: Names, records: list[InRecord], copy: int) -> None:
    """All records once more, as sessions of other names."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=20, batch_size=1 << 17, max_request_size=1 << 24
    )
    suffix = b"-%d" % copy
    for record in records:
        key, value = record.key or b"", record.value or b""
        renamed = value.replace(b'"%s"' % key, b'"%s"' % (key + suffix))
        partition = zlib.crc32(key + suffix) % limits.PARTITIONS
        producer.send(names.of("events"), renamed, key + suffix, partition=partition)
    producer.flush()
    producer.close()


def _work(bootstrap: str, names: Names) -> None:
    started = time.monotonic()
    running = build(
        WorkerSettings(
            broker=bootstrap,
            instance="bench",
            prefix=names.prefix,
            application=names.application,
            stop_at_end=True,
        )
    )
    running.run()
    rate = running.totals["records"] / (time.monotonic() - started)
    _say(f"folded by a worker at {rate:.0f} events/s")


# --- the rate, the memory -------------------------------------------------------------------------


def _proven(bootstrap: str, names: Names, records: list[InRecord]) -> Iterator[Figure]:
    """The command itself, watched from outside."""
    alone = _fold_alone(records) / len(records) * 1e6
    started = time.monotonic()
    command = [sys.executable, "-m", "pipeline.cli", "verify", "--json", "--bootstrap", bootstrap]
    named = ["--prefix", names.prefix, "--application-id", names.application]
    with subprocess.Popen([*command, *named], stdout=subprocess.PIPE) as child:
        sizes = _watch(child)
        assert child.stdout is not None
        verdict = msgspec.json.decode(child.stdout.read())
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0
    wall = time.monotonic() - started
    assert verdict["ok"], verdict
    events = verdict["events"]
    cpu = (used.ru_utime + used.ru_stime) / events * 1e6
    _say(f"{events} events of {verdict['sessions']} sessions proven in {wall:.0f} s")
    yield Figure("fold alone, processor time per event", "us", alone, alone)
    yield Figure(
        *("verify, processor time per event", "us", cpu, cpu),
        *("fold alone, processor time per event", cpu / alone, cpu / alone),
    )
    yield Figure("verify, wall clock", "events/s", events / wall, events / wall)
    third, most = sizes[len(sizes) // 3], max(sizes[len(sizes) // 3 :])
    yield Figure("memory at a third of the run", "MiB", third / MIB, third / MIB)
    yield Figure(
        *("most memory from then on", "MiB", most / MIB, most / MIB),
        *("memory at a third of the run", most / third, most / third, FLAT),
    )


def _fold_alone(records: list[InRecord]) -> float:
    """Seconds of processor time for the fold that verify cannot do without, in its batches."""
    taken = []
    for _ in range(3):
        states: dict[str, Session] = {}
        started = time.process_time()
        for start in range(0, len(records), BATCH):
            states |= fold_batch(records[start : start + BATCH], states).states
        taken.append(time.process_time() - started)
    return min(taken)


def _watch(child: subprocess.Popen[bytes]) -> list[int]:
    """Resident bytes of the process, again and again until it ends."""
    sizes: list[int] = []
    page = os.sysconf("SC_PAGESIZE")
    while True:
        with open(f"/proc/{child.pid}/statm") as statm:  # noqa: PTH123 - the kernel's file
            resident = int(statm.read().split()[1]) * page
        if resident == 0:  # it has ended and waits to be waited for
            return sizes
        sizes.append(resident)
        time.sleep(SAMPLE_S)


# --- damage ---------------------------------------------------------------------------------------


class Damaged(KafkaReader):
    """The topics, with one byte of a surface flipped, all records of a row left out, and another
    surface's first record twice; each of another session. ``done``: whose."""

    def __init__(self, cluster: Cluster, names: Names) -> None:
        super().__init__(cluster)
        self._surface, self._transcript = names.of("surface"), names.of("transcript")
        self.done: dict[str, bytes] = {}
        self._row = b""

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        for record in super().read(topic, partition, start, end):
            if topic == self._surface:
                yield from self._surface_record(record)
            elif topic != self._transcript or not self._leave_out(record):
                yield record

    def _surface_record(self, record: InRecord) -> Iterator[InRecord]:
        session = record.key or b""
        if self._is("flipped", session, record):
            value = bytearray(record.value or b"")
            value[-9] ^= 1
            yield msgspec.structs.replace(record, value=bytes(value))
        elif self._is("doubled", session, record):
            yield from (record, record)
        else:
            yield record

    def _is(self, what: str, session: bytes, record: InRecord) -> bool:
        """Whether this is the record to damage; the same one in each reading."""
        if what not in self.done and session not in self.done.values():
            self.done[what] = session
            self.done[f"{what} at"] = b"%d" % record.offset
        at = self.done.get(f"{what} at") == b"%d" % record.offset
        return at and self.done[what] == session

    def _leave_out(self, record: InRecord) -> bool:
        session = session_of(record.key, "transcript")
        if "removed" not in self.done and session not in self.done.values():
            self.done["removed"], self._row = session, record.key or b""
        return record.key == self._row


def _damaged(bootstrap: str, names: Names) -> Figure:
    with closing(Damaged(Cluster(bootstrap), names)) as reader:
        verdict: Verdict = verify(reader, names)
        damaged = {reader.done[what].decode() for what in ("flipped", "removed", "doubled")}
    found = {difference.session: difference for difference in verdict.differences}
    for difference in found.values():
        _say(str(difference))
    assert found.keys() == damaged, (found, damaged)
    assert verdict.differing == 3
    return Figure("damages planted, each found by name", "of 3", len(found), len(found))


def _say(text: Any) -> None:
    sys.stderr.write(f"  {text}\n")
