"""A gateway in a process of its own, whose streams are fed in memory at a steady rate.

It serves as ``foldstream gateway`` does; only the frames come from here, not from topics. Each
holds when it was due, ``@`` and 19 digits of ns of `time.monotonic_ns`, the machine's one clock.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Raw, Struct

from pipeline.gateway.changes import Committed, Place, RowChanged, TextAppended
from pipeline.gateway.live import Live, Pace
from pipeline.gateway.running import Settings, serving, streaming
from pipeline.gateway.tail import MemoryTail
from pipeline.health import Address

from . import corpus, gateway_topics

TICK_S = 0.01  #: between two commits
ROW_EVERY = 10  #: frames of a session; the others are text
LINES = 11  #: of each session's log: a turn
PATIENCE_S = 60.0
TEXT = "@%019d" + "x" * 20
BODY = '{"session":"%s","key":"tool:%d","rev":%d,"data":{"content":"@%019d' + "x" * 900 + '"}}'


class Load(Struct, frozen=True):
    """``rate``: frames per second and session."""

    rate: float
    seconds: float


class Usage(Struct, frozen=True):
    """``resident``: bytes; ``resyncs``, ``closed``: of clients that did not keep up, so far."""

    resident: int
    resyncs: int
    closed: int


class Fed(Struct, frozen=True):
    """``cpu``: the server's processor seconds meanwhile, feeding left out; ``waited``: seconds that
    its threads could have run, but another program had the processor (Linux; elsewhere 0);
    ``late``: seconds that frames came after they were due, at worst."""

    frames: int
    cpu: float
    waited: float
    late: float


class Server:
    """Seen from outside; each call returns when it is done. ``port``: where it listens."""

    def __init__(self, pipe: Connection, port: int) -> None:
        self._pipe = pipe
        self.port = port

    def feed(self, load: Load) -> Fed:
        self._pipe.send(load)
        fed: Fed = self._pipe.recv()
        return fed

    def usage(self) -> Usage:
        self._pipe.send(None)
        usage: Usage = self._pipe.recv()
        return usage


@contextmanager
def server(sessions: int, clients: int) -> Iterator[Server]:
    """``sessions`` named s0, s1, …; as many ``clients`` at once."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, sessions, clients), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(PATIENCE_S):
            raise TimeoutError(f"the gateway did not start within {PATIENCE_S:g} s")
        yield Server(here, here.recv())
    finally:
        here.close()
        process.join(PATIENCE_S)


# --- in its own process ---------------------------------------------------------------------------


def _serve(pipe: Connection, sessions: int, clients: int) -> None:
    names = [f"s{number}" for number in range(sessions)]
    log = list(islice(next(corpus.periods()), LINES))
    broker = gateway_topics.folded(dict.fromkeys(names, log))
    live = Live(Pace(connections=clients))
    with TemporaryDirectory() as folder:
        settings = Settings(f"sqlite:///{folder}/read.db", Address("127.0.0.1", 0))
        tail = MemoryTail(broker, gateway_topics.NAMES, "bench")
        with serving(settings, lambda: tail, streaming(live)) as gateway:
            until = time.monotonic() + PATIENCE_S
            while gateway.service.status.state != "live" and time.monotonic() < until:
                time.sleep(TICK_S)
            pipe.send(int(gateway.url.rpartition(":")[2]))
            frames = _Frames(names, {at: end for at, (_, end) in tail.bounds().items()})
            try:
                while True:
                    asked: Load | None = pipe.recv()
                    pipe.send(_usage(live) if asked is None else _feed(live, frames, asked))
            except EOFError:  # whoever asked has gone
                return


def _usage(live: Live) -> Usage:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            tally = live.hub.tally
            return Usage(int(line.split()[1]) * 1024, tally.resyncs, tally.closed)
    raise AssertionError


def _feed(live: Live, frames: _Frames, load: Load) -> Fed:
    """Each frame at its time, whatever became of the last."""
    every = 1e9 / (load.rate * len(frames.sessions))
    count, late, sent = int(load.seconds * 1e9 / every), 0, 0
    cpu, own, waited = time.process_time(), time.thread_time(), _waited()
    began = time.monotonic_ns()
    while sent < count:
        now = time.monotonic_ns()
        due = min(int((now - began) / every) + 1, count)
        if due > sent:
            late = max(late, now - began - int(sent * every))
            live.heard(frames.next([began + int(n * every) for n in range(sent, due)]))
            sent = due
        time.sleep(TICK_S)
    spent = time.process_time() - cpu - (time.thread_time() - own)
    return Fed(count, spent, _waited() - waited, late / 1e9)


def _waited() -> float:
    """Of all threads that there are; the second number of the kernel's three, in ns."""
    told = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[1]) for each in told) / 1e9


class _Frames:
    """Of the sessions in turn: text, and now and then a row. ``ends``: of the topics."""

    def __init__(self, sessions: list[str], ends: dict[Place, int]) -> None:
        self.sessions = sessions
        self._ends = ends
        self._made = 0
        self._lengths = [0] * len(sessions)  # of the text

    def next(self, due: list[int]) -> Committed:
        """One for each time."""
        changes = tuple(self._change(at) for at in due)
        return Committed(changes, dict(self._ends))

    def _change(self, due: int) -> RowChanged | TextAppended:
        number, which = divmod(self._made, len(self.sessions))
        self._made += 1
        session, rev = self.sessions[which], LINES + number
        partition = gateway_topics.partition_of(session)
        place = ("partials" if number % ROW_EVERY else "transcript", partition)
        at = self._ends[place]
        self._ends[place] += 1
        if number % ROW_EVERY == 0:
            body = Raw((BODY % (session, rev, rev, due)).encode())
            of = (f"tool:{rev}", rev, "tool", rev, 0, "transcript", False)
            return RowChanged(session, 0, *of, body, partition, at)
        text, length = TEXT % due, self._lengths[which]
        self._lengths[which] += len(text)
        of_text = ("assistant:1", rev, 0, "text", length, text, rev, None)
        return TextAppended(session, 0, *of_text, partition, at)
