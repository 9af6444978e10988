"""``reference``: one session quoted for another, within a number of bytes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec
from msgspec import Raw

from operators.changes import SessionOverview
from operators.readers.references import BUDGET, Reference, Subject
from pipeline import published
from pipeline.config import Config
from pipeline.documents import fold_log
from pipeline.errors import Fatal
from pipeline.plain import visible, visible_line
from pipeline.readers.logs import quoted
from pipeline.surfaces import SurfaceView

from . import brokers, paths
from .arguments import DONE, REFUSED, Commands, command, json_output, number, topics
from .terminal import Terminal


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "reference",
        reference,
        "quote a session as another one may be shown it, within a number of bytes",
        about=(
            "What the model of that session sees now: the user's messages, checkpoints and\n"
            "answers, without injected context, tools and reasoning. What does not fit is left\n"
            "out, the oldest first, then the longest texts lose their middle; the newest message\n"
            "and every checkpoint stay. Exits 3 if nothing fits (--json: null).\n"
            "SESSION is read from the topics (committed records), PATH from the file or folder."
        ),
        example=(
            "foldstream reference session.v4.jsonl --max-bytes 4096\n"
            'foldstream reference 0197f3a2 --label "login bug" --json | jq .stats'
        ),
    )
    parser.add_argument("what", metavar="SESSION|PATH")
    number(parser, "--max-bytes", f"what the quotation may take ({BUDGET})")
    parser.add_argument("--label", help="what the session is called (its title, else its id)")
    json_output(parser, "bytes, data and stats")
    topics(parser)


def reference(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """The quotation, or why there is none."""
    budget = BUDGET if args.max_bytes is None else args.max_bytes
    if paths.names_a_path(args.what):
        path = Path(args.what)
        folding = fold_log(paths.log_file(path))
        if (trouble := folding.trouble) is not None:
            terminal.say(f"foldstream reference: {paths.trouble(path, trouble)}")
            return REFUSED
        view, overview, name = folding.view(), folding.session.overview(), path.stem
    else:
        with brokers.reader(settings, *published.ROLES) as at_rest:
            found = published.session(at_rest, brokers.names(settings), args.what)
        if found is None:
            raise Fatal(
                f"session {visible_line(args.what)!r} is not on the topics of {settings.bootstrap}",
                "`foldstream show` lists those that are; or name its file",
            )
        view, overview, name = SurfaceView(), found.overview, args.what
        view.apply_all(found.surface)
    made = quoted(view, subject(overview, name, args.label), budget)
    if settings.json:
        terminal.data(b"null" if made is None else as_json(made))
    elif made is not None:
        _print(made, terminal)
    if made is None and not settings.json:
        terminal.say(f"nothing of the session fits into {budget} bytes: allow more (--max-bytes)")
    return DONE if made is not None else REFUSED


def subject(overview: SessionOverview, name: str, label: str | None) -> Subject:
    """Whose surface it is; ``name``: its id where the log says none."""
    session = overview.session or name
    through = overview.next_seq - 1 if overview.next_seq else None
    return Subject(session, label or overview.title or session, overview.cwd, through)


def as_json(made: Reference) -> bytes:
    """``data`` to the byte as it counts: ``<`` stays escaped."""
    return msgspec.json.encode(
        {"bytes": made.bytes, "data": Raw(made.data.encode()), "stats": made.stats}
    )


def _print(made: Reference, terminal: Terminal) -> None:
    data, stats = json.loads(made.data), made.stats
    for each in data["conversation"]:
        terminal.text(f"{each['role']}:\n{visible(each['text'])}\n")
    left_out = ""
    if stats.truncated:
        left_out = f"; left out: {stats.omitted_messages} whole, {stats.omitted_bytes} bytes in all"
    through = data["capturedThroughSeq"]
    terminal.say(
        f"{stats.retained_messages} of {stats.original_messages} messages of "
        f"{visible_line(data['sessionId'])} through seq {through}, {made.bytes} bytes{left_out}"
    )
