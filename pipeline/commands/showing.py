"""``show`` and ``surface``: one session for a person, out of a file or the topics."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from operators.changes import SurfaceChange, TranscriptRow
from pipeline import published
from pipeline.config import Config
from pipeline.documents import fold_log
from pipeline.errors import Fatal
from pipeline.plain import visible_line
from pipeline.reading import Window
from pipeline.surfaces import SurfaceView

from . import brokers, listing, paths
from .arguments import DONE, REFUSED, Commands, command, json_output, number, switch, topics
from .terminal import Terminal

WHERE = "SESSION is read from the topics (committed records), PATH from the file or folder."


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "show",
        show,
        "print a session's transcript, or list the sessions",
        about=f"{WHERE}\nWithout either: the sessions on the topics, the newest first.",
        example=(
            "foldstream show                         which sessions there are\n"
            "foldstream show session.v4.jsonl | less -R\n"
            "foldstream show sim-00000007 --bootstrap broker:9092 --auxiliary"
        ),
    )
    parser.add_argument("session", nargs="?", metavar="SESSION|PATH")
    switch(parser, "--auxiliary", "show auxiliary rows too: turns, system messages, gaps …")
    json_output(parser, "each row, or each session")
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
    json_output(parser, "it")
    topics(parser)


class Shown(Struct, frozen=True):
    """What is to be shown of a session, wherever it came from."""

    rows: Sequence[TranscriptRow]
    surface: Sequence[SurfaceChange]
    faults: int = 0


def show(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """The rows in their order; of no session the list of all."""
    if args.session is None:
        return listing.show_all(settings, terminal)
    from pipeline import render  # noqa: PLC0415 - rich takes a tenth of a second to import

    found = _find(settings, args.session, terminal)
    if found is None:
        return REFUSED
    rows = [row for row in found.rows if settings.auxiliary or row.visibility == "transcript"]
    if settings.json:
        terminal.data(*map(msgspec.json.encode, rows))
        return DONE
    console = terminal.console()
    for row in rows:
        console.print(render.render_row(row))
    hidden = len(found.rows) - len(rows)
    if hidden:
        terminal.say(f"{hidden} auxiliary rows not shown (--auxiliary)")
    return DONE


def surface(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """The messages in surface order."""
    found = _find(settings, args.session, terminal, settings.at)
    if found is None:
        return REFUSED
    view = SurfaceView()
    view.apply_all(c for c in found.surface if settings.at is None or c.seq <= settings.at)
    if settings.json:
        terminal.data(msgspec.json.encode(view.surface()))
        return DONE
    from pipeline import render  # noqa: PLC0415 - as above

    console = terminal.console()
    for block in render.surface(view, view.nodes):
        console.print(block)
    terminal.say(f"{len(view.nodes)} nodes, {view.generation} replacements so far")
    return DONE


def _find(settings: Config, what: str, terminal: Terminal, high: int | None = None) -> Shown | None:
    """The session out of its file or the topics; None, after a word about it, for a file of which
    nothing can be read."""
    if not paths.names_a_path(what):
        with brokers.reader(settings, *published.ROLES) as at_rest:
            found = published.session(at_rest, brokers.names(settings), what)
        if found is None:
            raise Fatal(
                f"session {visible_line(what)!r} is not on the topics of {settings.bootstrap}",
                "`foldstream show` lists those that are; or name its file",
            )
        return Shown(found.rows, found.surface)
    path = Path(what)
    folding = fold_log(paths.log_file(path), Window(high=high))
    if (trouble := folding.trouble) is not None:
        terminal.say(f"foldstream: {paths.trouble(path, trouble)}")
        return None
    if folding.faults:
        terminal.say(f"{len(folding.faults)} lines were refused (`foldstream fold` names them)")
    return Shown(folding.rows(), folding.out.surface)
