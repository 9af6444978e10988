"""``fold`` and ``pages``: log files in memory, no broker."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

import msgspec

from operators.history import LogIndex, Page, events_pages
from pipeline.config import Config
from pipeline.documents import Document, Folding, fold_log
from pipeline.patterns import ALL
from pipeline.plain import visible_line
from pipeline.readers.logs import Log
from pipeline.reading import Window

from . import paths
from .arguments import DONE, REFUSED, USAGE, Commands, command, json_output, number, switch
from .terminal import Terminal

SHOWN_FAULTS = 20  #: of a file; --json has all


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "fold",
        fold,
        "fold session-log files in memory, without a broker",
        about=(
            "Raw or zstd, any generation; - is standard input; a harness's session directory is\n"
            "its newest transcript. Exits 3 if --strict refused a line, or if no input at all\n"
            "could be read."
        ),
        example=(
            "foldstream fold session.v4.jsonl\n"
            "foldstream fold --json logs/*.jsonl.zstd | jq .surface.nodes\n"
            "foldstream fold --json --readers session.v4.jsonl | jq .readers.billed\n"
            "zcat old.gz | foldstream fold --strict -"
        ),
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    switch(parser, "--strict", "stop at the first line that the harness would refuse")
    number(parser, "--from-seq", "first seq kept")
    number(parser, "--to-seq", "last seq kept")
    switch(parser, "--readers", "with --json, what is read off the log: figures, texts, states")
    json_output(parser, "each file's whole result")
    parser = command(
        commands,
        "pages",
        pages,
        "walk a log's history backwards, page by page",
        about="A page holds the newest events that cover a number of user and assistant messages.",
        example=(
            "foldstream pages session.v4.jsonl --max-messages 5\n"
            "foldstream pages session.v4.jsonl --before 120 --json"
        ),
    )
    parser.add_argument("path", type=Path, metavar="PATH")
    number(parser, "--max-messages", "messages that a page covers (50)")
    number(parser, "--before", "begin with the events before this seq", "SEQ")
    json_output(parser, "each page")


def fold(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """A document or a summary per file, in the order given."""
    if list(map(str, args.paths)).count(paths.STANDARD_INPUT) > 1:
        terminal.say("foldstream fold: standard input can be read once: give - once")
        return USAGE
    window = Window(settings.from_seq, settings.to_seq)
    strict = ALL in settings.strict_sessions
    refused = unreadable = 0
    gc.disable()  # what a fold makes lives until it is printed: nothing to collect in between
    for path in args.paths:
        folding, document = _folded(path, window, strict, settings.readers)
        trouble = folding.trouble
        refused += bool(document.faults)
        unreadable += trouble is not None
        if settings.json:
            terminal.data(msgspec.json.encode(document))
        elif trouble is None:
            terminal.text(_summary(document))
        for note in folding.notes if trouble is None else ():
            terminal.say(f"note: {path}: {note}")
        if trouble is not None:
            terminal.say(f"foldstream fold: {paths.trouble(path, trouble)}")
        del folding, document
        gc.collect()
    strictly_refused = strict and refused
    return REFUSED if strictly_refused or unreadable == len(args.paths) else DONE


def _folded(path: Path, window: Window, strict: bool, readers: bool) -> tuple[Folding, Document]:
    file = paths.log_file(path)
    if not readers:
        folding = fold_log(file, window, strict=strict)
        return folding, folding.document(str(path))
    log = Log(window, strict=strict, readers=True).read_file(file)
    return log, log.read_document(str(path))


def pages(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """A line per page, newest first."""
    index = LogIndex()
    folding = fold_log(paths.log_file(args.path), index=index)
    if (trouble := folding.trouble) is not None:
        terminal.say(f"foldstream pages: {paths.trouble(args.path, trouble)}")
        return REFUSED
    for page in events_pages(index, settings.before, settings.max_messages):
        if settings.json:
            terminal.data(msgspec.json.encode(page))
        else:
            terminal.text(_page(page))
    return DONE


def _page(page: Page) -> str:
    if page.first is None:
        return "no events"
    more = "more before" if page.has_more else "the beginning"
    events = f"{page.count} events, {page.append_messages} messages"
    return f"{page.first:>9} … {page.last:<9} {events}; {more}"


def _summary(document: Document) -> str:
    overview, surface = document.overview, document.surface
    name, session = visible_line(document.path), visible_line(document.session or "(no header)")
    read = sum(row.visibility == "transcript" for row in document.rows)
    nodes, messages = len(surface.nodes), len(surface.messages)
    lines = [
        f"{name}: session {session}",
        f"  {document.events} events, next seq {document.next_seq}, {overview.state}",
        f"  surface: {nodes} nodes, {messages} messages, {surface.generation} replacements",
        f"  transcript: {read} rows and {len(document.rows) - read} auxiliary",
    ]
    if document.quality:
        facts = ", ".join(f"{fact} {count}" for fact, count in document.quality.items())
        lines.append(f"  quality: {facts}")
    lines += [
        f"  line {fault.line}: {fault.reason}: {visible_line(fault.message)}"
        for fault in document.faults[:SHOWN_FAULTS]
    ]
    if (more := len(document.faults) - SHOWN_FAULTS) > 0:
        lines.append(f"  … and {more} more (--json has them all)")
    return "\n".join(lines)
