"""From an event's sending until a read_committed consumer has what comes of it, at a steady rate.

Three processes around a broker of our own: this one sends, ``foldstream run`` folds, and a reader
polls every output topic; both by librdkafka, which takes little of what the worker needs. An event
is seen when the snapshot of its session with its seq, or a later one, is read: that is written with
every batch, in the transaction of the batch's other outputs.
"""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty
from tempfile import NamedTemporaryFile
from urllib.request import urlopen

from confluent_kafka import Consumer, KafkaException, Message, Producer
from msgspec import Struct

from pipeline import limits
from pipeline.broker import local_kafka
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.topics import ROLES, Names, specs

from . import corpus
from .measure import Figure, Options

AIMS_MS = {1: {"p50": 60.0, "p99": 250.0}}
SESSIONS = 100
WARM_S = 5.0  #: not counted: the first transactions, and Java's compiler
PATIENCE_S = 30.0
TICK_S = 0.001
LINGER_MS = 2  #: of who sends
MOST = 1000  #: records that the reader takes at once


class Sent(Struct, frozen=True):
    """One event, and when it was handed to its producer (`time.monotonic`, that of the machine)."""

    session: str
    seq: int
    at: float


class Seen(Struct, frozen=True):
    """A session's snapshot up to ``seq``, and when the reader had it."""

    session: str
    seq: int
    at: float


def run(options: Options) -> Iterable[Figure]:
    with _broker(options) as bootstrap:
        names = Names(f"l{uuid.uuid4().hex[:8]}.", f"latency-{uuid.uuid4().hex[:8]}")
        copies = min(3, bootstrap.count(",") + 1)
        with KafkaTopics(Cluster(bootstrap)) as topics:
            topics.create(specs(names), replication=copies)
        with _reader(bootstrap, names) as reader, _worker(bootstrap, names) as metrics:
            sent = _feed(bootstrap, names, options)
            seen = reader.until(sent[-SESSIONS:])
            told = _phases(metrics())
    latencies = sorted(_latencies(sent[int(WARM_S * options.rate) :], seen))
    yield from _figures(latencies, AIMS_MS.get(copies, {}), copies)
    yield from told


@contextmanager
def _broker(options: Options) -> Iterator[str]:
    if options.bootstrap is not None:
        yield options.bootstrap
        return
    with local_kafka(options.brokers) as bootstrap:
        yield bootstrap


def _figures(latencies: list[float], aims: Mapping[str, float], brokers: int) -> Iterator[Figure]:
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    for name, share in at.items():
        value = 1000 * latencies[min(int(share * len(latencies)), len(latencies) - 1)]
        what = f"event to visible, {name} of {len(latencies)} on {brokers}"
        if aim := aims.get(name):
            yield Figure(what, "ms", value, value, f"{aim:g} ms", value / aim, value / aim, 1.0)
        else:
            yield Figure(what, "ms", value, value)


def _latencies(sent: list[Sent], seen: list[Seen]) -> Iterator[float]:
    """Every event must have been seen."""
    by_session: dict[str, list[Seen]] = {}
    for one in seen:
        by_session.setdefault(one.session, []).append(one)
    reached = {session: iter(of) for session, of in by_session.items()}
    last: dict[str, Seen] = {}
    for event in sent:
        found = last.get(event.session)
        while found is None or found.seq < event.seq:
            found = next(reached[event.session])
        last[event.session] = found
        yield found.at - event.at


# --- who sends ------------------------------------------------------------------------------------


def _feed(bootstrap: str, names: Names, options: Options) -> list[Sent]:
    """``rate`` events a second, of sessions in turn; each at its time, whatever became of the last.

    Fails if it could not keep up: then the figures would be of another rate."""
    sessions = [f"latency-{n:03d}" for n in range(SESSIONS)]
    count = int(options.rate * (options.seconds + WARM_S))
    of_one = -(-count // SESSIONS)
    lines = {session: list(_lines(of_one)) for session in sessions}
    at = [zlib.crc32(session.encode()) % limits.PARTITIONS for session in sessions]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS, "acks": "all"})
    events, sent, late = names.of("events"), [], 0.0
    producer.list_topics(events, PATIENCE_S)
    began = time.monotonic()
    for n in range(count):
        while (now := time.monotonic()) < began + n / options.rate:
            time.sleep(TICK_S)
        late = max(late, now - began - n / options.rate)
        which, seq = n % SESSIONS, n // SESSIONS
        session = sessions[which]
        sent.append(Sent(session, seq, now))
        producer.produce(events, lines[session][seq], session.encode(), partition=at[which])
        producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        raise TimeoutError(f"{left} events could not be sent within {PATIENCE_S:g} s")
    sys.stderr.write(f"  {count} events sent, at worst {1000 * late:.0f} ms late\n")
    return sent


def _lines(count: int) -> Iterator[bytes]:
    return islice(chain.from_iterable(corpus.periods()), count)


# --- who folds ------------------------------------------------------------------------------------


@contextmanager
def _worker(bootstrap: str, names: Names) -> Iterator[Callable[[], str]]:
    """``foldstream run`` as it stands; gives what asks for its metrics."""
    command = [str(Path(sys.executable).parent / "foldstream"), "run", "--bootstrap", bootstrap]
    command += ["--prefix", names.prefix, "--application-id", names.application]
    command += ["--instance", "latency", "--listen", "127.0.0.1:0"]
    with (
        NamedTemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=said, stderr=said) as process,
    ):
        try:
            base = _ready(process, Path(said.name))
            yield lambda: urlopen(f"{base}/metrics", timeout=PATIENCE_S).read().decode()
        finally:
            process.terminate()


def _ready(process: subprocess.Popen[bytes], said: Path) -> str:
    """Where it answers, once it says that it has its partitions."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if base := re.search(r"http://[^/]+", said.read_text()):
            with suppress(OSError), urlopen(f"{base[0]}/readyz", timeout=1):
                return base[0]
        time.sleep(0.1)
    raise RuntimeError(f"the worker is not ready: {said.read_text() or 'it said nothing'}")


def _phases(metrics: str) -> Iterator[Figure]:
    """The mean of each part of a batch, in ms, and how many records one had."""
    totals = dict(
        re.findall(r"^(foldstream_batch\S+_(?:sum|count)\S*) (\S+)$", metrics, re.MULTILINE)
    )
    for name, total in totals.items():
        if "_sum" in name:
            mean = 1000 * float(total) / float(totals[name.replace("_sum", "_count")])
            phase = re.search(r'phase="(\w+)"', name)
            yield Figure(f"  {phase[1] if phase else 'batch'}, mean", "ms", mean, mean)


# --- who reads ------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, answers: Queue[list[Seen]]) -> None:
        self._answers = answers

    def until(self, last: Iterable[Sent]) -> list[Seen]:
        """All that it read, once it has read what comes of the ``last`` events sent."""
        left = {event.session: event.seq for event in last}
        found: list[Seen] = []
        until = time.monotonic() + PATIENCE_S
        while left:
            if time.monotonic() > until:
                raise TimeoutError(f"not seen within {PATIENCE_S:g} s: {left}")
            with suppress(Empty):
                some = self._answers.get(timeout=0.1)
                found += some
                for one in some:
                    if one.seq >= left.get(one.session, one.seq + 1):
                        del left[one.session]
        return found


@contextmanager
def _reader(bootstrap: str, names: Names) -> Iterator[_Reader]:
    context = multiprocessing.get_context("spawn")
    answers: Queue[list[Seen]] = context.Queue()
    stop, ready = context.Event(), context.Event()
    told = (bootstrap, names, answers, stop, ready)
    process = context.Process(target=_read, args=told, daemon=True)
    process.start()
    try:
        if not ready.wait(PATIENCE_S):
            raise TimeoutError("the reader did not start")
        yield _Reader(answers)
    finally:
        stop.set()
        process.join(PATIENCE_S)


def _read(
    bootstrap: str, names: Names, answers: Queue[list[Seen]], stop: Event, ready: Event
) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{names.application}-reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    state = names.of("state")
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([names.of(role) for role in ROLES if role != "events"])
        while not consumer.assignment():
            consumer.poll(0.1)
        ready.set()
        while not stop.is_set():
            first, now = consumer.poll(0.1), time.monotonic()
            if first is None:
                continue
            # What came with it has come as late as it: nothing is waited for.
            messages = [first, *consumer.consume(MOST, timeout=0)]
            found = [_seen(one, now) for one in messages if one.topic() == state]
            if found:
                answers.put(found)
        answers.cancel_join_thread()


def _seen(message: Message, at: float) -> Seen:
    """A record of the state topic."""
    if message.error() is not None:
        raise KafkaException(message.error())
    headers: dict[str, bytes] = dict(message.headers())  # type: ignore[arg-type] # ours are bytes
    return Seen(headers["session"].decode(), int(headers["seq"]), at)
