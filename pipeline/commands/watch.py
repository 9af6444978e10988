"""``watch``: the dashboard in a terminal, out of a gateway."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import Config, ConfigError

from .arguments import DONE, Commands, command
from .terminal import Terminal

if TYPE_CHECKING:
    from pipeline.gateway.client import Client
    from pipeline.watch.app import Watch


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "watch",
        watch,
        "the dashboard in a terminal: all sessions, one session's transcript, live",
        about=(
            "Asks a gateway, like the page in a browser: `foldstream gateway` or `foldstream up`,\n"
            "which print its address. ? shows the keys, q ends it. NO_COLOR is heeded.\n"
            "For scripts there are the gateway's own answers: GET /v1/openapi.json."
        ),
        example=(
            "foldstream watch                        a gateway on this machine\n"
            "foldstream watch sim-00000007 --gateway http://127.0.0.1:8081\n"
            "foldstream watch --gateway https://agents.example.org --token-file token"
        ),
    )
    parser.add_argument("session", nargs="?", metavar="SESSION")
    parser.add_argument("--gateway", metavar="URL", help=f"whom to ask ({Config().gateway})")
    parser.add_argument(
        "--token-file", metavar="FILE", help="a file with the gateway's token on its first line"
    )


def watch(settings: Config, args: argparse.Namespace, _: Terminal) -> int:
    """Until it is left."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise ConfigError(
            "watch needs a terminal",
            f"a script asks the gateway itself: curl {settings.gateway}/v1/sessions",
        )
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # an empty one means nothing; Textual takes it for a word
    app = made(settings, args.session)
    asyncio.run(_until_left(app))
    return DONE if app.return_code is None else app.return_code


def made(settings: Config, session: str | None) -> Watch:
    """The program; `ConfigError` for a URL that is none, or packages that are not there."""
    try:
        from pipeline.gateway.client import Client  # noqa: PLC0415 - a fifth of a second
        from pipeline.watch.app import Watch  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"watch needs {error.name}, which is not installed",
            "install it: pip install 'foldstream[watch]'",
        ) from error

    url, token = _url(settings.gateway), _token(settings.token_file)

    def connect(sessions: Sequence[str], view: str) -> Client:
        return Client(url, sessions, view, token=token)

    return Watch(connect, session)


async def _until_left(app: Watch) -> None:
    """A signal leaves it as a key does: the terminal is put back."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, app.exit)
    await app.run_async()


def _url(given: str) -> str:
    scheme, colon, rest = given.partition("://")
    if scheme not in ("http", "https") or not colon or not rest.strip("/"):
        raise ConfigError(f"--gateway {given!r} is no URL", "for example http://127.0.0.1:8080")
    return given


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    from pipeline.gateway.security import read_tokens  # noqa: PLC0415 - starlette comes with it

    return read_tokens(Path(file))[0].token
