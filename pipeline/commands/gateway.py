"""``gateway``: history for every frontend, over HTTP."""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pipeline import redaction
from pipeline.config import Config
from pipeline.memory import MemoryBroker
from pipeline.store import state_folder

from . import brokers
from .arguments import DONE, Commands, command, topics
from .arguments import redaction as redaction_rules
from .stopping import STOPPING, stopping
from .terminal import Terminal

if TYPE_CHECKING:
    from pipeline.gateway.tail import Tail

LISTEN = "127.0.0.1:8080"
FILE = "gateway.db"


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "gateway",
        gateway,
        "serve transcripts and surfaces over HTTP, history and live",
        about=(
            "Reads the topics into a database of its own, which may be deleted at any time: it is\n"
            "rebuilt from them. Any number of gateways may run, each with its own database.\n\n"
            "Only this machine is served unless there is a --token-file: a token on its first\n"
            'line, or a table of them ([[token]] with name, token, sessions = ["prod-*"]).\n'
            "What can be asked: GET /v1/openapi.json. Live: /v1/stream?session=ID (Server-Sent\n"
            "Events), /v1/overview/stream for all sessions, /v1/ws for both on a WebSocket."
        ),
        example=(
            "foldstream gateway --bootstrap broker:9092\n"
            "curl http://127.0.0.1:8080/v1/sessions\n"
            "curl -N 'http://127.0.0.1:8080/v1/stream?session=ID'\n"
            "foldstream gateway --listen 0.0.0.0:8080 --token-file tokens \\\n"
            "  --allow-host agents.example.org --database postgresql://gateway@db/gateway"
        ),
    )
    topics(parser)
    parser.add_argument(
        "--database",
        metavar="URL",
        help=(
            "sqlite:///FILE or postgresql://USER@HOST/NAME ($XDG_STATE_HOME/foldstream/… or "
            "~/.local/state/foldstream/…)"
        ),
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help=f"where it answers ({LISTEN})")
    parser.add_argument("--token-file", metavar="FILE", help="who may ask, and what they see")
    parser.add_argument(
        "--allow-host",
        dest="allow_hosts",
        action="append",
        metavar="HOST[:PORT]",
        help="a name that it is reached by, as browsers send it (repeatable)",
    )
    redaction_rules(
        parser, "the workers' rules: with any, raw events are for tokens that say raw = true"
    )
    parser.add_argument(
        "--rate-card", metavar="FILE", help="dated prices for /v1/query/cost (`query cost --help`)"
    )


def gateway(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """Until it is told to stop."""
    from pipeline.gateway.live import Live  # noqa: PLC0415
    from pipeline.gateway.running import Settings, serving, streaming  # noqa: PLC0415 - half a second
    from pipeline.gateway.security import read_tokens  # noqa: PLC0415
    from pipeline.health import Address  # noqa: PLC0415
    from pipeline.kafka.tail import KafkaTail  # noqa: PLC0415
    from pipeline.readers.ratecard import read_card  # noqa: PLC0415

    cluster, names = brokers.cluster(settings), brokers.names(settings)
    cluster.check()
    tokens = read_tokens(Path(settings.token_file)) if settings.token_file else ()
    chosen = Settings(
        settings.database or _default(settings),
        Address.of(settings.listen or LISTEN),
        tokens,
        settings.allow_hosts,
        redacted=redaction.of_settings(settings) is not None,
        card=read_card(Path(settings.rate_card)) if settings.rate_card else None,
    )
    stop = threading.Event()
    with serving(chosen, lambda: KafkaTail(cluster, names), streaming(Live())) as running:
        terminal.say(f"{running.url}/v1/sessions; Ctrl-C ends it")
        with stopping(stop, lambda _: terminal.say(STOPPING)):
            stop.wait()
    return DONE


@contextmanager
def beside(broker: brokers.Broker, settings: Config, folder: Path) -> Iterator[str]:
    """A gateway in this process, over a broker that is at hand; its address for a browser. Its
    database is in ``folder``. Any free port where the usual one is taken and none was asked for."""
    from pipeline.errors import Fatal  # noqa: PLC0415
    from pipeline.gateway.live import Live  # noqa: PLC0415
    from pipeline.gateway.running import Settings, serving, streaming  # noqa: PLC0415 - half a second
    from pipeline.health import Address  # noqa: PLC0415

    address = Address.of(settings.listen or LISTEN)
    redacted = settings.redaction is not None
    chosen = Settings(f"sqlite:///{folder / FILE}", address, redacted=redacted)
    tail, live = partial(_tail, broker), streaming(Live())
    with ExitStack() as stack:
        try:
            running = stack.enter_context(serving(chosen, tail, live))
        except Fatal:
            if settings.listen is not None:
                raise
            free = replace(chosen, address=Address(address.host, 0))
            running = stack.enter_context(serving(free, tail, live))
        yield f"{running.url}/"


def _tail(broker: brokers.Broker) -> Tail:
    """What the gateway reads, of the broker that is at hand."""
    if isinstance(broker.at, MemoryBroker):
        from pipeline.gateway.tail import MemoryTail  # noqa: PLC0415

        return MemoryTail(broker.at, broker.names, "here")
    from pipeline.kafka.tail import KafkaTail  # noqa: PLC0415

    return KafkaTail(brokers.cluster(broker.settings, broker.at), broker.names)


def _default(settings: Config) -> str:
    folder = state_folder(None, settings.application, "gateway", os.environ)
    return f"sqlite:///{folder}/{FILE}"
