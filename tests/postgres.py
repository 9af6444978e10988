"""A PostgreSQL server of a test run's own, where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest


class NoPostgres(Exception):  # noqa: N818 - a reason, not an error
    """Why there is none."""


def no_postgres(reason: NoPostgres) -> NoReturn:
    """Skips the test that asked; under ``CI=true`` it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(str(reason))


def programs() -> Path:
    """The folder of ``initdb`` and ``postgres``."""
    places = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    raise NoPostgres("no PostgreSQL server is installed (Debian, Ubuntu: apt install postgresql)")


class Postgres:
    """A server that can be killed, stopped and started again; its data stay."""

    def __init__(self, folder: Path) -> None:
        self._bin = programs()
        self._folder = folder
        self._port = _free_port()
        self._server: subprocess.Popen[bytes] | None = None
        user = _user()
        self._as_user: dict[str, Any] = {}
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid}
        _run(
            [str(self._bin / "initdb"), "-D", str(folder / "data"), "-U", "test", "-A", "trust",
             "-E", "UTF8", "--no-sync", "--locale=C.UTF-8"],
            self._as_user,
        )  # fmt: skip

    @property
    def url(self) -> str:
        """Of its database ``postgres``."""
        return f"postgresql://test@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Returns when connections are taken."""
        self._server = subprocess.Popen(
            [str(self._bin / "postgres"), "-D", str(self._folder / "data"), "-p", str(self._port),
             "-k", str(self._folder), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
             # A busy machine ends connections long after the tests that closed them.
             "-c", "max_connections=500"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder,
            **self._as_user,
        )  # fmt: skip
        _wait(self._bin, self._port, self._server)

    def send(self, number: signal.Signals) -> None:
        """To the server and all its processes, each of which is a group of its own."""
        if self._server is not None:
            pid = self._server.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for each in (pid, *map(int, children)):
                with suppress(ProcessLookupError):
                    os.kill(each, number)

    def kill(self) -> None:
        """At once, with all its processes: as when the machine goes."""
        self.send(signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        """At once, whoever is still connected."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
        self._ended()

    def _ended(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.wait(60)


@contextmanager
def server() -> Iterator[Postgres]:
    """One that runs. `NoPostgres` where none can be started."""
    with tempfile.TemporaryDirectory(prefix="foldstream-pg-") as folder:
        made = Postgres(Path(folder))
        made.start()
        try:
            yield made
        finally:
            made.stop()


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database. `NoPostgres` where none can be started."""
    with server() as made:
        yield made.url


def _user() -> pwd.struct_passwd | None:
    """The server refuses to run as root; None: as whoever runs the test."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        raise NoPostgres("a PostgreSQL server needs a user that is not root") from None


def _run(command: list[str], as_user: dict[str, Any]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False, **as_user)
    if done.returncode != 0:
        raise NoPostgres(f"initdb failed: {done.stderr.strip()}")


def _wait(bin_: Path, port: int, server: subprocess.Popen[bytes]) -> None:
    """``pg_isready`` answers 0 once connections are taken."""
    for _ in range(300):
        ready = subprocess.run(
            [str(bin_ / "pg_isready"), "-q", "-t", "1", "-h", "127.0.0.1", "-p", str(port)],
            check=False,
        )
        if ready.returncode == 0:
            return
        if server.poll() is not None:
            break
    raise NoPostgres("the PostgreSQL server did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
