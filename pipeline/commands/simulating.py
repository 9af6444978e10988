"""``simulate``: made-up sessions into a folder or onto the topics."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.config import Config, ConfigError
from pipeline.ports import OutRecord
from pipeline.simulate import FAULTS, SimulatedSession, fleet, transcript_path

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
            "foldstream simulate --sessions 1000 --seed 7 --to kafka --bootstrap broker:9092\n"
            "foldstream simulate --sessions 5 --faults bad-json,gap,wrong-op --to ./damaged"
        ),
    )
    number(parser, "--sessions", "how many (200)")
    number(parser, "--events-per-session", "about so many each (120)")
    number(parser, "--seed", "of the first session (0)")
    parser.add_argument("--rate", type=float, metavar="R", help="lines per second (unbounded)")
    parser.add_argument("--to", metavar="kafka|DIR", help="where they go (kafka)")
    parser.add_argument(
        "--faults",
        metavar="KIND,…",
        help=f"damage each session by these kinds, or `all`: {', '.join(FAULTS)} (none)",
    )
    arguments.topics(parser)


def run(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """Into a folder as files, or straight onto the events topic."""
    if settings.to != "kafka":
        make(settings, Path(settings.to), terminal)
        return DONE
    broker = brokers.named(settings)
    brokers.require_topics(settings, "events")
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
            path = transcript_path(root, session)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb", 0 if settings.rate else -1) as file:
                for line in session.lines:
                    file.write(line + b"\n")
                    pace()
            paths.append(path)
    return paths


@contextmanager
def _counted(settings: Config, terminal: Terminal) -> Iterator[Iterator[SimulatedSession]]:
    """The sessions asked for, with progress."""
    wanted, kinds = settings.sessions, _kinds(settings.faults)
    with terminal.progress("simulate", "sessions", wanted) as step:

        def sessions() -> Iterator[SimulatedSession]:
            made = fleet(settings.seed, wanted, events=settings.events_per_session, faults=kinds)
            for done, session in enumerate(made, 1):
                yield session
                step(done)

        yield sessions()


def _kinds(faults: str) -> tuple[str, ...]:
    """The kinds of damage asked for."""
    if faults == "all":
        return FAULTS
    kinds = tuple(kind.strip() for kind in faults.split(",") if kind.strip())
    if unknown := sorted(set(kinds) - set(FAULTS)):
        raise ConfigError(
            f"--faults: no such kind: {', '.join(unknown)}", f"one of {', '.join(FAULTS)}, or all"
        )
    return kinds


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
