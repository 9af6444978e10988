"""The nodes of a local Apache Kafka: their processes, storage and settings, in one folder.

``state.json`` names the processes (pid and start time) and only those are ever signalled, so a pid
that the system gave to somebody else is safe.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct, field

from .broker_jars import BrokerError, java_command
from .broker_settings import HOST, Layout

READY_SECONDS = 90
STOP_SECONDS = 30
_CLUSTER_ID = "Zm9sZHN0cmVhbUxvY2FsMQ"


class Process(Struct, frozen=True):
    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> Self:
        return cls(pid, _born(pid) or "")

    @property
    def alive(self) -> bool:
        return _born(self.pid) == self.born


class State(Layout):
    owner: Process | None = None  #: who takes it down; None: whoever says ``down``
    nodes: dict[int, Process] = field(default_factory=dict)


class Cluster:
    """The nodes of one folder. Not for two threads at once."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.state = state
        self.brokers = state.brokers
        self.nodes = range(1, state.brokers + 1)
        self._children: list[subprocess.Popen[bytes]] = []

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The cluster that ``folder`` holds, running or not."""
        try:
            state = msgspec.json.decode((folder / "state.json").read_bytes(), type=State)
        except FileNotFoundError:
            raise BrokerError(f"no Kafka in {folder}", "start one there first") from None
        except msgspec.MsgspecError as error:
            raise BrokerError(
                f"{folder}/state.json cannot be read ({error})", "remove it"
            ) from None
        return cls(folder, state)

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, self.nodes))

    def address(self, node: int) -> str:
        return f"{HOST}:{self._port(node)}"

    def behind(self, node: int) -> tuple[str, int]:
        """Where the second listener of ``node`` listens (``proxied``)."""
        return HOST, self.state.at(2, node)

    def front(self, node: int) -> tuple[str, int]:
        """Where that listener tells clients to come: whoever listens there passes them on, and may
        delay or cut what they say. Starting there, a client never meets another address."""
        return HOST, self.state.at(3, node)

    @property
    def secured(self) -> str:
        """The bootstrap servers for clients that authenticate (`Layout.secured`)."""
        return ",".join(f"{HOST}:{self.state.secured_port(node)}" for node in self.nodes)

    @property
    def running(self) -> bool:
        return any(map(self.pid, self.nodes))

    @property
    def orphaned(self) -> bool:
        """The process it belonged to is gone."""
        return self.state.owner is not None and not self.state.owner.alive

    def pid(self, node: int) -> int | None:
        """The node's process, None when it does not run."""
        process = self.state.nodes.get(node)
        return process.pid if process and process.alive else None

    def signal(self, node: int, number: signal.Signals) -> None:
        """SIGKILL (returns when it is gone), SIGSTOP (connections stay open, nothing answers),
        SIGCONT: the faults a test makes."""
        pid = self.pid(node)
        if pid is None:
            raise BrokerError(f"node {node} of {self.folder} does not run")
        os.kill(pid, number)
        while number == signal.SIGKILL and self.pid(node):
            time.sleep(0.01)

    def prepare(self) -> None:
        """Settings and formatted storage for every node, on the ports of the state."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._save()
        except OSError as error:
            raise BrokerError(
                f"Kafka cannot keep its data ({error})", "choose another folder"
            ) from None
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._format, self.nodes))

    def start(self, nodes: Iterable[int]) -> None:
        """Start those of ``nodes`` that do not run; return when each answers and sees all."""
        nodes = list(nodes)
        for node in nodes:
            if self.pid(node) is None:
                self._launch(node)
        deadline = time.monotonic() + READY_SECONDS
        for node in nodes:
            while not _brokers_seen_by(self._port(node)) >= set(nodes):
                if self.pid(node) is None:
                    raise BrokerError(
                        f"Kafka node {node} stopped while it started: {self._last_words(node)}"
                    )
                if time.monotonic() > deadline:
                    raise BrokerError(
                        f"Kafka node {node} was not ready after {READY_SECONDS} s"
                        f" (is the machine overloaded?): {self._last_words(node)}"
                    )
                time.sleep(0.05)

    def stop(self, *, gently: bool = True) -> None:
        """Stop every node, for good or as a crash; the data stays."""
        pids = [pid for node in self.nodes if (pid := self.pid(node))]
        for pid in pids:
            _send(pid, signal.SIGCONT)
            _send(pid, signal.SIGTERM if gently else signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while self.running:
            if time.monotonic() > deadline:
                for node in self.nodes:
                    with suppress(BrokerError):
                        self.signal(node, signal.SIGKILL)
            time.sleep(0.05)
        while self._children:
            self._children.pop().wait()

    def down(self, *, keep: bool = False) -> None:
        """Stop, and unless ``keep`` remove what a cluster leaves in its folder (nothing else)."""
        self.stop(gently=keep)
        if keep:
            return
        for path in [*self.folder.glob("node-*"), *self.folder.glob("state.json")]:
            path.unlink()
        for path in self.folder.glob("data-*"):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # somebody else's files are in it, or it is gone
            self.folder.rmdir()

    def _port(self, node: int) -> int:
        return self.state.at(0, node)

    def _save(self) -> None:
        (self.folder / "state.json").write_bytes(msgspec.json.encode(self.state))

    def _format(self, node: int) -> None:
        settings = self.folder / f"node-{node}.properties"
        settings.write_text(self.state.settings(self.folder, node))
        if (self.folder / f"data-{node}" / "meta.properties").exists():
            return
        tool = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c")
        done = subprocess.run(
            java_command(*tool, settings), capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise BrokerError(
                f"Kafka's storage in {self.folder} cannot be made: {said[-1] if said else '?'}"
            )

    def _launch(self, node: int) -> None:
        command = java_command("kafka.Kafka", self.folder / f"node-{node}.properties")
        with (self.folder / f"node-{node}.log").open("wb") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for the command, which then takes Kafka down
            )
        self._children.append(child)
        self.state.nodes[node] = Process.of(child.pid)
        self._save()

    def _last_words(self, node: int) -> str:
        lines = (self.folder / f"node-{node}.log").read_text(errors="replace").splitlines()
        grave = [
            line for line in lines if "Exception" in line or "ERROR" in line or "FATAL" in line
        ]
        return (grave or lines or ["it said nothing"])[-1 if not grave else 0].strip()


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended by itself meanwhile
        os.kill(pid, number)


def _born(pid: int) -> str | None:
    """When that process started, None when it is gone (a zombie is): tells a pid from its reuse."""
    with suppress(OSError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state == "Z" else rest[18]
    if Path("/proc/self/stat").exists():
        return None
    told = subprocess.run(  # no /proc: macOS
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return told[1].strip() if len(told) == 2 and not told[0].startswith("Z") else None


def _brokers_seen_by(port: int) -> set[int]:
    """Ids of the live brokers as that node answers (Metadata v1, no topics); no answer: none."""
    ids: set[int] = set()
    with (
        suppress(OSError, struct.error),
        socket.create_connection((HOST, port), timeout=20) as sock,
    ):
        sock.sendall(struct.pack(">ihhihi", 14, 3, 1, 0, 0, 0))
        with sock.makefile("rb") as answer:
            _size, _correlation_id, brokers = struct.unpack(">iii", answer.read(12))
            for _ in range(brokers):
                node, host = struct.unpack(">ih", answer.read(6))
                answer.read(host + 4)
                answer.read(max(0, struct.unpack(">h", answer.read(2))[0]))  # rack
                ids.add(node)
    return ids
