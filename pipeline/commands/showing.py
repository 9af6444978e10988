"""``show`` and ``surface``: one session for a person, out of a file or the topics."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import msgspec

from operators.changes import SurfaceChange
from pipeline import published
from pipeline.config import Config
from pipeline.documents import fold_log
from pipeline.logtail import LogTail
from pipeline.reading import Window
from pipeline.rowtail import RowTail
from pipeline.scroll import position
from pipeline.surfaces import SurfaceView

from . import brokers, listing, paths
from .arguments import DONE, REFUSED, USAGE, Commands, command, json_output, number, switch, topics
from .stopping import stopping
from .terminal import Terminal

if TYPE_CHECKING:
    from .following import Screen

WHERE = "SESSION is read from the topics (committed records), PATH from the file or folder."


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "show",
        show,
        "print a session's transcript, or list the sessions",
        about=(
            f"{WHERE}\nWithout either: the sessions on the topics, the newest first.\n\n"
            "With --follow each row is shown once it is settled, until Ctrl-C; what is shown then\n"
            "is what a later run shows of the same log. A row that changed after all is shown\n"
            "again. What a compaction summarised is in `foldstream surface`."
        ),
        example=(
            "foldstream show                         which sessions there are\n"
            "foldstream show session.v4.jsonl --color always | less -R\n"
            "foldstream show sim-00000007 --bootstrap broker:9092 --auxiliary\n"
            "foldstream show ~/.harness/sessions/--work--/SESSION --follow"
        ),
    )
    parser.add_argument("session", nargs="?", metavar="SESSION|PATH")
    switch(parser, "--follow", "stay, and show what comes")
    switch(parser, "--auxiliary", "show auxiliary rows too: turns, system messages, gaps …")
    _color(parser)
    json_output(parser, "each row (with --follow: once it is settled), or each session")
    topics(parser)
    parser = command(
        commands,
        "surface",
        surface,
        "print what the model sees, or saw at some seq",
        about=WHERE,
        example="foldstream surface session.v4.jsonl --at 120",
    )
    parser.add_argument("session", metavar="SESSION|PATH")
    number(parser, "--at", "as it was after this seq (default: now)", "SEQ")
    _color(parser)
    json_output(parser, "it")
    topics(parser)


def _color(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        help="auto: on a terminal, unless NO_COLOR is set",
    )


def show(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """The rows in their order; of no session the list of all."""
    if args.session is None:
        if settings.follow:
            terminal.say("foldstream show: --follow needs a SESSION or PATH")
            return USAGE
        return listing.show_all(settings, terminal)
    from .following import Screen  # noqa: PLC0415 - rich takes a tenth of a second

    screen = Screen(settings, terminal)
    live = settings.follow and args.session != paths.STANDARD_INPUT
    with stopping(Event()) if live else nullcontext() as stop:
        if paths.names_a_path(args.session):
            code = _show_log(Path(args.session), settings, screen, terminal, stop)
        else:
            code = _show_topic(args.session, settings, screen, terminal, stop)
    hidden = len(screen.scroll.hidden)
    if hidden and code == DONE and not settings.json:
        terminal.say(f"{hidden} auxiliary rows not shown (--auxiliary)")
    return code


def _show_log(
    path: Path, settings: Config, screen: Screen, terminal: Terminal, stop: Event | None
) -> int:
    from . import following  # noqa: PLC0415 - as above

    if stop is not None:
        tail = following.follow_log(path, screen, stop, terminal.say)
    else:
        tail = LogTail(paths.log_file(path))
        if settings.json:  # the rows as they are now: no order of showing is wanted
            rows = [row for changed in tail.more() for row in changed]
            last = {row.key: row for row in [*rows, *tail.running()]}
            screen.all(row for row in sorted(last.values(), key=position) if not row.deleted)
        else:
            for rows in tail.more():
                screen.take(rows)
            screen.end(tail.running())
    folding = tail.folding
    if (trouble := folding.trouble) is not None:
        terminal.say(f"foldstream: {paths.trouble(path, trouble)}")
        return REFUSED
    if folding.faults:
        terminal.say(f"{len(folding.faults)} lines were refused (`foldstream fold` names them)")
    return DONE


def _show_topic(
    session: str, settings: Config, screen: Screen, terminal: Terminal, stop: Event | None
) -> int:
    from . import following  # noqa: PLC0415 - as above

    brokers.require_topics(settings, *published.ROLES)
    with closing(RowTail(brokers.named(settings).reader, brokers.names(settings), session)) as tail:
        rows = tail.present()
        if rows is None:
            raise brokers.without(settings, session)
        if stop is None:
            screen.all(rows)
        else:
            screen.take(rows)
            following.follow_topic(tail, screen, stop, terminal.say)
    return DONE


def surface(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """The messages in surface order."""
    changes = _surface(settings, args.session, terminal, settings.at)
    if changes is None:
        return REFUSED
    view = SurfaceView()
    view.apply_all(c for c in changes if settings.at is None or c.seq <= settings.at)
    if settings.json:
        terminal.data(msgspec.json.encode(view.surface()))
        return DONE
    from pipeline import render  # noqa: PLC0415 - as above

    console = terminal.console(settings.color)
    for block in render.surface(view, view.nodes):
        console.print(block)
    terminal.say(f"{len(view.nodes)} nodes, {view.generation} replacements so far")
    return DONE


def _surface(
    settings: Config, what: str, terminal: Terminal, high: int | None
) -> Sequence[SurfaceChange] | None:
    """The changes out of the session's file or the topics; None, after a word about it, for a file
    of which nothing can be read."""
    if not paths.names_a_path(what):
        with brokers.reader(settings, *published.ROLES) as at_rest:
            found = published.session(at_rest, brokers.names(settings), what)
        if found is None:
            raise brokers.without(settings, what)
        return found.surface
    path = Path(what)
    folding = fold_log(paths.log_file(path), Window(high=high))
    if (trouble := folding.trouble) is not None:
        terminal.say(f"foldstream: {paths.trouble(path, trouble)}")
        return None
    if folding.faults:
        terminal.say(f"{len(folding.faults)} lines were refused (`foldstream fold` names them)")
    return folding.out.surface
