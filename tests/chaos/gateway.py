"""The gateway of a round: the product's own command as a process, on one port and database."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
from sqlalchemy import create_engine, text

from pipeline.topics import Names
from tests.postgres import Postgres

from .checks import Trouble
from .crew import Crew

READY_S = 90.0
TOLD_S = 60.0  #: until ``/readyz`` says what is wrong
ASK_S = 5.0


class Database:
    """SQLite in a folder of its own, or a schema of a PostgreSQL server."""

    def __init__(self, folder: Path, server: Postgres | None = None, name: str = "gateway") -> None:
        self.folder = folder / f"database-{name}"
        self.server = server
        self._schema = f"{folder.name}-{name}".replace("-", "_")
        if server is not None:
            self._say(f"CREATE SCHEMA {self._schema}")

    @property
    def url(self) -> str:
        if self.server is None:
            return f"sqlite:///{self.folder}/gateway.db"
        return f"{self.server.url}?options=-csearch_path%3D{self._schema},public"

    def delete(self) -> None:
        """The file, or all tables, and nothing else."""
        if self.server is None:
            for path in self.folder.glob("gateway.db*"):
                path.unlink(missing_ok=True)
        else:
            self._say(f"DROP SCHEMA {self._schema} CASCADE; CREATE SCHEMA {self._schema}")

    def wipe(self) -> None:
        """The whole folder of it."""
        shutil.rmtree(self.folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """As another program does that writes, or keeps all for itself."""
        path = self.folder / "gateway.db"
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    def _say(self, statement: str) -> None:
        assert self.server is not None
        engine = create_engine(self.server.url.replace("postgresql", "postgresql+psycopg"))
        with engine.begin() as connection:
            connection.execute(text(statement))
        engine.dispose()


class Gateway:
    """In one process after the other, always at the same address."""

    def __init__(
        self,
        bootstrap: str,
        names: Names,
        database: Database,
        folder: Path,
        reached_by: str,
    ) -> None:
        self.port = free_port()
        self.database = database
        self.runs = 0
        self._folder = folder
        self._command = [
            *(sys.executable, "-m", "pipeline.cli", "gateway", "--bootstrap", bootstrap),
            *("--prefix", names.prefix, "--listen", f"127.0.0.1:{self.port}"),
            *("--database", database.url, "--allow-host", reached_by),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self._folder / f"gateway-{self.port}.{self.runs}.log"

    def start(self) -> None:
        self.runs += 1
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGKILL, seconds: float = 20) -> int:
        """Its exit code, below 0: by that signal. `Trouble` if it does not go."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Trouble(f"the gateway did not end by {number.name} in {seconds:.0f} s") from None

    def require_up(self) -> None:
        """`Trouble` if it ended although nobody told it to."""
        if self._process is not None and (code := self._process.poll()) is not None:
            words = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            raise Trouble(f"the gateway ended by itself (exit {code}): {words}")

    def health(self) -> tuple[bool, str]:
        """What ``/readyz`` says."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=ASK_S)
            return answer.status_code == 200, " ".join(answer.json()["why"])
        except (httpx.TransportError, ValueError) as error:
            return False, f"no answer: {error!r}"

    def sessions(self) -> int:
        """How many it lists."""
        try:
            answer = httpx.get(f"{self.url}/v1/sessions?limit=500", timeout=ASK_S)
            return len(answer.json().get("sessions", ()))
        except httpx.TransportError:
            return 0

    def until_ready(self) -> None:
        if not Crew.until(lambda: self.health()[0], READY_S):
            raise Trouble(f"/readyz after {READY_S:.0f} s: {self.health()[1]}")

    def until_stale(self, *words: str) -> str:
        """Until it says since when what it serves is stale, and one of the words of why."""

        def says() -> bool:
            ok, why = self.health()
            return not ok and "stale since" in why and any(word in why for word in words)

        if not Crew.until(says, TOLD_S):
            raise Trouble(f"/readyz does not say {' or '.join(words)}: {self.health()[1]}")
        return self.health()[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
