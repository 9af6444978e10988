"""The ``foldstream`` command: arguments in, exit code out (outputs.md §2).

0 = done, 1 = the run failed (one line says what to do), 2 = usage, 3 = done, but some input was
refused. What the commands do is in ``pipeline/commands``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from importlib import metadata
from types import FrameType
from typing import Any

import msgspec

from . import config
from .commands.arguments import DONE, FAILED, USAGE, CommandParser
from .commands.terminal import Terminal
from .errors import PipelineError

ABOUT = """\
Folds the session logs of LLM agents, over Kafka or in memory, into the two things they mean: the
surface that the model is sent and the transcript that a person reads."""
EXAMPLE = """\
start here:
  foldstream up --demo                  everything on this machine, with simulated sessions
  foldstream show LOG.jsonl             one session's transcript
  foldstream COMMAND --help             what a command does, with an example"""


#: The module in ``pipeline/commands`` of each command, in the order of the help. Only the one that
#: is asked for is imported: a fold of a file need not load the broker's client.
MODULES = {
    "up": "up",
    "fold": "files",
    "pages": "files",
    "show": "showing",
    "surface": "showing",
    "export": "exporting",
    "query": "queries",
    "reference": "references",
    "simulate": "simulating",
    "ingest": "ingesting",
    "run": "workers",
    "gateway": "gateway",
    "watch": "watch",
    "topics": "checking",
    "verify": "checking",
    "doctor": "doctor",
    "deadletter": "letters",
    "config": "settings",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; nothing a run can meet leaves as an exception."""
    argv = sys.argv[1:] if argv is None else argv
    terminal = Terminal()
    try:
        _terminable()
        args = _parsed(argv)
        effective = config.load(_flags(args), os.environ, args.config)
        terminal.log(effective.config)
        args.effective = effective
        code: int = args.handler(effective.config, args, terminal)
        terminal.close()
    except config.ConfigError as error:
        terminal.fail(str(error))
        return USAGE
    except PipelineError as error:
        terminal.fail(str(error))
        return FAILED
    except KeyboardInterrupt:
        terminal.fail("interrupted")
        return FAILED
    except BrokenPipeError:  # whoever read has what it wanted (`| head`)
        return _unread()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        terminal.fail(f"{where}{error.strerror or error}")
        return FAILED
    return code


def _parsed(argv: list[str]) -> argparse.Namespace:
    """SystemExit, after it is written, for help and wrong usage."""
    try:
        return parser(argv[0] if argv else None).parse_args(argv)
    finally:
        sys.stdout.flush()


def _unread() -> int:
    """Nobody reads on: what is still in the buffer goes nowhere, and that is no failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """All commands and their options; with the name of one, those of its module alone."""
    top = CommandParser(
        prog="foldstream",
        description=ABOUT,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = top.add_subparsers(metavar="COMMAND", required=True, dest="command")
    wanted = [MODULES[command]] if command in MODULES else dict.fromkeys(MODULES.values())
    for module in wanted:
        importlib.import_module(f"pipeline.commands.{module}").register(commands)
    return top


class _Version(argparse.Action):
    """Prints the version of what is installed, looked up only when it is asked for."""

    def __call__(self, top: argparse.ArgumentParser, *_: object) -> None:
        try:
            version = metadata.version("foldstream")
        except metadata.PackageNotFoundError:  # run from its sources
            version = "(not installed)"
        print(f"foldstream {version}")
        top.exit(DONE)


def _terminable() -> None:
    """SIGTERM ends a command as Ctrl-C does, so that it takes down what it started."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


def _flags(args: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, by their keys."""
    keys = msgspec.structs.fields(config.Config)
    given = {key.name: getattr(args, key.name, None) for key in keys}
    options = given["client_options"]
    return given | {"client_options": dict(options) if options else None}


if __name__ == "__main__":
    sys.exit(main())
