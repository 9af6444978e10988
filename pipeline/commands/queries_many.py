"""``query sessions`` and ``query lineage``: many sessions by their headers; and what all queries
share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from operators.readers.filters import FilterError
from operators.readers.lineage import Lineage, SessionRecord
from pipeline import published
from pipeline.config import Config, ConfigError
from pipeline.errors import Fatal
from pipeline.plain import visible_line
from pipeline.readers import query, sessions
from pipeline.readers.parameters import SESSION_PARAMETERS, Parameter

from . import arguments, brokers, paths
from .arguments import DONE, Commands, command, json_output, number
from .terminal import Terminal


def register(nested: Commands) -> None:
    parser = command(
        nested,
        "sessions",
        list_sessions,
        "list sessions, the newest first",
        about="Those below the ROOTs, without a ROOT those on the topics; with --topics both.",
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
    found = query.sessions(_records(settings, args), asked, settings.limit or query.LIMIT)
    for each in found.sessions:
        where = "+".join(name for name in ("live", "persisted") if getattr(each, name))
        line = f"{visible_line(each.id):<40} {where:<14} {visible_line(each.cwd or '-')}"
        tell(settings, terminal, each, line)
    for conflict in found.conflicts:
        fields = ", ".join(conflict.fields)
        terminal.say(f"{visible_line(conflict.id)}: two sessions of this id differ in {fields}")
    terminal.say(f"{len(found.sessions)} sessions")
    return DONE


def lineage(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    found = query.lineage(_records(settings, args), args.session_id)
    if found is None:
        raise Fatal(
            f"session {visible_line(args.session_id)!r} is not among them",
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
        yield f"{'  ' * kin.depth}{visible_line(kin.id)} ({kin.link})"


def _records(settings: Config, args: argparse.Namespace) -> Iterable[SessionRecord]:
    paths.existing(args.roots)
    in_files = sessions.in_files(args.roots)
    if args.roots and not args.topics:
        return in_files
    with brokers.reader(settings, "overview") as reader:
        live = list(sessions.on_topics(published.overviews(reader, brokers.names(settings))))
    return chain(live, in_files)


# --- what all queries share -------------------------------------------------------------


def filters(parser: argparse.ArgumentParser, parameters: Iterable[Parameter]) -> None:
    for each in parameters:
        parser.add_argument(
            f"--{each.name}",
            dest=f"filter_{each.name}",
            action="append",
            metavar=each.metavar,
            help=each.about,
        )


def given(args: argparse.Namespace, parameters: Iterable[Parameter]) -> query.Given:
    return {each.name: getattr(args, f"filter_{each.name}") for each in parameters}


def checked(ask: Callable[[], object]) -> None:
    """What is wrong with a filter is wrong usage, said before anything is read."""
    try:
        ask()
    except FilterError as error:
        raise ConfigError(str(error)) from None


def tell(settings: Config, terminal: Terminal, answer: msgspec.Struct, line: str) -> None:
    if settings.json:
        terminal.data(msgspec.json.encode(answer))
    else:
        terminal.text(line)
