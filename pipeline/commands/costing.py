"""``query cost``: what sessions used and what it costs, each its own part, and all together."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from operators.changes import SessionOverview
from operators.readers.lineage import SessionRecord
from pipeline import published
from pipeline.config import Config
from pipeline.errors import Fatal
from pipeline.plain import visible_line
from pipeline.readers import costs, query, sessions
from pipeline.readers.asked import Asked
from pipeline.readers.costs import SessionCost
from pipeline.readers.ratecard import read_card

from . import brokers, paths
from .arguments import DONE, REFUSED, Commands, command, json_output, topics
from .asking import session_named, tell, usable
from .terminal import Step, Terminal

TELL_FROM = 50  #: sessions


def register(nested: Commands) -> None:
    parser = command(
        nested,
        "cost",
        cost,
        "what sessions used, and what it costs by a rate card",
        about=(
            "Each session's own part: what a fork inherited is its parent's, a retried attempt is\n"
            "billed, a message logged again is not. The last line is the sum. --family takes one\n"
            "session and all that come from it: forks, subagents, and theirs.\n"
            "Tokens that the card has no price for, or all without one, are `unpriced`.\n"
            "The sessions are those below the ROOTs, without a ROOT those on the topics; with\n"
            "--topics both.\n\n"
            "A rate card is a TOML (or JSON) file; prices are for a million tokens:\n"
            '  currency = "USD"\n'
            "  published = 2026-02-01\n"
            "  [[rate]]\n"
            '  provider = "deepseek"\n'
            '  model = "deepseek-chat"\n'
            "  since = 2025-09-05       # and until: the first day it holds no more\n"
            '  input = "0.28"           # a decimal as text\n'
            '  output = "0.42"\n'
            '  cache_read = "0.028"     # cache_write: absent is not known, so unpriced'
        ),
        example=(
            "foldstream query cost ./sessions --rate-card card.toml\n"
            "foldstream query cost ./sessions --family 0197f3a2 --rate-card card.toml --json"
        ),
    )
    parser.add_argument("roots", nargs="*", type=Path, metavar="ROOT")
    parser.add_argument("--topics", action="store_true", help="those on the topics, too")
    parser.add_argument("--family", metavar="SESSION", help="this one and what comes from it")
    parser.add_argument("--rate-card", metavar="FILE", help="dated prices by provider and model")
    json_output(parser, "each session's, then the sum's (its session is null),")
    topics(parser)


def cost(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    card = None if settings.rate_card is None else read_card(Path(settings.rate_card))
    paths.existing(args.roots)
    wanted = _wanted(settings, args, terminal)
    found: list[SessionCost] = []
    with terminal.progress("folding", "sessions", len(wanted)) as step:
        for number, (source, record) in enumerate(wanted, 1):
            if isinstance(source, SessionOverview):
                routes = costs.published(source)
                found.append(costs.cost(record, source.as_of_seq, routes, card))
            elif usable(source, terminal, log := Asked().read_file(source)):
                routes = costs.folded(log.session)
                found.append(costs.cost(record, log.session.as_of_seq, routes, card))
            _tell(step, number, len(wanted))
    for each in found:
        tell(settings, terminal, each, _line(each))
    whole = costs.total(found, card)
    tell(settings, terminal, whole, "\n".join(_sum(whole)))
    return DONE if found or not wanted else REFUSED


def _tell(step: Step, number: int, of: int) -> None:
    if of >= TELL_FROM and (number % 10 == 0 or number == of):
        step(number, of)


Source: TypeAlias = Path | SessionOverview


def _wanted(
    settings: Config, args: argparse.Namespace, terminal: Terminal
) -> list[tuple[Source, SessionRecord]]:
    """The sessions, each once; of a family its members, parents first."""
    found: dict[str, tuple[Source, SessionRecord]] = {}
    for source, record in _sources(settings, args, terminal):
        first = found.setdefault(record.id, (source, record))[0]
        if first is not source:
            where = f"is read from {first}" if isinstance(first, Path) else "is on the topics"
            terminal.say(f"note: {source}: session {record.id!r} {where}")
    if args.family is None:
        return list(found.values())
    session = session_named(args.family)
    kin = query.lineage((record for _, record in found.values()), session)
    if kin is None:
        raise Fatal(
            f"session {visible_line(session)!r} is not among them",
            "`foldstream query sessions` lists those that are",
        )
    return [found[each] for each in (session, *(each.id for each in kin.descendants))]


def _sources(
    settings: Config, args: argparse.Namespace, terminal: Terminal
) -> Iterator[tuple[Source, SessionRecord]]:
    if args.topics or not args.roots:
        with brokers.reader(settings, "overview") as reader:
            for overview in published.overviews(reader, brokers.names(settings)):
                if overview.session is not None:
                    yield overview, sessions.of_overview(overview)
    yield from sessions.stored(args.roots, terminal.say)


# --- for a person ---------------------------------------------------------------------------------


def _line(found: SessionCost) -> str:
    link = "" if found.link is None else f"  {found.link} of {visible_line(found.parent or '')}"
    return f"{visible_line(found.session or ''):<40} {_amount(found)}{link}"


def _amount(found: SessionCost) -> str:
    some = "all" if found.unpriced == found.tokens else f"{found.unpriced} of them"
    unpriced = f", {some} unpriced" if found.unpriced else ""
    return f"{_money(found.micro, found.currency):>16}  {found.tokens} tokens{unpriced}"


def _money(micro: int, currency: str | None) -> str:
    """Nothing is rounded away; without a card there is no amount."""
    whole, rest = divmod(micro, 1_000_000)
    return "-" if currency is None else f"{whole}.{rest:06d} {visible_line(currency)}"


def _sum(whole: SessionCost) -> Iterator[str]:
    sessions = "1 session" if whole.sessions == 1 else f"{whole.sessions} sessions"
    yield f"{sessions:<40} {_amount(whole)}"
    for route in whole.routes:
        name = visible_line(f"{route.provider or '?'} {route.model or '?'}")
        usage = route.usage
        yield (
            f"  {name}: {_money(route.micro, whole.currency)} for {usage.uncached_input} in, "
            f"{usage.output} out, {usage.cache_read} cache read, {usage.cache_write} cache write"
        )
        for reason in route.reasons:
            yield f"    unpriced: {reason}"
