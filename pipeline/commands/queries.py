"""``query``: search, windows, replacement chains and injected context of a session; lists,
lineage and costs of many."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.config import Config, ConfigError
from pipeline.errors import Fatal
from pipeline.plain import visible_line
from pipeline.readers import query
from pipeline.readers.asked import Asked, nothing
from pipeline.readers.parameters import EVENT_PARAMETERS

from . import arguments, costing, queries_many
from .arguments import DONE, REFUSED, Commands, Handler, command, json_output, number
from .asking import checked, filters, given, log_of, logs_of, tell
from .terminal import Terminal

ABOUT = """\
Asks something of a session's log, or of many sessions.
SESSION, an id or an address (dsh-session:…), is read from the topics (its lines from the events
topic, as far back as that reaches), PATH from the file or folder."""
TEXT = 200  #: characters of a hit that a person is shown


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "query",
        help="search sessions; list them, their lineage and what they cost",
        description=ABOUT,
        epilog=(
            "example:\n"
            '  foldstream query search session.v4.jsonl --text "no such file" --surface current\n'
            "  foldstream query trace session.v4.jsonl --at 12\n"
            "  foldstream query lineage 0197f3a2 ./sessions\n"
            "  foldstream query cost ./sessions --rate-card card.toml\n\n"
            "--json, --bootstrap, --log-level and the like stand behind search, trace and so on;\n"
            "the --help of each explains them."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = "search|window|trace|contexts|cuts|sessions|lineage|cost"
    nested = parser.add_subparsers(metavar=names, required=True, dest="asked")
    _register_one(nested)
    queries_many.register(nested)
    costing.register(nested)


def _register_one(nested: Commands) -> None:
    parser = _asking(
        nested,
        "search",
        search,
        "find events by their text, type, time, seq and place on the surface",
        example=(
            "foldstream query search session.v4.jsonl --text 'permission denied'\n"
            "foldstream query search ./sessions --text parser --surface current --limit 20\n"
            "foldstream query search 0197f3a2 --type tool/result --json | jq -r .text"
        ),
        about=(
            "All that is given has to hold. Text is found whatever its case and white space;\n"
            "copies that replaced an event are found beside it, which then is `shadowed`.\n"
            "A folder stands for all the sessions in it."
        ),
        several=True,
    )
    filters(parser, EVENT_PARAMETERS)
    number(parser, "--limit", f"at most so many ({query.LIMIT})")
    parser = _asking(
        nested,
        "window",
        window,
        "show the events around a seq, as logged",
        example="foldstream query window session.v4.jsonl --at 12 --around 3 --json | jq .line",
    )
    number(parser, "--at", "the seq in the middle", "SEQ")
    number(parser, "--around", "events before and after it (5)")
    parser = _asking(
        nested,
        "trace",
        trace,
        "what replaced an event, and what it replaced",
        example="foldstream query trace session.v4.jsonl --at 12",
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
    nested: Commands,
    name: str,
    handler: Handler,
    summary: str,
    *,
    example: str,
    about: str = "",
    several: bool = False,
) -> argparse.ArgumentParser:
    """A question about one session, or about several."""
    parser = command(nested, name, handler, summary, about=about, example=example)
    parser.add_argument("what", metavar="SESSION|PATH", nargs="+" if several else None)
    json_output(parser, "each answer")
    arguments.topics(parser)
    return parser


def search(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    asked = given(args, EVENT_PARAMETERS)
    checked(lambda: query.search_wants(asked))
    several = len(args.what) > 1 or Path(args.what[0]).is_dir()
    limit = settings.limit or query.LIMIT
    hits: list[query.Hit] = []
    read = 0

    def make() -> Asked:
        return Asked(query.search_wants(asked, limit - len(hits)))

    for log in logs_of(settings, args.what, terminal, make):
        if log is not None:
            read += 1
            hits += query.search(log, asked, limit - len(hits))
        if len(hits) == limit:
            break
    for hit in hits:
        tell(settings, terminal, hit, _hit(hit, several=several))
    full = len(hits) == limit
    terminal.say(f"the first {limit} events (--limit)" if full else f"{len(hits)} events found")
    return DONE if read else REFUSED


def _hit(hit: query.Hit, *, several: bool) -> str:
    session = f"{visible_line(hit.session or '(no id)')}  " if several else ""
    return f"{session}{hit.seq:>8}  {hit.surface:<9} {visible_line(hit.type):<18} {_line(hit.text)}"


def window(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    at, around = _seq(settings), settings.around
    wants = query.window_wants(at, around)
    log = log_of(settings, args.what, terminal, lambda: Asked(wants, keep_lines=True))
    if log is None:
        return REFUSED
    for each in query.window(log, at, around):
        text = _line(bytes(each.line).decode("utf-8", "replace"))
        tell(settings, terminal, each, f"{each.seq:>8}  {each.surface:<9} {text}")
    return DONE


def trace(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    at = _seq(settings)
    log = log_of(settings, args.what, terminal, lambda: Asked(query.trace_wants(at)))
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
    log = log_of(settings, args.what, terminal, lambda: Asked(query.contexts_wants))
    if log is None:
        return REFUSED
    for each in query.contexts(log):
        state = each.state if each.by is None else f"{each.state} by {each.by}"
        kind = visible_line(" ".join(filter(None, (each.kind, each.plugin, each.form))))
        tell(settings, terminal, each, f"{each.seq:>8}  {state:<19} {kind}")
    return DONE


def cuts(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    log = log_of(settings, args.what, terminal, lambda: Asked(nothing))
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


def _seq(settings: Config) -> int:
    if settings.at is None:
        raise ConfigError("--at SEQ is needed: which event is meant?")
    return settings.at


def _line(text: str) -> str:
    """The beginning of a text, on one line."""
    line = visible_line(text[: TEXT + 1])
    return f"{line[:TEXT]}…" if len(line) > TEXT else line
