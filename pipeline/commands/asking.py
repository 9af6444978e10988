"""What questions to sessions share: whose log is meant, where it is read, how answers are told."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from operators.changes import SessionOverview
from operators.readers.filters import FilterError
from operators.readers.references import SCHEME, AddressError, session_at
from operators.text import well_formed
from pipeline import published
from pipeline.config import Config, ConfigError
from pipeline.plain import visible_line
from pipeline.ports import Reader
from pipeline.readers import query, sessions
from pipeline.readers.asked import Asked, Tell, unheard
from pipeline.readers.logs import events_of
from pipeline.readers.parameters import Parameter
from schemas.directory import scan

from . import brokers, paths
from .terminal import Terminal

WHERE = (
    "SESSION, an id or an address (dsh-session:…), is read from the topics (committed records),\n"
    "PATH from the file or folder."
)
TELL_EVERY = 10  #: sessions
Found: TypeAlias = tuple[int, SessionOverview]
T = TypeVar("T")


# --- the arguments --------------------------------------------------------------------------------


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


def checked(ask: Callable[[], T]) -> T:
    """What is wrong with a filter is wrong usage, said before anything is read."""
    try:
        return ask()
    except FilterError as error:
        raise ConfigError(str(error)) from None


def session_named(what: str) -> str:
    """The id that a SESSION stands for."""
    if not what.startswith(SCHEME):
        return well_formed(what)
    try:
        return session_at(what)
    except AddressError as error:
        raise ConfigError(f"{visible_line(what)}: {error}") from None


# --- the logs -------------------------------------------------------------------------------------

Make: TypeAlias = Callable[[], Asked]


def log_of(settings: Config, what: str, terminal: Terminal, make: Make) -> Asked | None:
    """The one log that is meant, read with its progress told; None, after a word about it, for a
    file of which nothing can be read."""
    with terminal.progress("reading", "lines") as step:
        log = _read(settings, what, terminal, make(), step)
    return _usable(what, terminal, log)


def logs_of(
    settings: Config, wanted: Sequence[str], terminal: Terminal, make: Make
) -> Iterator[Asked | None]:
    """The same of several, one after the other; a folder stands for all the sessions in it."""
    places = [each for what in wanted for each in _places(what, terminal)]
    if len(places) == 1:
        yield log_of(settings, places[0], terminal, make)
        return
    with terminal.progress("reading", "sessions", len(places)) as step:
        for number, what in enumerate(places, 1):
            yield _usable(what, terminal, _read(settings, what, terminal, make(), unheard))
            if number % TELL_EVERY == 0:
                step(number)


def _places(what: str, terminal: Terminal) -> list[str]:
    """The files of a folder, else what was said."""
    path = Path(what)
    if not (paths.names_a_path(what) and path.is_dir()):
        return [what]
    files = [str(file) for file, _ in sessions.stored([path], terminal.say)]
    return files or [str(paths.log_file(path))]  # `Fatal`: none is there


def _read(settings: Config, what: str, terminal: Terminal, log: Asked, tell: Tell) -> Asked:
    if not paths.names_a_path(what):
        return _of_topics(settings, session_named(what), terminal, log, tell)
    file = paths.log_file(Path(what))
    log.read_file(file, tell)
    if log.session.session is None and str(file) != paths.STANDARD_INPUT:
        log.session.session = named(file)
    return log


def named(file: Path) -> str:
    """The id of a log that does not say one: as every other command has it."""
    found = scan(file).sessions
    return well_formed(found[0].session if found else file.name)


def _usable(what: str, terminal: Terminal, log: Asked) -> Asked | None:
    return log if usable(Path(what), terminal, log) else None


def usable(path: Path, terminal: Terminal, log: Asked) -> bool:
    """Whether anything of a log could be read; what could not is said."""
    if (trouble := log.trouble) is not None:
        terminal.say(f"foldstream: {paths.trouble(path, trouble)}")
        return False
    for note in log.notes:
        terminal.say(f"note: {path}: {note}")
    if log.faults:
        terminal.say(f"note: {path}: {len(log.faults)} faults (`foldstream fold` names them)")
    return True


def _of_topics(settings: Config, session: str, terminal: Terminal, log: Asked, tell: Tell) -> Asked:
    names = brokers.names(settings)
    with brokers.reader(settings, "overview", "events") as at_rest:
        partition, overview = present(settings, at_rest, session)
        records = events_of(at_rest, names, partition)
        log.read_records(records, session, overview.epoch, tell)
    if log.session.order.start:
        first = log.session.order.start
        terminal.say(f"note: the events topic begins with seq {first} of this session")
    return log


def present(settings: Config, at_rest: Reader, session: str) -> Found:
    """Partition and overview of a session on the topics. `Fatal` if it is not there."""
    found = published.overview(at_rest, brokers.names(settings), session)
    if found is None:
        raise brokers.without(settings, session)
    return found


# --- the answers ----------------------------------------------------------------------------------


def tell(settings: Config, terminal: Terminal, answer: msgspec.Struct, line: str) -> None:
    if settings.json:
        terminal.data(msgspec.json.encode(answer))
    else:
        terminal.text(line)
