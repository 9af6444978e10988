"""What an event costs in batches that hold few events of each session, as a live worker commits
them: input bytes to output and state bytes (``fold_batch``), against ``json.loads`` of the lines
and against ten events of each session to a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial

from operators.session import Session
from pipeline.batch import fold_batch
from pipeline.ports import InRecord
from pipeline.simulate import SHAPES, simulate

from . import corpus
from .measure import Figure, Options, figures, interleaved

EVENTS = 200  #: of a session
SESSIONS = 40  #: at size 1
PER_BATCH = (1, 2, 10, 100)  #: events of each session to a batch
BASE = 10


def run(options: Options) -> Iterable[Figure]:
    logs = _logs(options)
    lines = [line for log in logs for line in log.lines]
    loads, sides = "json.loads", {per: f"{per} of each session to a batch" for per in PER_BATCH}
    seconds = interleaved(
        {loads: partial(_loads, lines)}
        | {name: partial(_fold, _batches(logs, per)) for per, name in sides.items()},
        options.rounds,
    )
    yield from figures(seconds, len(lines), loads)
    del seconds[loads]
    yield from figures(seconds, len(lines), sides[BASE])[1:]


def _logs(options: Options) -> list[corpus.Log]:
    logs = []
    for seed in range(1, options.scaled(SESSIONS) + 1):
        made = simulate(seed, events=EVENTS, shape=SHAPES[seed % len(SHAPES)])
        logs.append(corpus.Log(made.id, made.lines))
    return logs


def _batches(logs: list[corpus.Log], per: int) -> list[list[InRecord]]:
    """All sessions side by side, ``per`` lines of each to a batch."""
    batches: list[list[InRecord]] = []
    offset = 0
    for start in range(0, max(len(log.lines) for log in logs), per):
        batch = []
        for log in logs:
            for line in log.lines[start : start + per]:
                key = log.session.encode()
                batch.append(InRecord("e", 0, offset, corpus.TIME, key, line))
                offset += 1
        batches.append(batch)
    return batches


def _loads(lines: list[bytes]) -> None:
    for line in lines:
        json.loads(line)


def _fold(batches: list[list[InRecord]]) -> None:
    states: dict[str, Session] = {}
    for batch in batches:
        states |= fold_batch(batch, states).states
