"""``run``: a worker."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from pipeline import redaction
from pipeline.config import Config
from pipeline.memory import MemoryBroker
from pipeline.observe import Observer, Observers
from pipeline.state import States
from pipeline.store import state_folder
from pipeline.wiring import WorkerSettings, build

from . import arguments
from .arguments import DONE, Commands, command, json_output, number, switch
from .stopping import STOPPING, stopping
from .terminal import Terminal

Watch: TypeAlias = Callable[[States, Callable[[], int]], None]

EVERY = 10_000  #: state records between two words on restoring


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "run",
        run,
        "run a worker: consume, fold, produce, commit",
        about=(
            "Any number of workers on any number of machines share the partitions. Each needs an\n"
            "--instance of its own, the same one after a restart. Ctrl-C and SIGTERM end it after\n"
            "the batch in hand; a second one ends it at once, which loses nothing either.\n\n"
            "--strict parks a session at its first fault or gap: it is put aside, in order, until\n"
            "`foldstream deadletter replay` folds it on; all others go on. Every worker and\n"
            "`foldstream verify` must be given the same patterns."
        ),
        example=(
            "foldstream run --bootstrap broker:9092\n"
            "foldstream run --bootstrap broker:9092 --instance $(hostname)-1 --once\n"
            "foldstream run --listen 0.0.0.0:9464 --log-format json --log-level info\n"
            "foldstream run --strict 'prod-*'"
        ),
    )
    arguments.topics(parser)
    parser.add_argument("--instance", help="this worker's lasting name (host name and -0)")
    switch(parser, "--once", "end when everything there is has been folded")
    switch(parser, "--skip-expired", "go on behind records that expired before they were folded")
    arguments.strict_sessions(parser, "park every session at its first fault")
    arguments.redaction(parser, "rules of what is taken out of all that is published (README)")
    number(parser, "--max-row-bytes", "rows above this have their largest fields cut (8 MiB)")
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help=(
            "keep states of sessions below DIR, so that a restart reads only what is new "
            "($XDG_STATE_HOME/foldstream or ~/.local/state/foldstream; none: in memory)"
        ),
    )
    number(parser, "--resident-bytes", "memory for sessions that are decoded (256 MiB)")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="answer /metrics, /livez and /readyz there (off); a port alone: this machine only",
    )
    json_output(parser, "the final counts")


def run(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """Until it is told to stop, or with ``--once`` until all is folded."""
    stop = threading.Event()
    worker = worker_settings(settings, settings.bootstrap, stop, stop_at_end=settings.once)
    folder = state_folder(settings.state_dir, worker.application, worker.instance, os.environ)
    worker = replace(worker, state_dir=folder)
    with observed(settings, terminal) as (observer, watch):
        running = build(worker, observer)
        watch(running.states, partial(stored, folder))
        terminal.log(settings, worker=worker.instance)  # what fails to connect says so itself
        terminal.say(f"worker {worker.transactional_id} on {settings.bootstrap}; Ctrl-C ends it")

        def told(number: int) -> None:
            if number == signal.SIGINT:  # somebody at a terminal, and nobody starts it again
                worker.leave.set()
            terminal.say(STOPPING)

        ending = stopping(stop, told)
        with ending, terminal.progress("folding", "records") as step:
            running.committed.subscribe(lambda _: step(running.totals["records"]))
            running.run()
    tell(running.totals, settings, terminal)
    return DONE


@contextmanager
def observed(settings: Config, terminal: Terminal) -> Iterator[tuple[Observer, Watch]]:
    """Who is told what the worker does: the terminal, and with ``--listen`` whoever asks; and how
    they come to see its states."""
    if settings.listen is None:
        yield Restoring(terminal), lambda _states, _stored: None
        return
    from pipeline.health import Address, Health, serve  # noqa: PLC0415 - 0.3 s, for --listen alone
    from pipeline.metrics import PrometheusObserver  # noqa: PLC0415

    address, health, metrics = Address.of(settings.listen), Health(), PrometheusObserver()
    metrics.ready(lambda: health.ready().ok)
    with serve(address, health, metrics.registry) as at:
        terminal.say(f"http://{at}/metrics, /livez, /readyz")
        yield Observers(Restoring(terminal), health, metrics), metrics.watch


def stored(folder: Path | None) -> int:
    """Bytes below ``folder``, 0 without one."""
    if folder is None:
        return 0
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # the store replaces its files all the while
            total += path.stat().st_size if path.is_file() else 0
    return total


def worker_settings(
    settings: Config, broker: str | MemoryBroker, stop: threading.Event, *, stop_at_end: bool
) -> WorkerSettings:
    """The worker of this host: unless told otherwise, its first one."""
    return WorkerSettings(
        broker=broker,
        instance=settings.instance or f"{socket.gethostname()}-0",
        prefix=settings.prefix,
        application=settings.application,
        client_options=settings.client_options,
        max_row_bytes=settings.max_row_bytes,
        skip_expired=settings.skip_expired,
        strict=settings.strict_sessions,
        redact=redaction.of_settings(settings),
        resident_bytes=settings.resident_bytes,
        stop=stop,
        stop_at_end=stop_at_end,
    )


class Restoring(Observer):
    """Says how far the states of a partition are restored, where that is worth a word."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._said: dict[int, int] = {}

    def restoring(self, partition: int, done: int, total: int) -> None:
        if done - self._said.get(partition, 0) >= EVERY:
            self._said[partition] = done
            self._terminal.say(f"partition {partition}: {done} of {total} state records restored")

    def restored(
        self, partition: int, sessions: int, records: int, size: int, seconds: float
    ) -> None:
        self._said.pop(partition, None)
        if records >= EVERY and seconds > 0:
            self._terminal.say(
                f"partition {partition}: {sessions} sessions restored, "
                f"{records / seconds:.0f} records/s, {size / seconds / 1e6:.1f} MB/s"
            )


def tell(totals: Counter[str], settings: Config, terminal: Terminal) -> None:
    """What a worker did, as data."""
    counts = dict(sorted(totals.items()))
    if settings.json:
        terminal.data(msgspec.json.encode(counts))
    else:
        terminal.text("\n".join(f"{name:<24} {count}" for name, count in counts.items()))
