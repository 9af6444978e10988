"""``simulate``: made-up sessions into a folder or onto the topics."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.config import Config
from pipeline.ports import OutRecord
from pipeline.simulate import SimulatedSession, fleet
from schemas.names import project_name, session_name

from . import arguments, brokers
from .arguments import DONE, Commands, command, number
from .terminal import Terminal


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "simulate",
        run,
        "make up sessions that look like real ones",
        about=(
            "Parallel tools, steering, retries, crashes, compactions, prunes, forks, hostile\n"
            "text, in every format shape in turn. The same seed makes the same sessions. Into a\n"
            "folder they go as a harness keeps them."
        ),
        example=(
            "foldstream simulate --sessions 20 --to ./sessions\n"
            "foldstream simulate --sessions 1000 --seed 7 --to kafka --bootstrap broker:9092"
        ),
    )
    number(parser, "--sessions", "how many (200)")
    number(parser, "--events-per-session", "about so many each (120)")
    number(parser, "--seed", "of the first session (0)")
    parser.add_argument("--rate", type=float, metavar="R", help="lines per second (unbounded)")
    parser.add_argument("--to", metavar="kafka|DIR", help="where they go (kafka)")
    arguments.topics(parser)


def run(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """Into a folder as files, or straight onto the events topic."""
    if settings.to != "kafka":
        make(settings, Path(settings.to), terminal)
        return DONE
    broker = brokers.named(settings)
    with brokers.reader(settings, "events"):
        pass  # a broker that answers, and its topic
    pace = _Pace(settings.rate)
    with broker.line_sink() as sink, _counted(settings, terminal) as sessions:
        for session in sessions:
            key = session.id.encode()
            partition = sink.partition(key)
            for line in session.lines:
                sink.send(OutRecord("events", partition, key, line, [("epoch", b"0")]))
                pace()
        sink.flush()
    return DONE


def make(settings: Config, root: Path, terminal: Terminal) -> list[Path]:
    """The sessions as files in a root of the harness's layout; one that exists is overwritten."""
    pace, paths = _Pace(settings.rate), []
    with _counted(settings, terminal) as sessions:
        for session in sessions:
            path = _file(root, session)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb", 0 if settings.rate else -1) as file:
                for line in session.lines:
                    file.write(line + b"\n")
                    pace()
            paths.append(path)
    return paths


def _file(root: Path, session: SimulatedSession) -> Path:
    folder = root / project_name(session.header.get("cwd")) / session_name(session.id)
    version = session.header["version"]
    return folder / ("session.jsonl" if version == 0 else f"session.v{version}.jsonl")


@contextmanager
def _counted(settings: Config, terminal: Terminal) -> Iterator[Iterator[SimulatedSession]]:
    """The sessions asked for, with progress."""
    wanted = settings.sessions
    with terminal.progress("simulate", "sessions", wanted) as step:

        def sessions() -> Iterator[SimulatedSession]:
            events = settings.events_per_session
            for done, session in enumerate(fleet(settings.seed, wanted, events=events), 1):
                yield session
                step(done)

        yield sessions()


class _Pace:
    """Called once per line: returns when that line is due."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._started = time.monotonic()
        self._done = 0

    def __call__(self) -> None:
        if self._rate is not None:
            self._done += 1
            time.sleep(max(0.0, self._started + self._done / self._rate - time.monotonic()))
