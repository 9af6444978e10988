"""The sessions on the topics, newest first: what ``show`` prints when no session is named."""

from __future__ import annotations

import shlex

import msgspec
from msgspec import Struct

from operators.changes import SessionOverview
from pipeline import published
from pipeline.config import Config
from pipeline.plain import visible_line
from pipeline.ports import Reader
from pipeline.topics import Names

from . import brokers, paths
from .arguments import DONE
from .terminal import Terminal


class Listed(Struct, frozen=True):
    """A session as the list has it; ``last_time`` in ms since 1970, ``events`` the seq after the
    last."""

    session: str
    state: str
    title: str | None
    last_time: int | None
    events: int


def show_all(settings: Config, terminal: Terminal) -> int:
    """A line per session."""
    from pipeline import render  # noqa: PLC0415 - rich takes a tenth of a second to import

    with brokers.reader(settings, "overview") as reader:
        found = sessions(reader, brokers.names(settings))
    width = min(40, max((len(visible_line(each.session)) for each in found), default=0))
    for each in found:
        if settings.json:
            terminal.data(msgspec.json.encode(each))
            continue
        when = render.clock(each.last_time).strip() or "-"
        text = f"{each.events:>8} events  {visible_line(each.title or '')}"
        terminal.text(f"{visible_line(each.session):<{width}}  {each.state:<10}  {when:<19}{text}")
    terminal.say(f"{len(found)} sessions on {settings.bootstrap}")
    return DONE


def sessions(reader: Reader, names: Names) -> list[Listed]:
    """All that have an id, the one with the newest event first."""
    found = [_listed(overview) for overview in published.overviews(reader, names)]
    return sorted(
        (each for each in found if each.session),
        key=lambda each: (-(each.last_time or 0), each.session),
    )


def _listed(overview: SessionOverview) -> Listed:
    return Listed(
        overview.session or "",
        overview.state,
        overview.title,
        overview.last_time,
        overview.next_seq,
    )


def hint(reader: Reader, settings: Config, at: str) -> str:
    """The command that shows the newest session that can be typed as it is."""
    named = ["--bootstrap", at]
    if settings.prefix != Config().prefix:
        named += ["--prefix", settings.prefix]
    options = shlex.join(named)
    for each in sessions(reader, brokers.names(settings)):
        if visible_line(each.session) == each.session and not paths.names_a_path(each.session):
            return f"foldstream show {shlex.quote(each.session)} {options}"
    return f"foldstream show {options}"
