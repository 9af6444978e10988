"""``deadletter``: what was refused, why, and how a parked session is folded on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec
from msgspec import structs

from pipeline import parked, replay
from pipeline.config import Config, ConfigError
from pipeline.deadletter import Listed, read_letters
from pipeline.envelope import Place, first_place, parse_place
from pipeline.errors import Fatal
from pipeline.parked import Situation, Told
from pipeline.plain import visible_line
from pipeline.ports import Reader
from pipeline.retry import SystemClock
from pipeline.topics import Names
from pipeline.waiting import as_received

from . import arguments, brokers
from .arguments import DONE, FAILED, Commands, command, json_output, number
from .letter_pages import letter_line, letter_page, outcome_line, standing_of, standing_page
from .terminal import Terminal

ABOUT = """\
A record that cannot be folded goes to the dead-letter topic with its reason and coordinates, and
the next one is folded. A session that is folded strictly (`foldstream run --strict`) is parked at
such a record instead: everything after it waits, as `parked`, until `replay` folds it on."""

REPLAY = """\
Sends what was put aside of a parked session to the events topic again, in log order, and waits
until the workers have folded it. The record that parked it is folded again as it is (what was
missing before it may have come since), is given up (--skip: its seq is taken as that of a faulted
event; of a gap, what is missing is given up), or is replaced (--with). Interrupted or repeated, a
replay folds each record once. Exits 1 if the session parks again, and says where and why."""


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "deadletter",
        help="what was refused: list, show, replay",
        description=ABOUT,
        epilog=(
            "example:\n"
            "  foldstream deadletter list\n"
            "  foldstream deadletter show 0197f3a2\n"
            "  foldstream deadletter replay 0197f3a2 --skip\n\n"
            "--bootstrap, --json, --log-level and the like stand behind list, show or replay;\n"
            "the --help of each explains them."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    nested = parser.add_subparsers(metavar="list|show|replay", required=True, dest="what")
    listing = command(
        nested,
        "list",
        list_letters,
        "list what was refused, with its reason and coordinates",
        example=(
            "foldstream deadletter list --reason not-json --limit 20\n"
            "foldstream deadletter list --session 0197f3a2 --json"
        ),
    )
    listing.add_argument("--session", metavar="ID", help="of this session alone")
    listing.add_argument("--reason", metavar="CODE", help="with this reason alone")
    number(listing, "--limit", "at most so many")
    json_output(listing, "each dead letter, bytes as base64,")
    showing = command(
        nested,
        "show",
        show,
        "show one dead letter whole, or where a session stands",
        about=(
            "COORDINATE is TOPIC/PARTITION/OFFSET as `list` prints it, on the events topic or\n"
            "on the dead-letter topic. Of a session: what parked it, how much waits, and what a\n"
            "replay would do, which is found out by folding it here."
        ),
        example=(
            "foldstream deadletter show sessions.events/3/1234\nfoldstream deadletter show 0197f3a2"
        ),
    )
    showing.add_argument("which", metavar="COORDINATE|SESSION")
    json_output(showing, "it, bytes as base64,")
    _register_replay(nested)
    for each in (listing, showing):
        arguments.topics(each)


def _register_replay(nested: Commands) -> None:
    parser = command(
        nested,
        "replay",
        send_again,
        "fold a parked session on from where it was parked",
        about=REPLAY,
        example=(
            "foldstream deadletter replay 0197f3a2\n"
            "foldstream deadletter replay 0197f3a2 --skip\n"
            "foldstream deadletter replay 0197f3a2 --with corrected-line.json"
        ),
    )
    parser.add_argument("which", metavar="SESSION")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--skip", action="store_true", help="give up the record that parked it")
    what.add_argument(
        "--with",
        dest="fix",
        type=Path,
        metavar="FILE",
        help="the line that takes its place (- = standard input)",
    )
    json_output(parser, "what was done")
    arguments.topics(parser)


# --- list -----------------------------------------------------------------------------------------


def list_letters(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """A line per dead letter, oldest first within a partition."""
    count = 0
    with brokers.reader(settings, "deadletter") as reader:
        topic = brokers.names(settings).of("deadletter")
        for listed in read_letters(reader, topic):
            if not _wanted(listed, settings):
                continue
            if count == settings.limit:
                break
            count += 1
            if settings.json:
                terminal.data(msgspec.json.encode(listed.letter or listed.record))
            else:
                terminal.text(letter_line(listed))
    terminal.say(f"{count} dead letters")
    return DONE


def _wanted(listed: Listed, settings: Config) -> bool:
    letter = listed.letter
    if letter is None:
        return settings.session is None and settings.reason is None
    return settings.session in (None, letter.session) and settings.reason in (None, letter.reason)


# --- show -----------------------------------------------------------------------------------------


def show(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """One letter whole, or one session."""
    names, place = brokers.names(settings), parse_place(args.which)
    with brokers.reader(settings, "deadletter", "events", "state") as reader:
        listed = None if place is None else _find(reader, names, place)
        if place is not None and listed is None:
            raise Fatal(f"no dead letter of {place}", "`foldstream deadletter list` names them")
        session = args.which if listed is None else None
        if listed is not None and listed.letter is not None:
            session = listed.letter.session
        with (
            _watched(terminal) as told,
            nullcontext()
            if session is None
            else parked.find(reader, names, session, told) as known,
        ):
            if listed is None:
                parked.require_state(known, args.which, names)
                listed = _offender(reader, names, known)
            standing = standing_of(reader, known)
    if settings.json:
        letter = None if listed is None else listed.letter or listed.record
        terminal.data(msgspec.json.encode({"letter": letter, **standing}))
        return DONE
    if listed is not None:
        terminal.text(letter_page(listed))
    terminal.text(standing_page(standing))
    return DONE


def _find(reader: Reader, names: Names, place: Place) -> Listed | None:
    """The letter at a place of its own topic, or the latest of a record at that first place."""
    topic, found = names.of("deadletter"), None
    for listed in read_letters(reader, topic):
        record = listed.record
        if place == Place(record.topic, record.partition, record.offset):
            return listed
        letter = listed.letter
        if letter is not None and letter.topic == place.topic:
            received = as_received(letter)
            if place in (
                Place(letter.topic, letter.partition, letter.offset),
                first_place(received),
            ):
                found = listed
    return found


def _offender(reader: Reader, names: Names, known: Situation | None) -> Listed | None:
    """The letter of what stands in the way of a session."""
    state = known.state if known else None
    if known is None or state is None or state.parked is None or state.parked.at is None:
        return None
    return _find(reader, names, structs.replace(known.at, offset=state.parked.at))


# --- replay ---------------------------------------------------------------------------------------


def send_again(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """Replay one session, and say what became of it."""
    names, session = brokers.names(settings), args.which
    decision = replay.Decision(args.skip, None if args.fix is None else fix_of(args.fix))
    with (
        brokers.reader(settings, "deadletter", "events", "state") as reader,
        _watched(terminal) as told,
        parked.find(reader, names, session, told) as known,
    ):
        parked.require_state(known, session, names)
        assert known is not None
        with brokers.named(settings).line_sink() as sink:
            ends = replay.Ends(reader, sink, names, SystemClock())
            outcome = replay.replay(ends, known, decision, told)
    if settings.json:
        terminal.data(msgspec.json.encode({"session": session, **structs.asdict(outcome)}))
    else:
        terminal.text(visible_line(f"session {session}: {outcome_line(outcome)}"))
    return DONE if outcome.parked is None else FAILED


def fix_of(path: Path) -> bytes:
    """The one line of a file. `ConfigError` if it holds none, or more."""
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    lines = data.split(b"\n") if data.startswith(b"{") else [data]
    lines = [line for line in lines if line.strip()]
    if len(lines) != 1:
        raise ConfigError(f"--with {path}: {len(lines)} lines where one takes the record's place")
    return lines[0].removesuffix(b"\r")


@contextmanager
def _watched(terminal: Terminal) -> Iterator[Told]:
    """Progress of whatever is being done, one after the other."""
    with terminal.progress("dead letters", "records") as step:
        done = _Sum(step)
        yield done.told


class _Sum:
    """Counts begin anew with everything that is told."""

    def __init__(self, step: Callable[[int], None]) -> None:
        self._step = step
        self._before, self._last, self._what = 0, 0, ""

    def told(self, what: str, done: int, _: int) -> None:
        if what != self._what or done < self._last:
            self._before, self._what = self._before + self._last, what
        self._last = done
        self._step(self._before + done)
