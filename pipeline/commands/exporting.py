"""``export``: a session's transcript as a file, as the gateway gives it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from operators.changes import TranscriptRow
from pipeline import published
from pipeline.config import Config
from pipeline.gateway.export import MEDIA, exported
from pipeline.gateway.jsonout import safe
from pipeline.logtail import LogTail
from pipeline.scroll import position

from . import brokers, paths
from .arguments import DONE, REFUSED, Commands, command, topics
from .asking import WHERE, named, session_named
from .terminal import Terminal


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "export",
        export,
        "write a session's transcript as Markdown, HTML or JSON lines",
        about=(
            f"{WHERE}\n\n"
            "The same file as the gateway's /v1/sessions/ID/export. Whatever the log holds is\n"
            "text in it: nothing is a link, a picture or a script. jsonl: every row, whole, as\n"
            "the API has them, auxiliary ones too."
        ),
        example=(
            "foldstream export session.v4.jsonl > session.md\n"
            "foldstream export sim-00000007 --format html -o session.html\n"
            "foldstream export sim-00000007 --format jsonl | jq -r .kind"
        ),
    )
    parser.add_argument("session", metavar="SESSION|PATH")
    parser.add_argument("--format", choices=tuple(MEDIA), help="of the file (md)")
    parser.add_argument("-o", "--output", metavar="FILE", help="(standard output)")
    topics(parser)


class _Session(Struct, frozen=True):
    """``rows`` in any order; ``trouble``: why no more could be read."""

    name: str
    title: str | None
    rows: Iterable[TranscriptRow]
    trouble: str | None = None


def export(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """All of it; of a log that is broken what comes before that."""
    if paths.names_a_path(args.session):
        found = _of_log(Path(args.session), terminal)
    else:
        found = _of_topics(settings, session_named(args.session))
    pieces = exported(settings.format, found.name, found.title, _as_json(found.rows))
    if settings.output is not None:
        _write(Path(settings.output), pieces)
    elif settings.format == "jsonl":
        for piece in pieces:
            terminal.data(piece.rstrip(b"\n"))
    else:
        terminal.raw(pieces)
    if found.trouble is None:
        return DONE
    terminal.say(f"foldstream: {paths.trouble(Path(args.session), found.trouble)}")
    return REFUSED


def _of_log(path: Path, terminal: Terminal) -> _Session:
    file = paths.log_file(path)
    tail = LogTail(file)
    last = {row.key: row for rows in tail.more() for row in rows}
    last |= {row.key: row for row in tail.running()}
    folding = tail.folding
    overview = folding.session.overview()
    name = overview.session or ("log" if str(file) == paths.STANDARD_INPUT else named(file))
    if folding.faults and folding.trouble is None:
        terminal.say(f"{len(folding.faults)} lines were refused (`foldstream fold` names them)")
    return _Session(name, overview.title, last.values(), folding.trouble)


def _of_topics(settings: Config, session: str) -> _Session:
    with brokers.reader(settings, *published.ROLES) as at_rest:
        found = published.session(at_rest, brokers.names(settings), session)
    if found is None:
        raise brokers.without(settings, session)
    return _Session(session, found.overview.title, found.rows)


def _as_json(rows: Iterable[TranscriptRow]) -> Iterator[bytes]:
    for row in sorted(rows, key=position):
        if not row.deleted:
            yield safe(msgspec.json.encode(row))


def _write(file: Path, pieces: Iterable[bytes]) -> None:
    """Under its name it is whole, or not there."""
    part = file.with_name(f".{file.name}.part")
    try:
        with part.open("wb") as opened:
            opened.writelines(pieces)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
