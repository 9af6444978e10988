"""What the readers add to decode and fold (aim: at most 40 % more), and to a settled session."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from operators.readers.rooms import Readers, fold_line
from operators.session import Out, Session
from schemas.inbound import read_line

from . import corpus
from .measure import Figure, Options, figures, interleaved


def run(options: Options) -> Iterable[Figure]:
    logs = corpus.mixed(options)
    count = sum(len(log.lines) for log in logs)
    seconds = interleaved(
        {
            "decode + fold": lambda: corpus.fold(logs),
            "decode + fold + readers": lambda: fold(logs),
        },
        options.rounds,
    )
    sizes = sorted(head_size(log) for log in logs)
    head = Figure("head of the readers", "bytes", sizes[0], sizes[len(sizes) // 2])
    return [*figures(seconds, count, "decode + fold", {"decode + fold + readers": 1.4}), head]


def fold(logs: list[corpus.Log]) -> None:
    """As ``corpus.fold``: in batches, each into copies."""
    for log in logs:
        state, readers = Session(log.session), Readers()
        for start in range(0, len(log.lines), corpus.BATCH):
            state, readers, out = state.fork(), readers.fork(), Out()
            for line in log.lines[start : start + corpus.BATCH]:
                fold_line(readers, read_line(line), state, out)
            for _ in out.changes(state):
                pass


def head_size(log: corpus.Log) -> int:
    state, readers, out = Session(log.session), Readers(), Out(partials=False)
    for line in log.lines:
        fold_line(readers, read_line(line), state, out)
    return len(msgspec.json.encode(readers.saved()))
