"""Is the worker alive, may it be counted on: `Health` knows, and `serve` answers over HTTP.

``/livez``: the loop has turned lately; else the process is best restarted. ``/readyz``: it is in
its group and the states of all its partitions are restored. Both are 200 or 503 with a JSON object
that says why not. ``/metrics``: what Prometheus reads.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec
from msgspec import Struct
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from .commit import Folded
from .config import ConfigError
from .errors import Fatal, Retriable
from .observe import Observer
from .ports import Polled

log = logging.getLogger(__name__)

#: Longer than anything the loop does between two words: a rebuild with its pauses takes 30 s at
#: most, a batch whose every call runs into its limit 40.
LIVE_S = 60.0

#: A client that does not say what it wants, or takes no answer, is left.
CLIENT_S = 10.0


#: Between two looks whether the server is to end.
STOP_S = 0.1

LOOPBACK = "127.0.0.1"


class Address(Struct, frozen=True):
    """Where to listen: this machine alone, unless told otherwise. Port 0: any free one."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Self:
        """``HOST:PORT``, ``[::1]:PORT``, or the port alone; `ConfigError` if it is none of them."""
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or int(port) > 65_535 or text.startswith(":"):
            raise ConfigError(
                f"--listen {text!r} is no address",
                "write HOST:PORT, e.g. 127.0.0.1:9464; 0.0.0.0 is every address of this machine",
            )
        return cls(host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Verdict(Struct, frozen=True):
    """``why`` it is not so, empty when it is."""

    ok: bool
    why: list[str]
    details: Mapping[str, Any]

    def document(self) -> bytes:
        return msgspec.json.encode({"ok": self.ok, "why": self.why, **self.details})


class Health(Observer):
    """Told by the loop on its thread, asked on others."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._heard = monotonic()
        self._joined = False
        self._restoring: dict[int, str] = {}  # what is said of each partition that is not restored
        self._restored: set[int] = set()
        self._failure: str | None = None

    def live(self) -> Verdict:
        with self._lock:
            silent = self._monotonic() - self._heard
        why = []
        if silent > LIVE_S:
            why.append(f"the loop has not turned for {silent:.0f} s ({LIVE_S:.0f} are allowed)")
        return Verdict(not why, why, {"turned_seconds_ago": round(silent, 1)})

    def ready(self) -> Verdict:
        with self._lock:
            why = [] if self._joined else ["not in the consumer group"]
            if self._failure is not None:
                why.append(f"starting over: {self._failure}")
            why += [f"partition {p}: {said}" for p, said in sorted(self._restoring.items())]
            details = {"restored": sorted(self._restored), "restoring": sorted(self._restoring)}
        return Verdict(not why, why, details)

    # --- what the loop tells ----------------------------------------------------------------------

    def turned(self) -> None:
        with self._lock:
            self._heard = self._monotonic()

    def polled(self, polled: Polled) -> None:
        with self._lock:
            self._heard = self._monotonic()
            self._joined = polled.member.joined

    def rebalanced(self, revoked: tuple[int, ...], assigned: tuple[int, ...]) -> None:
        with self._lock:
            for partition in revoked:
                self._restoring.pop(partition, None)
            self._restored.difference_update(revoked, assigned)
            self._restoring.update(dict.fromkeys(assigned, _WAITING))

    def restoring(self, partition: int, done: int, total: int) -> None:
        with self._lock:
            self._heard = self._monotonic()
            self._restoring[partition] = f"{done} of {total} offsets of its states are restored"

    def restored(
        self,
        partition: int,
        sessions: int,  # noqa: ARG002 - for metrics
        records: int,  # noqa: ARG002
        size: int,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
    ) -> None:
        with self._lock:
            self._heard = self._monotonic()
            self._restoring.pop(partition, None)
            self._restored.add(partition)

    def batch(self, folded: Folded, seconds: Mapping[str, float]) -> None:  # noqa: ARG002
        self.turned()

    def failed(self, error: Retriable) -> None:
        """Every partition is to be restored again, to whatever was committed."""
        with self._lock:
            self._heard = self._monotonic()
            self._failure = error.message
            self._restoring.update(dict.fromkeys(self._restored, _WAITING))
            self._restored.clear()

    def rebuilt(self, seconds: float) -> None:  # noqa: ARG002
        with self._lock:
            self._heard = self._monotonic()
            self._failure = None


_WAITING = "its states are not restored yet"


# --- over HTTP ------------------------------------------------------------------------------------


@contextmanager
def serve(address: Address, health: Health, registry: Collector) -> Iterator[str]:
    """Answer for as long as the block runs; gives ``HOST:PORT``, the port chosen if 0 was asked
    for. `Fatal` if it cannot be listened on."""
    try:
        server = _Server(address, health, registry)
    except OSError as error:
        raise Fatal(
            f"--listen {address}: {error.strerror or error}",
            "name a free port and an address of this machine (port 0: any free one)",
        ) from error
    thread = threading.Thread(
        target=server.serve_forever, args=(STOP_S,), name="health", daemon=True
    )
    thread.start()
    try:
        yield str(Address(address.host, server.server_port))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # several may ask at once
    block_on_close = False  # a client that lingers does not keep the worker from ending

    def __init__(self, address: Address, health: Health, registry: Collector) -> None:
        self.health = health
        self.registry = registry
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), _Answers)

    def server_bind(self) -> None:
        """Without the name look-up of the base class, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """A client that goes away is nothing; anything else is a bug of ours."""
        error = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(error, OSError) else logging.ERROR
        log.log(level, "answering over HTTP failed: %s", error, exc_info=error)


class _Answers(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_S
    server_version = "foldstream"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        log.debug("%s %s", self.address_string(), format % args)

    def _answer(self, *, with_body: bool) -> None:
        status, kind, body = self._found(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _found(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        health = self.server.health
        match path:
            case "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept") or "")
                return HTTPStatus.OK, kind, encode(self.server.registry)
            case "/livez":
                return _verdict(health.live())
            case "/readyz":
                return _verdict(health.ready())
            case _:
                known = msgspec.json.encode({"paths": ["/livez", "/metrics", "/readyz"]})
                return HTTPStatus.NOT_FOUND, _JSON, known


_JSON = "application/json"


def _verdict(verdict: Verdict) -> tuple[HTTPStatus, str, bytes]:
    status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return status, _JSON, verdict.document()
