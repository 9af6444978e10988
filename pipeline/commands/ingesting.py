"""``ingest``: session directories onto the events topic."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from pipeline.config import Config
from pipeline.ingest import Ingest, Progress
from pipeline.lines import LineSink
from pipeline.resume import Known, already_in, letters
from pipeline.retry import SystemClock
from schemas.deadletter import DeadLetter

from . import arguments, brokers, paths
from .arguments import DONE, REFUSED, Commands, command, json_output, number, switch
from .stopping import STOPPING, stopping
from .terminal import Step, Terminal


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "ingest",
        run,
        "send session logs to the events topic",
        about=(
            "DIR is a root as a harness keeps it, one of its projects or sessions, any folder of\n"
            ".jsonl and .jsonl.zstd files, or one file. Each line is sent once, also after a\n"
            "restart. A log without a header has its folder's name as session id, or where a\n"
            "folder holds several such, its file's name without the ending. Exits 3 if nothing\n"
            "could be read."
        ),
        example=(
            "foldstream ingest ~/.harness/sessions --bootstrap broker:9092\n"
            "foldstream ingest ./sessions --follow"
        ),
    )
    parser.add_argument("roots", nargs="+", type=Path, metavar="DIR")
    switch(parser, "--follow", "stay, and send what is added")
    number(parser, "--max-line-bytes", "a longer line is a dead letter (8 MiB)")
    arguments.topics(parser)
    json_output(parser, "the final counts")


def run(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """One pass, or pass after pass until it is told to stop."""
    paths.existing(args.roots)
    broker = brokers.named(settings)
    stop = threading.Event()
    brokers.require_topics(settings, "events", "deadletter")
    with opened(broker, terminal) as sending:
        if settings.follow:
            with stopping(stop, lambda _: terminal.say(STOPPING)), sending.told():
                counts = sending.ingest.follow(args.roots, SystemClock(), stop.is_set)
        else:
            counts = sending.once(args.roots)
    if settings.json:
        terminal.data(msgspec.json.encode(counts))
    else:
        terminal.text(told(counts))
    if not counts.sessions:
        terminal.say("foldstream ingest: no session log found: .jsonl or .jsonl.zstd files")
    return code(counts)


class Sending:
    """One ingest over a broker: what it said and sent once, it does not say or send again."""

    def __init__(
        self, broker: brokers.Broker, sink: LineSink, known: Known, terminal: Terminal
    ) -> None:
        self._terminal = terminal
        self._step: Step | None = None
        self.ingest = Ingest(
            sink,
            broker.names.of("events"),
            known.sessions.get,
            letters=lambda: _letters(broker, known),
            progress=self._shown,
            note=lambda text: terminal.say(f"note: {text}"),
            max_line_bytes=broker.settings.max_line_bytes,
            max_record_bytes=broker.max_record_bytes(),
        )

    def once(self, roots: Sequence[Path]) -> Progress:
        """What is new below the roots, with progress."""
        with self.told():
            return self.ingest.once(roots)

    @contextmanager
    def told(self) -> Iterator[None]:
        """With progress while the block runs."""
        with self._terminal.progress("ingest", "lines") as self._step:
            yield
        self._step = None

    def _shown(self, counts: Progress) -> None:
        if self._step is not None:
            self._step(counts.sent)


@contextmanager
def opened(broker: brokers.Broker, terminal: Terminal) -> Iterator[Sending]:
    """What sends logs to the broker, for as long as the block runs."""
    with closing(broker.reader()) as reader, terminal.progress("resume", "records") as step:
        known = already_in(reader, broker.names, broker.events_id(), step)
    with broker.line_sink() as sink:
        yield Sending(broker, sink, known, terminal)


def _letters(broker: brokers.Broker, known: Known) -> Iterator[DeadLetter]:
    with closing(broker.reader()) as reader:
        yield from letters(reader, broker.names, known.folded)


def code(counts: Progress) -> int:
    """3 when nothing could be read."""
    return REFUSED if counts.sessions == counts.unreadable else DONE


def told(counts: Progress) -> str:
    """The counts for a person."""
    text = f"{counts.sessions} sessions, {counts.sent} lines sent ({counts.bytes} bytes)"
    more = {
        "lines were there already": counts.known,
        "dead letters": counts.dead_letters,
        "unreadable files": counts.unreadable,
        "sessions begun anew": counts.epochs,
    }
    return ", ".join([text, *(f"{count} {what}" for what, count in more.items() if count)])
