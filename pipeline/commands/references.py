"""``reference``: one session quoted for another, within a number of bytes."""

from __future__ import annotations

import argparse
import json

import msgspec
from msgspec import Raw

from operators.changes import SessionOverview
from operators.readers.references import BUDGET, Reference, Subject, address
from pipeline import published
from pipeline.config import Config
from pipeline.plain import visible, visible_line
from pipeline.readers.asked import Asked
from pipeline.readers.logs import quoted
from pipeline.surfaces import SurfaceView

from . import brokers, paths
from .arguments import DONE, REFUSED, Commands, command, json_output, number, topics
from .asking import WHERE, log_of, present, session_named
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
            "and every checkpoint stay. Where even they cannot fit there is none (--json: null).\n"
            f"{WHERE}"
        ),
        example=(
            "foldstream reference session.v4.jsonl --max-bytes 4096\n"
            'foldstream reference 0197f3a2 --label "login bug" --json | jq .stats'
        ),
    )
    parser.add_argument("what", metavar="SESSION|PATH")
    number(parser, "--max-bytes", f"what the quotation may take ({BUDGET})")
    parser.add_argument("--label", help="what the session is called (its title, else its id)")
    json_output(parser, "bytes, data and stats (or null)")
    topics(parser)


def reference(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """The quotation, or why there is none."""
    if paths.names_a_path(args.what):
        log = log_of(settings, args.what, terminal, lambda: Asked(messages=True))
        if log is None:
            return REFUSED
        view, overview, name = log.surface_view, log.session.overview(), args.what
    else:
        name = session_named(args.what)
        view, overview = _on_topics(settings, name)
    made = quoted(view, subject(overview, name, args.label), settings.max_bytes)
    if settings.json:
        terminal.data(b"null" if made is None else as_json(made))
    elif made is not None:
        _print(made, terminal)
    else:
        size = settings.max_bytes
        terminal.say(f"nothing of the session fits into {size} bytes: allow more (--max-bytes)")
    return DONE


def _on_topics(settings: Config, session: str) -> tuple[SurfaceView, SessionOverview]:
    view, names = SurfaceView(), brokers.names(settings)
    with brokers.reader(settings, "overview", "surface") as at_rest:
        found = present(settings, at_rest, session)
        view.apply_all(published.surface(at_rest, names, found))
    return view, found[1]


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
    session, last = data["sessionId"], data["capturedThroughSeq"]
    through = "an empty log" if last is None else f"through seq {last}"
    terminal.say(
        f"{stats.retained_messages} of {stats.original_messages} messages of "
        f"{visible_line(session)}, {through}, {made.bytes} bytes{left_out}"
    )
    terminal.say(f"address: {address(session)}")
