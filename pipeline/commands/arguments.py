"""What the commands' argument parsers share.

An option's ``dest`` is its key in :class:`pipeline.config.Config` and its default None, so that a
flag that was not given leaves the word to the environment and the file.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pipeline import config
from pipeline.patterns import ALL

from .terminal import Terminal

Handler: TypeAlias = Callable[[config.Config, argparse.Namespace, Terminal], int]
"""Runs a command; its exit code (outputs.md §2). An exception of the pipeline's is exit 1."""

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001
else:
    Commands = object

DONE, FAILED, USAGE, REFUSED = 0, 1, 2, 3


class CommandParser(argparse.ArgumentParser):
    """A parser whose usage errors are one line, say where help is, and guess what was meant."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """What is not known is an error here, where the command's own options are known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = _near(unknown[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return found, unknown

    def error(self, message: str) -> None:  # type: ignore[override]
        wrong = _CHOICE.search(message)
        if wrong is not None:
            message = message[: wrong.end(1) + 1]
            message += _near(wrong[1], re.findall(r"[\w-]+", wrong[2])) or f"; one of {wrong[2]}"
        self.exit(USAGE, f"{self.prog}: {message} (`{self.prog} --help` shows how)\n")


_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def command(
    commands: Commands, name: str, handler: Handler, summary: str, *, about: str = "", example: str
) -> argparse.ArgumentParser:
    """A command with its one-line summary, its page of help and the options all commands have."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{about}".rstrip(),
        epilog=f"example:\n{_indented(example)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common(parser)
    parser.set_defaults(handler=handler)
    return parser


def common(parser: argparse.ArgumentParser) -> None:
    levels = ("debug", "info", "warning", "error")
    parser.add_argument(
        "--log-level", choices=levels, help="what is logged to standard error (default: warning)"
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        help="of the log (text); json: one object per line",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="configuration file (default: foldstream.toml in this folder, if it is there)",
    )


def topics(parser: argparse.ArgumentParser) -> None:
    """What every command that reads or writes topics takes."""
    parser.add_argument("--bootstrap", metavar="HOST:PORT,…", help="brokers (127.0.0.1:19092)")
    parser.add_argument("--prefix", help="what the topics' names begin with (sessions.)")
    parser.add_argument(
        "--application-id",
        metavar="ID",
        help="consumer group and state topic (foldstream; foldstream-PREFIX for another prefix)",
    )
    parser.add_argument(
        "--client-option",
        dest="client_options",
        action="append",
        type=_client_option,
        metavar="KEY=VALUE",
        help="passed to the Kafka client, e.g. security_protocol=SASL_SSL (repeatable)",
    )


def strict_sessions(parser: argparse.ArgumentParser, text: str) -> None:
    """``--strict [PATTERN]``: all sessions, or those that match."""
    parser.add_argument(
        "--strict",
        nargs="?",
        const=ALL,
        action="append",
        metavar="PATTERN",
        help=f"{text}, or those whose id matches, e.g. 'prod-*' (repeatable)",
    )


def redaction(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--redaction", metavar="FILE", help=text)


def json_output(parser: argparse.ArgumentParser, what: str) -> None:
    switch(parser, "--json", f"print {what} as JSON, one document per line")


def switch(parser: argparse.ArgumentParser, flag: str, text: str) -> None:
    """An option that is on or off; ``--no-…`` outdoes an environment that says on."""
    parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)


def number(parser: argparse.ArgumentParser, flag: str, text: str, metavar: str = "N") -> None:
    parser.add_argument(flag, type=int, metavar=metavar, help=text)


def _client_option(text: str) -> tuple[str, config.ClientOption]:
    try:
        return config.client_option(text)
    except config.ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().split("\n"))
