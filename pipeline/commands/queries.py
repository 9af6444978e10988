"""``query``: search, windows, replacement chains and injected context of one session; lists and
lineage of many."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline import published
from pipeline.config import Config, ConfigError
from pipeline.errors import Fatal
from pipeline.plain import visible_line
from pipeline.readers import query
from pipeline.readers.logs import Log, events_of
from pipeline.readers.parameters import EVENT_PARAMETERS

from . import arguments, brokers, paths, queries_many
from .arguments import DONE, REFUSED, Commands, Handler, command, json_output, number
from .queries_many import checked, filters, given, tell
from .terminal import Terminal

ABOUT = """\
Asks something of one session's log, or of many sessions' headers. SESSION is read from the topics
(its lines from the events topic, as far back as that reaches), PATH from the file or folder."""
TEXT = 200  #: characters of a hit that a person is shown
AROUND = 5


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "query",
        help="search a session; list sessions and their lineage",
        description=ABOUT,
        epilog=(
            "example:\n"
            '  foldstream query search session.v4.jsonl --text "no such file" --surface current\n'
            "  foldstream query trace session.v4.jsonl --at 120\n"
            "  foldstream query lineage 0197f3a2 ./sessions\n\n"
            "--json, --bootstrap, --log-level and the like stand behind search, trace and so on;\n"
            "the --help of each explains them."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = "search|window|trace|contexts|cuts|sessions|lineage"
    nested = parser.add_subparsers(metavar=names, required=True, dest="asked")
    _register_one(nested)
    queries_many.register(nested)


def _register_one(nested: Commands) -> None:
    parser = _asking(
        nested,
        "search",
        search,
        "find events by their text, type, time, seq and place on the surface",
        example=(
            "foldstream query search session.v4.jsonl --text 'permission denied'\n"
            "foldstream query search 0197f3a2 --type tool/result --json | jq -r .text"
        ),
        about=(
            "All that is given has to hold. Text is found whatever its case and white space;\n"
            "copies that replaced an event are found beside it, which then is `shadowed`."
        ),
    )
    filters(parser, EVENT_PARAMETERS)
    number(parser, "--limit", f"at most so many ({query.LIMIT})")
    parser = _asking(
        nested,
        "window",
        window,
        "show the events around a seq, as logged",
        example="foldstream query window session.v4.jsonl --at 120 --around 3 --json | jq .line",
    )
    number(parser, "--at", "the seq in the middle", "SEQ")
    number(parser, "--around", f"events before and after it ({AROUND})")
    parser = _asking(
        nested,
        "trace",
        trace,
        "what replaced an event, and what it replaced",
        example="foldstream query trace session.v4.jsonl --at 120",
    )
    number(parser, "--at", "the event's seq", "SEQ")
    _asking(
        nested,
        "contexts",
        contexts,
        "which injected context the model still sees",
        example="foldstream query contexts session.v4.jsonl",
        about=(
            "alive: the model sees it; superseded: a newer one says the same anew; shadowed: a\n"
            "replacement took it off the surface."
        ),
    )
    _asking(
        nested,
        "cuts",
        cuts,
        "where a compaction would part no call from its result",
        example="foldstream query cuts session.v4.jsonl --json",
    )


def _asking(
    nested: Commands, name: str, handler: Handler, summary: str, *, example: str, about: str = ""
) -> argparse.ArgumentParser:
    """A question about one session."""
    parser = command(nested, name, handler, summary, about=about, example=example)
    parser.add_argument("what", metavar="SESSION|PATH")
    json_output(parser, "each answer")
    arguments.topics(parser)
    return parser


# --- one session ----------------------------------------------------------------------------------


def search(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    asked = given(args, EVENT_PARAMETERS)
    checked(lambda: query.search(Log(), asked))
    log = _log(settings, args.what, terminal)
    if log is None:
        return REFUSED
    hits = list(query.search(log, asked, settings.limit or query.LIMIT))
    for hit in hits:
        tell(
            settings,
            terminal,
            hit,
            f"{hit.seq:>8}  {hit.surface:<9} {hit.type:<18} {_line(hit.text)}",
        )
    terminal.say(f"{len(hits)} events found")
    return DONE


def window(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    at, around = _seq(settings), AROUND if args.around is None else args.around
    log = _log(settings, args.what, terminal, keep_lines=True)
    if log is None:
        return REFUSED
    for each in query.window(log, at, around):
        text = _line(bytes(each.line).decode("utf-8", "replace"))
        tell(settings, terminal, each, f"{each.seq:>8}  {each.surface:<9} {text}")
    return DONE


def trace(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    at = _seq(settings)
    log = _log(settings, args.what, terminal)
    if log is None:
        return REFUSED
    found = query.trace(log, at)
    if found is None:
        raise Fatal(f"no event has the seq {at}", f"the log ends before {log.session.next_seq}")
    said = [f"{found.seq} {visible_line(found.type)}: {found.surface}"]
    said += [f"  replaced by {seq}" for seq in found.chain]
    if found.replaced:
        said.append(f"  it replaced {', '.join(map(str, found.replaced))}")
    tell(settings, terminal, found, "\n".join(said))
    return DONE


def contexts(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    log = _log(settings, args.what, terminal)
    if log is None:
        return REFUSED
    for each in query.contexts(log):
        by = "" if each.by is None else f" by {each.by}"
        kind = visible_line(" ".join(filter(None, (each.kind, each.plugin, each.form))))
        tell(settings, terminal, each, f"{each.seq:>8}  {each.state}{by:<10} {kind}")
    return DONE


def cuts(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    log = _log(settings, args.what, terminal)
    if log is None:
        return REFUSED
    found = query.surface_cuts(log)
    if found.before is None or found.after is None:
        text = f"no cut can be told: the result at {found.corrupt} answers no call before it"
    else:
        seqs = [node.seq for node in log.nodes()]
        after = [str(seq) for seq, balanced in zip(seqs, found.after, strict=True) if balanced]
        text = f"{len(seqs)} nodes; balanced after {', '.join(after) or 'none of them'}"
    tell(settings, terminal, found, text)
    return DONE


def _log(
    settings: Config, what: str, terminal: Terminal, *, keep_lines: bool = False
) -> Log | None:
    """The session with its events; None, after a word about it, for a file of which nothing can be
    read."""
    log = Log(keep_lines=keep_lines)
    if paths.names_a_path(what):
        path = Path(what)
        log.read_file(paths.log_file(path))
        if (trouble := log.trouble) is not None:
            terminal.say(f"foldstream query: {paths.trouble(path, trouble)}")
            return None
        return log
    names = brokers.names(settings)
    with brokers.reader(settings, *published.ROLES, "events") as at_rest:
        found = published.session(at_rest, names, what)
        if found is None:
            raise Fatal(
                f"session {visible_line(what)!r} is not on the topics of {settings.bootstrap}",
                "`foldstream query sessions` lists those that are; or name its file",
            )
        records = events_of(at_rest, names, found.partition)
        return log.read_records(records, what, found.overview.epoch)


def _seq(settings: Config) -> int:
    if settings.at is None:
        raise ConfigError("--at SEQ is needed: which event is meant?")
    return settings.at


# --- saying it ------------------------------------------------------------------------------------


def _line(text: str) -> str:
    """The beginning of a text, on one line."""
    line = visible_line(text[: TEXT + 1])
    return f"{line[:TEXT]}…" if len(line) > TEXT else line
