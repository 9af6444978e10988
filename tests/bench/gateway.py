"""The gateway's hub alone: what a delivery costs, what a client takes, what a frozen one changes.

Frames are fed in memory, as the feed would; every client takes what waits for it after each flush
and makes the bytes of a Server-Sent Event of it. Sockets are not part of it.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from statistics import median

from msgspec import Raw

from pipeline.gateway.changes import Committed, Place, RowChanged, TextAppended
from pipeline.gateway.hub import Hub
from pipeline.gateway.protocol import Answered, Subscribe
from pipeline.gateway.queues import Client
from pipeline.gateway.streams import events

from .measure import Figure, Options

SESSIONS = 100
CLIENTS = 400
FLUSHES_PER_S = 10
SECONDS = 10  #: of the load, as time in the frames; it is fed as fast as it goes
ROLES = ("transcript", "partials", "overview")
BODY = b'{"session":"s","key":"tool:1","rev":1,"data":{"content":"%s"}}' % (b"x" * 900)


def run(options: Options) -> Iterable[Figure]:
    alone, frozen = [], []
    for _ in range(options.rounds):
        alone.append(_load(options, frozen=0))
        frozen.append(_load(options, frozen=1))
    micros = [cost for cost, _ in alone]
    yield Figure("CPU per delivery", "us", min(micros), median(micros))
    with_one = [cost for cost, _ in frozen]
    ratio, middle = min(with_one) / min(micros), median(with_one) / median(micros)
    least, usual = min(with_one), median(with_one)
    yield Figure(*("one client frozen", "us", least, usual, "CPU per delivery", ratio, middle, 1.1))
    slowest = [late for _, late in alone]
    yield Figure("longest flush to all", "ms", min(slowest), median(slowest))
    idle, full = _memory()
    yield Figure("memory of a client", "bytes", idle, idle)
    yield Figure("memory of a client, 100 frames wait", "bytes", full, full)


def _load(options: Options, frozen: int) -> tuple[float, float]:
    """µs of processor time per delivery, and the ms of the slowest flush with all its takes."""
    hub, clients = _hub(CLIENTS)
    reading = clients[frozen:]
    rounds = options.scaled(SECONDS * FLUSHES_PER_S)
    loads = list(_loads(rounds))
    slowest, taken = 0.0, hub.tally.frames
    gc.collect()
    begun = time.process_time()
    for number, committed in enumerate(loads):
        start = time.process_time()
        hub.feed(committed)
        hub.flush(float(number))
        for client in reading:
            while (some := client.take()) is not None:
                events(some)
        slowest = max(slowest, time.process_time() - start)
    spent = time.process_time() - begun
    return spent / (hub.tally.frames - taken) * 1e6, slowest * 1e3


def _loads(rounds: int) -> Iterator[Committed]:
    """A frame for every session each time: text, and now and then a row."""
    lengths = [0] * SESSIONS
    for number in range(1, rounds + 1):
        changes: list[RowChanged | TextAppended] = []
        for session in range(SESSIONS):
            if number % 10 == 0:
                changes.append(_row(session, number))
                lengths[session] = 0
            else:
                changes.append(_text(session, number, lengths[session]))
                lengths[session] += 40
        offset = number * SESSIONS
        yield Committed(tuple(changes), {(role, 0): offset for role in ROLES})


def _row(session: int, number: int) -> RowChanged:
    at = number * SESSIONS + session
    return RowChanged(
        *(f"s{session}", 0, f"tool:{number}", number, "tool", number, 0, "transcript", False),
        *(Raw(BODY), 0, at),
    )


def _text(session: int, number: int, at: int) -> TextAppended:
    offset = number * SESSIONS + session
    return TextAppended(
        *(f"s{session}", 0, "assistant:1", number, 0, "text", at, "x" * 40, number, None),
        *(0, offset),
    )


def _hub(clients: int) -> tuple[Hub, list[Client]]:
    """Every session watched by as many."""
    places: dict[Place, int] = {(role, 0): 0 for role in ROLES}
    hub = Hub(places)
    made = []
    for number in range(clients):
        client = hub.join()
        hub.subscribe(client, Subscribe(sessions=(f"s{number % SESSIONS}",)), lambda _: True)
        ask = hub.ask(client)
        assert ask is not None
        hub.answered(ask, Answered(ask.session, 0, 0, "log", places, ()), 0.0)
        client.take()
        made.append(client)
    return hub, made


def _memory() -> tuple[float, float]:
    """Bytes per client that waits for nothing, and with frames in its queue that others share."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    hub, clients = _hub(CLIENTS)
    gc.collect()
    idle = tracemalloc.get_traced_memory()[0] - before
    for number, committed in enumerate(_loads(100)):
        hub.feed(committed)
        hub.flush(float(number))
    gc.collect()
    full = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return idle / len(clients), full / len(clients)
