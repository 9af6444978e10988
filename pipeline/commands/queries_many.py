"""``query sessions`` and ``query lineage``: many sessions by their headers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from operators.readers.lineage import Lineage, SessionRecord
from pipeline import published
from pipeline.config import Config
from pipeline.errors import Fatal
from pipeline.plain import visible_line
from pipeline.readers import query, sessions
from pipeline.readers.parameters import SESSION_PARAMETERS

from . import arguments, brokers, paths
from .arguments import DONE, Commands, command, json_output, number
from .asking import checked, filters, given, session_named, tell
from .terminal import Terminal

TELL_EVERY = 1_000  #: sessions
INDENTED = 20  #: steps down a lineage; what is deeper says how deep


def register(nested: Commands) -> None:
    parser = command(
        nested,
        "sessions",
        list_sessions,
        "list sessions, the newest first",
        about=(
            "Those below the ROOTs, without a ROOT those on the topics; with --topics both.\n"
            "Of each its header is read. Two copies of one id that differ are said."
        ),
        example="foldstream query sessions ./sessions --cwd /work/app --created 1760000000000..",
    )
    filters(parser, SESSION_PARAMETERS)
    number(parser, "--limit", f"at most so many ({query.LIMIT})")
    _roots(parser, "each session")
    parser = command(
        nested,
        "lineage",
        lineage,
        "show whom a session comes from and what comes from it",
        about=(
            "Forks and subagents among the sessions below the ROOTs, without a ROOT on the\n"
            "topics, with --topics both. A parent that is not there, or a circle, is said."
        ),
        example="foldstream query lineage 0197f3a2 ./sessions",
    )
    parser.add_argument("session_id", metavar="SESSION")
    _roots(parser, "the lineage")


def _roots(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("roots", nargs="*", type=Path, metavar="ROOT")
    parser.add_argument("--topics", action="store_true", help="those on the topics, too")
    json_output(parser, what)
    arguments.topics(parser)


def list_sessions(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    asked = given(args, SESSION_PARAMETERS)
    checked(lambda: query.sessions((), asked))
    records = _records(settings, args, terminal)
    found = query.sessions(records, asked, settings.limit or query.LIMIT)
    for each in found.sessions:
        tell(settings, terminal, each, _line(each))
    for conflict in found.conflicts:
        fields = ", ".join(conflict.fields)
        terminal.say(f"{visible_line(conflict.id)}: two sessions of this id differ in {fields}")
    terminal.say(f"{len(found.sessions)} sessions")
    return DONE


def lineage(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    session = session_named(args.session_id)
    found = query.lineage(_records(settings, args, terminal), session)
    if found is None:
        raise Fatal(
            f"session {visible_line(session)!r} is not among them",
            "`foldstream query sessions` lists those that are",
        )
    tell(settings, terminal, found, "\n".join(_tree(found)))
    return DONE


def _tree(found: Lineage) -> Iterator[str]:
    """From the farthest ancestor down, one line each."""
    if found.unresolved is not None:
        yield f"? {visible_line(found.unresolved)} (not among them)"
    if found.cycle_at is not None:
        yield f"! a circle: {visible_line(found.cycle_at)} comes from itself"
    for kin in reversed(found.ancestors):
        yield f"^ {visible_line(kin.id)}"
    yield f"= {visible_line(found.target)}"
    for kin in found.descendants:
        deep = f"[{kin.depth}] " if kin.depth > INDENTED else ""
        yield f"{'  ' * min(kin.depth, INDENTED)}{deep}{visible_line(kin.id)} ({kin.link})"


def _line(record: SessionRecord) -> str:
    where = "+".join(name for name in ("live", "persisted") if getattr(record, name))
    link = "" if record.link is None else f"  {record.link} of {visible_line(record.parent or '')}"
    return f"{visible_line(record.id):<40} {where:<14} {visible_line(record.cwd or '-')}{link}"


def _records(
    settings: Config, args: argparse.Namespace, terminal: Terminal
) -> Iterator[SessionRecord]:
    """Those of the topics first: the header of a live copy counts."""
    paths.existing(args.roots)
    with terminal.progress("reading", "sessions") as step:
        number = 0
        for number, record in enumerate(_sources(settings, args, terminal), 1):
            yield record
            if number % TELL_EVERY == 0:
                step(number)
        if number > TELL_EVERY:
            step(number)


def _sources(
    settings: Config, args: argparse.Namespace, terminal: Terminal
) -> Iterator[SessionRecord]:
    if args.topics or not args.roots:
        with brokers.reader(settings, "overview") as reader:
            yield from sessions.on_topics(published.overviews(reader, brokers.names(settings)))
    yield from sessions.in_files(args.roots, terminal.say)
