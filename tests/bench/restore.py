"""A worker takes over a million sessions from a real Kafka: cold, then again with its local store.

Each partition has sessions in the middle of their log. A worker is a process of its own, watched
from outside: seconds count from its start to its first commit, and its memory is the kernel's word
(``VmHWM``). ``--size 0.01`` for a try.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from kafka import KafkaProducer
from msgspec import Struct

from pipeline import limits
from pipeline.batch import fold_batch
from pipeline.broker import local_kafka
from pipeline.commit import Folded
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.observe import Observer
from pipeline.ports import InRecord
from pipeline.simulate import SHAPES, simulate
from pipeline.state import state_key
from pipeline.topics import Names, specs
from pipeline.wiring import WorkerSettings, build

from .measure import Figure, Options

SESSIONS = 1_000_000
DISTINCT = 1_000  #: simulated ones; every other session is one of them under another name
LENGTHS = (8, 20, 40, 60, 120, 120, 120, 250)  #: events
ROUNDS = ("cold", "warm, stopped", "warm, killed")
PATIENCE_S = 600.0


class Told(Struct):
    """What a worker says on its standard output, a line of JSON each; ``at`` epoch seconds,
    ``cpu`` its processor time so far."""

    at: float
    kind: str
    partition: int = -1
    sessions: int = 0
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    cpu: float = 0.0


class Seen(Struct):
    """One worker from outside; seconds since its start."""

    first: float
    first_cpu: float
    all: float
    restored: list[Told]
    peak_mib: float


def run(options: Options) -> Iterable[Figure]:
    with _broker(options) as bootstrap, tempfile.TemporaryDirectory() as folder:
        setting = _Setting(bootstrap, f"r{uuid.uuid4().hex[:8]}.")
        setting.send(0)
        _watched(setting, Path(folder) / "before", kill=False)
        size = setting.fill(options.scaled(SESSIONS))
        yield _figure("states on the topic", "records", setting.records)
        yield _figure("states on the topic", "MB", size / 1e6)
        for number, name in enumerate(ROUNDS, 1):
            setting.send(number)
            seen = _watched(setting, Path(folder) / "state", kill=number == 2)
            yield from _figures(name, seen)


def _figures(name: str, seen: Seen) -> Iterator[Figure]:
    records, size = (sum(getattr(t, what) for t in seen.restored) for what in ("records", "size"))
    seconds = max(told.seconds for told in seen.restored)
    yield _figure(f"{name}: sessions", "", sum(told.sessions for told in seen.restored))
    yield _figure(f"{name}: states read", "records", records)
    if records:
        yield _figure(f"{name}: restored", "states/s", records / seconds)
        yield _figure(f"{name}: restored", "MB/s", size / 1e6 / seconds)
        cpu = max(told.cpu for told in seen.restored)
        yield _figure(f"{name}: processor time of a state", "us", cpu / records * 1e6)
    aim = 2.0 if name.startswith("warm") else None
    yield _figure(f"{name}: start to first commit", "s", seen.first, aim)
    yield _figure(f"{name}: processor time of that", "s", seen.first_cpu)
    yield _figure(f"{name}: start to all partitions", "s", seen.all)
    yield _figure(f"{name}: memory at its peak", "MiB", seen.peak_mib, 1024.0)


def _figure(what: str, unit: str, value: float, at_most: float | None = None) -> Figure:
    if at_most is None:
        return Figure(what, unit, value, value)
    ratio = value / at_most
    return Figure(what, unit, value, value, f"{at_most:g} {unit}", ratio, ratio, 1.0)


@contextmanager
def _broker(options: Options) -> Iterator[str]:
    if options.bootstrap is not None:
        yield options.bootstrap
        return
    with local_kafka() as bootstrap:
        yield bootstrap


# --- what stands on the topics --------------------------------------------------------------------


class _Setting:
    """Topics of their own, and in each partition one session that goes on in every round."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.names = Names(prefix, prefix.rstrip("."))
        with KafkaTopics(Cluster(bootstrap)) as topics:
            topics.create(specs(self.names))
        self.records = 0
        self._size = 0
        self._producer: Any = KafkaProducer(
            bootstrap_servers=bootstrap, linger_ms=20, batch_size=1 << 18, metrics_enabled=False
        )
        self._logs = [simulate(10_000 + n, events=200) for n in range(limits.PARTITIONS)]

    def fill(self, sessions: int) -> int:
        """Returns the bytes of keys and values on the state topic."""
        distinct = [_snapshot(seed) for seed in range(min(DISTINCT, sessions))]
        for number in range(sessions):
            own, segments = distinct[number % len(distinct)]
            name = str(uuid.UUID(int=number * 2654435761 % 2**64 + number))
            for segment, value in segments:
                head = value if segment else value.replace(own, name.encode())
                self._state(number % limits.PARTITIONS, name, segment, head)
            if number % 100_000 == 99_999:
                sys.stderr.write(f"restore: {number + 1} of {sessions} sessions on the topic\n")
        self._producer.flush()
        return self._size

    def _state(self, partition: int, session: str, segment: str, value: bytes) -> None:
        key = state_key(session, segment)
        self._producer.send(self.names.of("state"), value, key, partition=partition)
        self.records += 1
        self._size += len(key) + len(value)

    def send(self, number: int) -> None:
        """The next quarter of each partition's own log."""
        topic = self.names.of("events")
        for partition, log in enumerate(self._logs):
            quarter = len(log.lines) // 4
            for line in log.lines[number * quarter : (number + 1) * quarter]:
                self._producer.send(topic, line, log.id.encode(), partition=partition)
        self._producer.flush()


def _snapshot(seed: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The id of a simulated session, and the segments of its snapshot."""
    log = simulate(seed, events=LENGTHS[seed % len(LENGTHS)], shape=SHAPES[seed % len(SHAPES)])
    records = [InRecord("e", 0, n, 0, log.id.encode(), line) for n, line in enumerate(log.lines)]
    saved = fold_batch(records, {}).segments
    return log.id.encode(), [(name, value) for _, name, value in saved if value is not None]


# --- the worker -----------------------------------------------------------------------------------


def _watched(setting: _Setting, folder: Path, *, kill: bool) -> Seen:
    """A worker until it has committed in every partition; then it is stopped, or killed."""
    start = time.time()
    code = "import sys; from tests.bench.restore import work; work(*sys.argv[1:])"
    names = setting.names
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", code, setting.bootstrap, names.prefix, names.application),
            str(folder),
        ],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.daemon = True
    watchdog.start()
    assert process.stdout is not None
    restored: list[Told] = []
    commits: dict[int, Told] = {}
    for line in process.stdout:
        told = msgspec.json.decode(line, type=Told)
        if told.kind == "restored":
            restored.append(told)
        else:
            commits.setdefault(told.partition, told)
        if len(commits) == limits.PARTITIONS:
            break
    assert len(commits) == limits.PARTITIONS, "the worker ended"
    peak = _peak_mib(process.pid)
    process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
    process.communicate()
    watchdog.cancel()
    first, *_, last = commits.values()
    return Seen(first.at - start, first.cpu, last.at - start, restored, peak)


def _peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise AssertionError


class _Telling(Observer):
    def restored(
        self, partition: int, sessions: int, records: int, size: int, seconds: float
    ) -> None:
        _tell(Told(time.time(), "restored", partition, sessions, records, size, seconds))

    def batch(self, folded: Folded, seconds: Any) -> None:
        for partition in folded.nexts:
            _tell(Told(time.time(), "committed", partition))


def _tell(told: Told) -> None:
    told.cpu = time.process_time()
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


def work(bootstrap: str, prefix: str, application: str, folder: str) -> None:
    """A worker, as ``foldstream run`` makes it, until it is told to stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = WorkerSettings(
        broker=bootstrap,
        instance="bench",
        prefix=prefix,
        application=application,
        state_dir=Path(folder),
        stop=stop,
    )
    build(settings, _Telling()).run()
