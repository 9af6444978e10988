"""Live frames to 400 clients on 100 sessions, over sockets: delay, processor time, memory, rate.

The gateway is a process of its own (`gateway_server.py`); this one holds the clients, which look at
nothing but the frames' times. A delivery is a frame that one client has. Its delay counts from when
the frame was due, so that a late one is no better than one that was kept. A frozen client reads
nothing at all; its half of the load stands between two quarters without it.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import repeat

from msgspec import Struct

from .gateway_server import Load, Server, server
from .measure import Figure, Options

SESSIONS = 100
CLIENTS = 400
RATE = 10  #: frames per second and session
AIM_MS = 500.0  #: p99
AIM_BYTES = 60_000  #: of memory for a client
AIM_FROZEN = 1.2  #: p99 of the others, beside that without a frozen one
FROZEN_SESSIONS = 50  #: it watches as many as a stream may, so that it is soon too slow
FROZEN_S = 60.0  #: then another comes: by now it should have been cut off
PATIENCE_S = 5.0  #: for the last deliveries
STEPS = 12  #: the load's parts; each rate of the ladder is held for one
WARM_S = 1.0
TIMES = re.compile(rb"@(\d{19})")
LIVE = b"event: cursor"  #: what was held has been told


class Side(Struct):
    """What came of a load: delays in ms, in order; the others in seconds, as `Fed` has them."""

    delays: list[float]
    expected: int
    cpu: float
    waited: float
    late: float

    def at(self, share: float) -> float:
        return self.delays[min(int(share * len(self.delays)), len(self.delays) - 1)]

    @property
    def all_came(self) -> bool:
        return len(self.delays) >= self.expected


def run(options: Options) -> Iterable[Figure]:
    with server(SESSIONS, CLIENTS + 1) as gateway:
        yield from asyncio.run(_measured(gateway, options.seconds))


async def _measured(gateway: Server, seconds: float) -> list[Figure]:
    async with _clients(gateway, 1) as deliveries:
        await _load(gateway, deliveries, Load(RATE, WARM_S), 1)
    before = await asyncio.to_thread(gateway.usage)
    async with _clients(gateway, CLIENTS) as deliveries:
        idle = await asyncio.to_thread(gateway.usage)

        async def loaded(rate: float, part: float) -> Side:
            return await _load(gateway, deliveries, Load(rate, seconds * part), CLIENTS)

        alone = [await loaded(RATE, 0.5)]
        full = await asyncio.to_thread(gateway.usage)
        async with _frozen(gateway):
            frozen = await loaded(RATE, 1.0)
        slow = await asyncio.to_thread(gateway.usage)
        alone.append(await loaded(RATE, 0.5))
        held = await _ladder(gateway, deliveries, seconds / STEPS)
    return [
        *_delays(_joined(alone), frozen),
        _figure("resyncs of the frozen clients", "", slow.resyncs - full.resyncs),
        _figure("frozen clients cut off", "", slow.closed - full.closed),
        _figure("memory of a client, idle", "bytes", (idle.resident - before.resident) / CLIENTS),
        _figure(
            *("memory of a client, served", "bytes", (full.resident - before.resident) / CLIENTS),
            AIM_BYTES,
        ),
        *held,
    ]


def _delays(alone: Side, frozen: Side) -> Iterator[Figure]:
    count = len(alone.delays)
    yield _figure("deliveries that did not come", "", alone.expected - count)
    yield _figure(f"frame to client, p50 of {count}", "ms", alone.at(0.5))
    yield _figure("frame to client, p99", "ms", alone.at(0.99), AIM_MS)
    yield _figure("frame to client, max", "ms", alone.at(1.0))
    yield _figure("a frame was fed late, max", "ms", 1e3 * alone.late)
    yield _figure("the gateway waited for a processor", "% of its work", _share(alone))
    p99, ratio = frozen.at(0.99), frozen.at(0.99) / alone.at(0.99)
    of = (p99, p99, "p99 without", ratio, ratio, AIM_FROZEN)
    yield Figure("p99 of the others, one frozen", "ms", *of)
    yield _figure("the same, did not come", "", frozen.expected - len(frozen.delays))
    yield _figure("CPU per delivery", "us", alone.cpu / count * 1e6)


def _share(side: Side) -> float:
    """A machine that others use makes every delay longer: how much so."""
    return 100 * side.waited / side.cpu


async def _ladder(gateway: Server, deliveries: _Deliveries, seconds: float) -> list[Figure]:
    """Twice the rate each time, until it is too much."""
    rate = RATE
    found: list[Figure] = []
    while True:
        side = await _load(gateway, deliveries, Load(rate, seconds), CLIENTS)
        held = side.all_came and side.at(0.99) <= AIM_MS
        told = "" if held else ": not held"
        missing = side.expected - len(side.delays)
        sys.stderr.write(
            f"  {rate} frames/s: p99 {side.at(0.99):.0f} ms, {missing} missing{told}\n"
        )
        if not held:
            return found
        found = [
            _figure(f"largest rate held for {seconds:g} s", "frames/s/session", rate),
            _figure("the same", "deliveries/s", rate * CLIENTS),
            _figure("its p99", "ms", side.at(0.99)),
            _figure("its CPU per delivery", "us", side.cpu / len(side.delays) * 1e6),
        ]
        rate *= 2


def _joined(sides: list[Side]) -> Side:
    return Side(
        sorted(delay for side in sides for delay in side.delays),
        sum(side.expected for side in sides),
        sum(side.cpu for side in sides),
        sum(side.waited for side in sides),
        max(side.late for side in sides),
    )


def _figure(what: str, unit: str, value: float, at_most: float | None = None) -> Figure:
    if at_most is None:
        return Figure(what, unit, value, value)
    ratio = value / at_most
    return Figure(what, unit, value, value, f"{at_most:g} {unit}", ratio, ratio, 1.0)


# --- the clients ----------------------------------------------------------------------------------


class _Deliveries:
    """The delays, in ms, of all that came to any client."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._since = 0  # ns; frames of before are stragglers
        self._expected: int | None = None
        self._all = asyncio.Event()

    def begin(self) -> None:
        self.delays = []
        self._since = time.monotonic_ns()
        self._expected = None
        self._all.clear()

    def took(self, now: int, due: Iterable[int]) -> None:
        """At a time, in ns, frames that were due at others."""
        self.delays += [(now - at) / 1e6 for at in due if at >= self._since]
        if self._expected is not None and len(self.delays) >= self._expected:
            self._all.set()

    async def until(self, expected: int) -> None:
        """So many have come, or no more seem to."""
        self._expected = expected
        self.took(0, ())
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._all.wait()


async def _load(gateway: Server, deliveries: _Deliveries, load: Load, clients: int) -> Side:
    deliveries.begin()
    own = time.process_time()
    fed = await asyncio.to_thread(gateway.feed, load)
    own = (time.process_time() - own) / load.seconds
    expected = fed.frames * clients // SESSIONS
    await deliveries.until(expected)
    server_had, waited = fed.cpu / load.seconds, fed.waited / load.seconds
    sys.stderr.write(
        f"  {load.rate:g} frames/s for {load.seconds:g} s: of a processor the gateway had"
        f" {server_had:.2f} and waited for {waited:.2f}, the clients had {own:.2f}\n"
    )
    return Side(sorted(deliveries.delays), expected, fed.cpu, fed.waited, fed.late)


class _Reader(asyncio.Protocol):
    """Notes how late each frame is. ``live`` is set once its stream has begun."""

    def __init__(self, path: str, port: int, deliveries: _Deliveries) -> None:
        self._request = _request(path, port)
        self._deliveries = deliveries
        self._rest = b""
        self.live = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        whole, mark, self._rest = (self._rest + data).rpartition(b"\n\n")
        if mark:
            self._deliveries.took(now, map(int, TIMES.findall(whole)))
            if not self.live.is_set() and LIVE in whole:
                self.live.set()


def _request(path: str, port: int) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()


@asynccontextmanager
async def _clients(gateway: Server, count: int) -> AsyncIterator[_Deliveries]:
    """Connected and told what there is."""
    deliveries = _Deliveries()
    loop, port = asyncio.get_running_loop(), gateway.port
    transports = []
    try:
        for number in range(count):
            path = f"/v1/stream?session=s{number % SESSIONS}"
            transport, reader = await loop.create_connection(
                partial(_Reader, path, port, deliveries), "127.0.0.1", port
            )
            transports.append(transport)
            async with asyncio.timeout(60):
                await reader.live.wait()
        yield deliveries
    finally:
        for transport in transports:
            transport.abort()


@asynccontextmanager
async def _frozen(gateway: Server) -> AsyncIterator[None]:
    """At any time one client that has asked and reads nothing."""
    asked = "&".join(f"session=s{number}" for number in range(FROZEN_SESSIONS))
    request = _request(f"/v1/stream?{asked}", gateway.port)

    async def freeze() -> None:
        for _ in repeat(None):
            with socket.socket() as silent:
                silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                silent.connect(("127.0.0.1", gateway.port))
                silent.sendall(request)
                await asyncio.sleep(FROZEN_S)

    freezing = asyncio.create_task(freeze())
    try:
        yield
    finally:
        freezing.cancel()
