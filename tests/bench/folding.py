"""Decode and fold of mixed logs against ``json.loads`` of the same lines (aim: half its time)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from schemas.inbound import read_line

from . import corpus
from .measure import Figure, Options, figures, interleaved


def run(options: Options) -> Iterable[Figure]:
    logs = corpus.mixed(options)
    lines = [line for log in logs for line in log.lines]
    seconds = interleaved(
        {
            "json.loads": lambda: _each(_loads, lines),
            "decode": lambda: _each(read_line, lines),
            "decode + fold": lambda: corpus.fold(logs),
        },
        options.rounds,
    )
    return figures(seconds, len(lines), "json.loads", {"decode + fold": 0.5})


def _each(read: Callable[[bytes], object], lines: list[bytes]) -> None:
    """Nothing is kept: what would be collected later is no part of reading."""
    for line in lines:
        read(line)


def _loads(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:  # real folders hold torn lines
        return None
