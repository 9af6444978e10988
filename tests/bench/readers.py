"""What the readers of figures add to decode and fold, and to the head of a settled session."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from operators.events import Event
from operators.readers.rooms import Readers
from operators.session import Out, Session
from schemas.inbound import read_line
from tests.operators.readers.figuring import Figuring, Read, read

from . import corpus
from .measure import Figure, Options, figures, interleaved


class Rich(Struct, frozen=True):
    """A log, and its events with all that readers look at, read before."""

    log: corpus.Log
    reads: list[Read]


def run(options: Options) -> Iterable[Figure]:
    logs = [Rich(log, [read(line) for line in log.lines]) for log in corpus.mixed(options)]
    count = sum(len(rich.reads) for rich in logs)
    seconds = interleaved(
        {
            "decode + fold": lambda: fold(logs, figured=False),
            "decode + fold + readers": lambda: fold(logs, figured=True),
        },
        options.rounds,
    )
    sizes = sorted(head_size(rich.reads) for rich in logs)
    head = Figure("head of the readers", "bytes", sizes[0], sizes[len(sizes) // 2])
    return [*figures(seconds, count, "decode + fold", {"decode + fold + readers": 1.4}), head]


def fold(logs: list[Rich], *, figured: bool) -> None:
    """As ``corpus.fold``: in batches, each into copies."""
    for rich in logs:
        state, readers = Session(rich.log.session), Readers()
        for start in range(0, len(rich.log.lines), corpus.BATCH):
            batch = slice(start, start + corpus.BATCH)
            state, out = state.fork(), Out()
            readers = readers.fork() if figured else readers
            for line, one in zip(rich.log.lines[batch], rich.reads[batch], strict=True):
                before = state.as_of_seq
                state.take(read_line(line), out)
                event = one.rich if figured and state.as_of_seq != before else None
                if isinstance(event, Event) and readers.needs(event):
                    readers.take(event, state, out)
            for _ in out.changes(state):
                pass


def head_size(reads: list[Read]) -> int:
    return len(msgspec.json.encode(Figuring().take_all(reads).readers.saved()))
