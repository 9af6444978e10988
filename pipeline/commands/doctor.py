"""``doctor``: what is wrong with a deployment, or will be."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import msgspec

from pipeline.config import Config
from pipeline.doctor import Finding, Surroundings, examine, machine
from pipeline.errors import PipelineError
from pipeline.plain import visible_line
from pipeline.store.folder import state_folder

from . import arguments, brokers
from .arguments import DONE, FAILED, Commands, command, json_output
from .terminal import Terminal

PAUSE_S = 3.0  #: between two looks at what should move: longer than any batch takes
LIBRARIES = ("kafka-python", "crc32c")

ABOUT = """\
Looks at this machine, the brokers, the topics and their copies, the settings that transactions rest
on, clocks, the consumer group, its lag, transactions that hang, and the local store. Writes
nothing. Each finding: ok, warn or fail, what it is, where, and what to do. What it has no right to
see is a finding, too. Takes about ten seconds. Exits 1 if anything fails."""


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "doctor",
        diagnose,
        "check broker, topics, settings, client, lag and hanging transactions",
        about=ABOUT,
        example=(
            "foldstream doctor --bootstrap broker:9092\n"
            "foldstream doctor --json | jq 'select(.level != \"ok\")'"
        ),
    )
    arguments.topics(parser)
    parser.add_argument("--instance", help="the worker whose local store to look at")
    parser.add_argument("--state-dir", metavar="DIR", help="as the worker was given")
    json_output(parser, "each finding")


def diagnose(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """Each finding as it is made, then how many there were."""
    counts = {"ok": 0, "warn": 0, "fail": 0}
    for finding in _findings(settings):
        counts[finding.level] += 1
        if settings.json:
            terminal.data(msgspec.json.encode(finding))
        else:
            terminal.text(visible_line(str(finding)))
    terminal.say(f"doctor: {counts['fail']} fail, {counts['warn']} warn, {counts['ok']} ok")
    return FAILED if counts["fail"] else DONE


def _findings(settings: Config) -> Iterator[Finding]:
    yield from machine.client({name: _version(name) for name in LIBRARIES}, sys.version_info[:3])
    from pipeline.kafka.doctor import KafkaProbe  # noqa: PLC0415 - the client may be what is amiss

    try:
        probe = KafkaProbe(brokers.cluster(settings))
    except PipelineError as error:
        yield Finding("fail", "broker", settings.bootstrap, error.message, error.remedy)
        return
    with probe:
        names = brokers.names(settings)
        about = Surroundings(names, settings.bootstrap, _now_ms, lambda: time.sleep(PAUSE_S))
        yield from examine(probe, about)
        yield from _store(settings)


def _store(settings: Config) -> Iterator[Finding]:
    from pipeline.doctor.stores import look  # noqa: PLC0415 - only where there is a store
    from pipeline.kafka.origin import state_origin  # noqa: PLC0415 - as above

    instance = settings.instance or f"{socket.gethostname()}-0"
    folder = state_folder(settings.state_dir, settings.application, instance, os.environ)

    def held(path: Path) -> Iterator[Finding]:
        origin = state_origin(brokers.cluster(settings), brokers.names(settings))
        yield from look(path, origin, time.time())

    try:
        yield from machine.store(folder, held)
    except PipelineError as error:
        yield Finding("warn", "store", str(folder), f"cannot be told: {error}", error.remedy)


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
