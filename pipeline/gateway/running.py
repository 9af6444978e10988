"""A gateway put together: the feed on its thread, the HTTP server on another."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import metadata

import uvicorn
from msgspec import Struct
from starlette.routing import BaseRoute

from operators.readers.money import Card
from pipeline.errors import Fatal
from pipeline.health import Address

from . import live as core
from . import page, streams
from .app import application
from .changes import Listener
from .feed import Feed, unheard
from .queues import Tally
from .security import Authorise, Token, rules_for
from .service import MakeCursor, Service
from .store import Store
from .tail import Tail

log = logging.getLogger(__name__)

SHUTDOWN_S = 5  #: what requests in hand may still take
BACKLOG = 1_024
#: A client whose machine or network is gone says nothing: what is sent to it and not confirmed for
#: so long (milliseconds) ends its connection, and what is kept for it.
UNCONFIRMED_MS = 30_000


def _nobody() -> None:
    """Nobody is connected."""


class Live(Struct, frozen=True):
    """The streams' part: told of each commit; its routes are made once the service stands. ``end``
    says good-bye to whoever is connected, before the service goes."""

    listener: Listener
    routes: Callable[[Service], Sequence[BaseRoute]]
    cursor: MakeCursor
    end: Callable[[], None] = _nobody
    tally: Callable[[], Tally] | None = None


def streaming(live: core.Live) -> Live:
    return Live(
        live.heard,
        partial(streams.routes, live),
        core.cursor_of,
        live.end,
        lambda: live.hub.tally,
    )


class Settings(Struct, frozen=True):
    """``database``: SQLAlchemy's URL. ``hosts``: more names that it is reached by. ``card``:
    prices. ``redacted``: rules take something out of what is published."""

    database: str
    address: Address
    tokens: tuple[Token, ...] = ()
    hosts: tuple[str, ...] = ()
    authorise: Authorise | None = None
    card: Card | None = None
    redacted: bool = False


class Gateway(Struct, frozen=True):
    url: str
    service: Service


@contextmanager
def serving(
    settings: Settings, tail: Callable[[], Tail], live: Live | None = None
) -> Iterator[Gateway]:
    """Serve for as long as the block runs. `Fatal` for an address that cannot be listened on, or
    that needs a token; whatever fails later is waited out, and shown as stale."""
    database = Store(settings.database)
    listening = listen(settings.address)
    stop = threading.Event()
    feed = Feed(tail, database, live.listener if live else unheard)
    feeding = threading.Thread(target=feed.run, args=(stop,), name="feed", daemon=True)
    try:
        port: int = listening.getsockname()[1]
        rules = rules_for(
            settings.address,
            port,
            settings.tokens,
            settings.hosts,
            settings.authorise,
            redacted=settings.redacted,
        )
        cursor = live.cursor if live else None
        tally = live.tally if live else None
        service = Service(
            database, feed, rules, _version(), cursor=cursor, tally=tally, card=settings.card
        )
        more = live.routes(service) if live else ()
        server = _Server(_config(service, (*page.routes(), *more)))
        answering = threading.Thread(
            target=server.run, args=([listening],), name="http", daemon=True
        )
        feeding.start()
        answering.start()
        try:
            yield Gateway(f"http://{Address(settings.address.host, port)}", service)
        finally:
            if live:
                live.end()
            server.should_exit = True
            stop.set()
            answering.join(2 * SHUTDOWN_S)
            feeding.join(2 * SHUTDOWN_S)
    finally:
        listening.close()
        database.close()


class _Server(uvicorn.Server):
    """Its signals are the command's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(service: Service, more: Sequence[BaseRoute]) -> uvicorn.Config:
    return uvicorn.Config(
        application(service, more),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="websockets-sansio",
        timeout_graceful_shutdown=SHUTDOWN_S,
        backlog=BACKLOG,
    )


def listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNCONFIRMED_MS)
    try:
        listening.bind((address.host, address.port))
        listening.listen(BACKLOG)  # whoever comes before the server runs waits for it
    except OSError as error:
        listening.close()
        raise Fatal(
            f"--listen {address}: {error.strerror or error}",
            "name a free port and an address of this machine (port 0: any free one)",
        ) from error
    return listening


def _version() -> str:
    try:
        return metadata.version("foldstream")
    except metadata.PackageNotFoundError:  # run from its sources
        return "0"
