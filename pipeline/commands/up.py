"""``up``: everything on one machine, and the demonstration."""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from pipeline.config import Config, ConfigError
from pipeline.errors import Fatal, PipelineError
from pipeline.patient import PatientReader
from pipeline.ports import Reader
from pipeline.retry import SystemClock
from pipeline.topics import ROLES
from pipeline.wiring import Running, build

from . import arguments, brokers, checking, demo, gateway, ingesting, listing, paths, playing
from .arguments import DONE, FAILED, Commands, command, number, switch
from .gateway import LISTEN
from .stopping import STOPPING, stopping
from .terminal import Terminal
from .workers import Restoring, worker_settings

POLL_S = 0.25  #: between two looks at how far the worker is
LOOK_S = 0.25  #: between two looks for what sessions add


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "up",
        run,
        "run everything on this machine: broker, topics, worker, gateway, ingest",
        about=(
            "--broker auto takes a real local Apache Kafka where Java 17+ and Maven are, else a\n"
            "broker in memory, and says which and why. With --dir its data stays for the next\n"
            "time. What sessions add below --ingest is sent as they write it, and is seen on the\n"
            "page whose address is printed, or by `foldstream show SESSION --follow`. Ctrl-C ends\n"
            "it all. --demo proves simulated sessions, then simulates some that go on."
        ),
        example=(
            "foldstream up --demo --once               simulated sessions, proven, then the end\n"
            "foldstream up --ingest ~/.harness/sessions\n"
            "foldstream up --broker broker:9092 --ingest ./sessions"
        ),
    )
    parser.add_argument(
        "--broker",
        metavar="auto|kafka|memory|HOST:PORT",
        help="which (auto; the one of --bootstrap if given)",
    )
    number(parser, "--port", "of the local Kafka on 127.0.0.1 (19092, or any free one)", "P")
    parser.add_argument(
        "--ingest", metavar="DIR", help="send the session logs below DIR, and what they add"
    )
    switch(parser, "--demo", "send simulated sessions, and show what comes of them")
    switch(parser, "--once", "end when everything is folded and verified")
    parser.add_argument("--dir", metavar="D", help="keep the local Kafka's data in this folder")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"where the page is ({LISTEN}, or any free port; not with --once)",
    )
    arguments.strict_sessions(parser, "park every session at its first fault")
    arguments.redaction(parser, "rules of what is taken out of all that is published (README)")
    number(parser, "--sessions", "simulated ones of the demo (200)")
    number(parser, "--events-per-session", "about so many each (120)")
    number(parser, "--seed", "of the first one (0)")
    arguments.topics(parser)


def run(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """Broker, topics, worker, ingest; then the report, or until Ctrl-C."""
    settings = _named(settings, args.effective.origins)
    stop = threading.Event()
    roots = [Path(settings.ingest)] if settings.ingest else []
    paths.existing(roots)
    if settings.once:  # else the first session may be yet to come
        paths.holding_logs(roots)
    with (
        tempfile.TemporaryDirectory(prefix="foldstream-demo-") as folder,
        brokers.local(settings, terminal.say) as broker,
    ):
        where = "" if not isinstance(broker.at, str) else f" on {broker.at}"
        terminal.text(f"broker: {broker.kind}{where} ({broker.why})")
        broker.create_topics(terminal.say)
        code = DONE
        with ExitStack() as stack:
            page = "" if settings.once else stack.enter_context(_page(broker, settings, folder))
            if settings.demo:
                roots.append(demo.make(settings, Path(folder), terminal))
            worker = stack.enter_context(_worker(broker, stop, terminal))
            sending = None
            if roots:
                sending = stack.enter_context(ingesting.opened(broker, terminal))
                counts = sending.once(roots)
                terminal.text(ingesting.told(counts))
                if settings.once or settings.demo:
                    _caught_up(broker, worker, terminal)
                    code = _report(broker, settings, terminal)
                code = code or (ingesting.code(counts) if counts.sessions else DONE)
            if not settings.once:
                if settings.demo:
                    stack.enter_context(_going_on(settings, roots[-1]))
                with stopping(stop, lambda _: terminal.say(STOPPING)):
                    _invite(broker, page, terminal)
                    if sending is not None:
                        sending.ingest.follow(roots, SystemClock(), stop.is_set, LOOK_S)
                    stop.wait()
                worker.check()
    return code


def _named(settings: Config, origins: Mapping[str, str]) -> Config:
    """``--bootstrap`` names the broker too. The stronger source wins: flag, environment, file; in a
    file, which may hold every key, a default says nothing."""

    def strength(key: str) -> int:
        origin = origins.get(key, "default")
        default = getattr(settings, key) == getattr(Config(), key)
        strengths = {"default": 0, "environment": 2, "flag": 3}
        return strengths.get(origin, 0 if default else 1)

    if strength("bootstrap") > strength("broker"):
        return replace(settings, broker=settings.bootstrap)
    if strength("bootstrap") == strength("broker") > 0 and settings.bootstrap != settings.broker:
        raise ConfigError(
            f"--broker {settings.broker} and --bootstrap {settings.bootstrap} are two brokers",
            "give one of them",
        )
    return settings


# --- the worker beside us -------------------------------------------------------------------------


class _Worker:
    """A worker in a thread of its own; what ended it is raised where its work is waited for."""

    def __init__(self, running: Running, stop: threading.Event) -> None:
        self.running = running
        self.stop = stop
        self._error: PipelineError | None = None
        self._clean = False
        self._thread = threading.Thread(target=self._run, name="worker")

    def _run(self) -> None:
        try:
            self.running.run()
            self._clean = True
        except PipelineError as error:
            self._error = error
        finally:
            self.stop.set()

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Raise what ended it, if it did not end well."""
        if self._error is not None:
            raise self._error
        if not self._thread.is_alive() and not self._clean:
            raise Fatal("the worker died", "its traceback above is a bug: report it")

    def end(self) -> None:
        self.stop.set()
        self._thread.join()


@contextmanager
def _worker(broker: brokers.Broker, stop: threading.Event, terminal: Terminal) -> Iterator[_Worker]:
    settings = worker_settings(broker.settings, broker.at, stop, stop_at_end=False)
    worker = _Worker(build(settings, Restoring(terminal)), stop)
    worker.start()
    try:
        yield worker
    finally:
        worker.end()


def _caught_up(broker: brokers.Broker, worker: _Worker, terminal: Terminal) -> None:
    """Return when the worker has committed all events there are."""
    topic = broker.names.of("events")
    reader = PatientReader(broker.reader())
    try:
        ends = {
            partition: reader.bounds(topic, partition)[1]
            for partition in range(reader.partitions(topic))
        }
        with terminal.progress("fold", "records", sum(ends.values())) as step:
            done = -1
            while done < sum(ends.values()):
                worker.check()
                committed = reader.committed(broker.names.application, topic)
                done = sum(min(committed.get(p, 0), end) for p, end in ends.items())
                step(done)
                time.sleep(POLL_S if done < sum(ends.values()) else 0)
    finally:
        reader.close()


def _page(broker: brokers.Broker, settings: Config, folder: str) -> AbstractContextManager[str]:
    """The gateway, its database beside the broker's data where that is kept."""
    return gateway.beside(broker, settings, Path(settings.dir or folder))


def _going_on(settings: Config, root: Path) -> AbstractContextManager[None]:
    """Simulated sessions that go on, of other seeds than those that were proven."""
    seed = settings.seed + settings.sessions
    return playing.playing(root, seed, settings.events_per_session)


def _invite(broker: brokers.Broker, page: str, terminal: Terminal) -> None:
    """What to do while it runs."""
    if isinstance(broker.at, str):
        reader = broker.reader()
        try:
            terminal.text(f"look at it: {listing.hint(reader, broker.settings, broker.at)}")
        finally:
            reader.close()
    if broker.settings.listen is None and LISTEN not in page:
        terminal.say(f"{LISTEN} is taken, so: foldstream watch --gateway {page}")
    terminal.text(f"Ctrl-C stops all\n\ndashboard: {page}")
    terminal.close()


# --- what came of it ------------------------------------------------------------------------------


def _report(broker: brokers.Broker, settings: Config, terminal: Terminal) -> int:
    reader = broker.reader()
    try:
        _counts(reader, broker, terminal)
        demo.letters(reader, broker.names, terminal)
        demo.compacted(reader, broker.names, terminal)
        verdict = checking.judged(reader, broker.names, settings, terminal)
    finally:
        reader.close()
    terminal.text(checking.sentence(verdict))
    return DONE if verdict.ok else FAILED


def _counts(reader: Reader, broker: brokers.Broker, terminal: Terminal) -> None:
    """Committed records per topic."""
    for role in ROLES:
        topic = broker.names.of(role)
        count = sum(
            sum(1 for _ in reader.read(topic, partition))
            for partition in range(reader.partitions(topic))
        )
        terminal.text(f"{topic:<24} {count:>8} records")
