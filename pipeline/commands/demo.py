"""What ``up`` shows of the topics, and the sessions of ``up --demo``."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import msgspec

from operators.changes import SessionOverview
from pipeline import published
from pipeline.config import Config
from pipeline.deadletter import read_letters
from pipeline.plain import visible_line
from pipeline.ports import Reader
from pipeline.surfaces import SurfaceView
from pipeline.topics import Names

from . import simulating
from .letter_pages import letter_line
from .terminal import Terminal

SHOWN_LETTERS = 5
ENOUGH_EVENTS = 40  #: a session shorter than this shows little
SIDE_BY_SIDE = 110  #: columns from which transcript and surface stand beside each other


def make(settings: Config, folder: Path, terminal: Terminal) -> Path:
    """Simulated sessions as files below ``folder``, some with a line that must be refused."""
    paths = simulating.make(msgspec.structs.replace(settings, rate=None), folder, terminal)
    whole = [path for path in paths if _TURN_END in path.read_bytes()]
    for bad, path in zip(_BAD, whole[1 :: max(1, len(whole) // len(_BAD))], strict=False):
        lines = path.read_bytes().split(b"\n")
        last = max(at for at, line in enumerate(lines) if _TURN_END in line)
        lines.insert(last, bad)  # before a turn's end: after it, it would pass for a torn tail
        path.write_bytes(b"\n".join(lines))
    damaged = min(len(_BAD), len(whole))
    terminal.say(f"{damaged} of the sessions were damaged on purpose, by a bad line each")
    return folder


_TURN_END = b'"turn/end"'
#: No seq of its own in any of them, so that the session goes on as if they were not there.
_BAD = (
    b'{"type":"user/message","data":{"content":[]},"surfaceOp":"append"}',
    b"this line is no JSON",
    b'{"type":"turn/end","seq":"7","data":{}}',
)


def letters(reader: Reader, names: Names, terminal: Terminal) -> None:
    """How many dead letters there are, and the first few."""
    found = list(read_letters(reader, names.of("deadletter")))
    terminal.text(f"\ndead letters: {len(found)}")
    for listed in islice(found, SHOWN_LETTERS):
        terminal.text(f"  {letter_line(listed)}")


def compacted(reader: Reader, names: Names, terminal: Terminal) -> None:
    """One session whose history was compacted: what a person reads, what the model is sent."""
    chosen = _choose(reader, names)
    if chosen is None:
        terminal.text("\nno session here was compacted")
        return
    found = published.session(reader, names, chosen)
    assert found is not None, "it has an overview"
    view = SurfaceView()
    view.apply_all(found.surface)
    _show(found, view, terminal)


def _choose(reader: Reader, names: Names) -> str | None:
    """The shortest compacted session that is long enough to tell something."""
    best: tuple[bool, int, str] | None = None
    for overview in published.overviews(reader, names):
        if overview.session is None or not overview.counts.get("compactions_landed"):
            continue
        rank = (overview.next_seq < ENOUGH_EVENTS, overview.next_seq, overview.session)
        best = min(best, rank) if best else rank
    return best[2] if best else None


def _show(found: published.Published, view: SurfaceView, terminal: Terminal) -> None:
    from rich.console import Group  # noqa: PLC0415 - a tenth of a second few commands pay
    from rich.table import Table  # noqa: PLC0415

    from pipeline import render  # noqa: PLC0415

    overview: SessionOverview = found.overview
    console = terminal.console()
    name = visible_line(overview.session or "")
    titles = f"transcript of {name}", f"surface of {name}: what the model is sent"
    bodies = Group(*render.transcript(found.rows)), Group(*render.surface(view, view.nodes))
    terminal.text("")
    if console.width >= SIDE_BY_SIDE:
        table = Table(*titles, expand=True)
        table.add_row(*bodies)
        console.print(table)
        return
    for title, body in zip(titles, bodies, strict=True):
        console.rule(title)
        console.print(body)
