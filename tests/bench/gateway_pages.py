"""A page of a transcript, or of raw events, over HTTP: by its place, and its session's length.

A long and a short session of the same turns stand in one database, so their pages differ only by
where they are in the tables. The client is in the same process, without a socket. Of
SQLite it is processor time, as all is done here; of PostgreSQL, which works in a process of its
own, the wall's. The first request of each is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import httpx
import msgspec
from msgspec import Raw, Struct

from pipeline.gateway.app import application
from pipeline.gateway.feed import Feed
from pipeline.gateway.security import rules_for
from pipeline.gateway.service import Service
from pipeline.gateway.store import Store
from pipeline.gateway.tail import MemoryTail
from pipeline.health import Address
from pipeline.memory import MemoryBroker
from tests.postgres import NoPostgres, postgres

from . import corpus, gateway_topics
from .measure import Clock, Figure, Options, Work, interleaved

LONG = 200_000  #: events
PERIODS = 6  #: of the short one, about 2 000 events
AIM_MS = 20.0
AIM_RATIO = 1.2  #: of the long session's page to the short one's
EACH = 5  #: requests of a round
RAW = "raw before"
WAYS = ("before", "after", "around", RAW)
PLACES = ("start", "middle", "end")
HERE = "127.0.0.1:8080"


class Page(Struct):
    """Of a transcript, or of raw events."""

    rows: list[Raw] = []
    events: list[Raw] = []

    @property
    def count(self) -> int:
        return len(self.rows) + len(self.events)


def run(options: Options) -> Iterable[Figure]:
    periods = {"long": options.scaled(LONG) // corpus.PERIOD, "short": PERIODS}
    steady = {name: islice(corpus.periods(), count) for name, count in periods.items()}
    broker = gateway_topics.folded({n: chain.from_iterable(some) for n, some in steady.items()})
    asked = [page for place in PLACES for page in _asked(periods, place)]
    asked += [(session, "newest", f"/v1/sessions/{session}/transcript") for session in periods]
    gc.collect()
    gc.freeze()  # the topics are not to be looked through while pages are measured
    for name, url, clock in _databases():
        with _service(url, broker) as service:
            yield from _figures(name, *_measured(service, asked, options.rounds * EACH, clock))
    gc.unfreeze()


def _asked(periods: Mapping[str, int], place: str) -> Iterator[tuple[str, str, str]]:
    """Session, name and address of pages; in both sessions they hold the same, but for numbers."""
    for way in WAYS:
        for session, count in periods.items():
            at = {"start": 1, "middle": count // 2, "end": count - 1}[place] * corpus.PERIOD
            what = f"events?before={at}" if way == RAW else f"transcript?{way}={at}"
            yield session, f"{way}, {place}", f"/v1/sessions/{session}/{what}"


def _figures(
    database: str, seconds: Mapping[str, list[float]], sizes: Mapping[str, tuple[int, int]]
) -> Iterator[Figure]:
    worst = max(seconds.values(), key=median)
    least, middle = (1e3 * taken for taken in (min(worst), median(worst)))
    bound = f"{AIM_MS:g} ms"
    yield Figure(
        *(f"{database}: slowest page", "ms", least, middle),
        *(bound, least / AIM_MS, middle / AIM_MS, 1.0),
    )
    for name in (each.removeprefix("long ") for each in seconds if each.startswith("long ")):
        long, short = seconds[f"long {name}"], seconds[f"short {name}"]
        count, size = sizes[name]
        pairs = [one / other for one, other in zip(long, short, strict=True)]
        yield Figure(
            f"{database}: {name} ({count}, {size / 1024:.0f} KiB)",
            *("ms", 1e3 * min(long), 1e3 * median(long)),
            "a short session's",
            *(min(long) / min(short), median(pairs), AIM_RATIO),
        )


# --- asking ---------------------------------------------------------------------------------------


def _measured(
    service: Service, asked: Iterable[tuple[str, str, str]], rounds: int, clock: Clock
) -> tuple[dict[str, list[float]], dict[str, tuple[int, int]]]:
    """Seconds of each page of each session in every round; how many it holds, and its bytes."""
    sizes: dict[str, tuple[int, int]] = {}
    sides: dict[str, Work] = {}
    with asyncio.Runner() as runner:
        client = _client(service)

        def get(url: str) -> bytes:
            return runner.run(_get(client, url))

        for session, name, url in asked:
            body = get(url)
            size = (msgspec.json.decode(body, type=Page).count, len(body))
            assert sizes.setdefault(name, size)[0] == size[0], "pages are not alike"
            sides[f"{session} {name}"] = partial(get, url)
        found = interleaved(sides, rounds, clock)
        runner.run(client.aclose())
    return found, sizes


def _client(service: Service) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(application(service), client=("127.0.0.1", 5))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{HERE}")


async def _get(client: httpx.AsyncClient, url: str) -> bytes:
    answer = await client.get(url)
    assert answer.status_code == 200, answer.text
    return answer.content


# --- what is asked --------------------------------------------------------------------------------


def _databases() -> Iterator[tuple[str, str, Clock]]:
    """Names, addresses of empty ones, there until the next is asked for, and what times them."""
    with tempfile.TemporaryDirectory() as folder:
        yield "SQLite", f"sqlite:///{Path(folder) / 'read.db'}", process_time
    try:
        with postgres() as url:
            yield "PostgreSQL", url, perf_counter
    except NoPostgres as reason:
        sys.stderr.write(f"  without PostgreSQL: {reason}\n")


@contextmanager
def _service(url: str, broker: MemoryBroker) -> Iterator[Service]:
    """A gateway's over the topics, all of which it has read."""
    store = Store(url)
    feed = Feed(lambda: MemoryTail(broker, gateway_topics.NAMES, "bench"), store)
    start = perf_counter()
    feed.catch_up()
    sys.stderr.write(f"  {feed.counts['records']} records read in {perf_counter() - start:.0f} s\n")
    try:
        yield Service(store, feed, rules_for(Address("127.0.0.1", 8080), 8080), "bench")
    finally:
        store.close()
