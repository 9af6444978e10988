"""A real Apache Kafka (KRaft, one node or three) on this machine, without Docker.

:func:`local_kafka` is the door for the command line, the tests and the benches. For developers,
``python -m pipeline.broker --help`` runs a cluster that outlives the command.

Node N listens on port P+N-1 and its controller on P+BROKERS+N-1, all on 127.0.0.1; a cluster is its
folder. Made for one machine's demos, tests and work, not for production.
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path

from .broker_cluster import Cluster, Process, State
from .broker_jars import (
    BrokerError,
    NoKafkaHere,
    Say,
    fetch,
    java_command,
    kafka_version,
    unavailable,
)
from .broker_settings import HOST

__all__ = [
    "BrokerError",
    "Cluster",
    "NoKafkaHere",
    "local_cluster",
    "local_kafka",
    "unavailable",
    "up",
]

_TEMPORARY = "foldstream-kafka-"
_FREE_PORTS = range(20_000, 32_000)  # below the range the system gives to outgoing connections


@contextmanager
def local_kafka(
    brokers: int = 1,
    port: int | None = None,
    directory: Path | None = None,
    say: Say = lambda _: None,
) -> Iterator[str]:
    """A cluster as long as the block runs; gives its bootstrap servers (``HOST:PORT,…``).

    Without ``port`` free ones are taken. Without ``directory`` the data goes with the block; with
    one it stays, and a later block over the same directory continues it, on whatever port.
    A cluster whose process was killed before it could take it down is taken down by the next
    block. Raises :class:`BrokerError`, :class:`NoKafkaHere` for a machine that cannot run one.
    """
    with local_cluster(brokers, port, directory, say) as cluster:
        yield cluster.bootstrap


@contextmanager
def local_cluster(
    brokers: int = 1,
    port: int | None = None,
    directory: Path | None = None,
    say: Say = lambda _: None,
    *,
    proxied: bool = False,
    secured: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """As :func:`local_kafka`, for those who want to kill, pause and start its nodes; ``proxied``:
    or to stand between them and their clients (:meth:`Cluster.front`); ``secured``: or to
    authenticate (:attr:`Cluster.secured`), with these settings of the server."""
    _clear_orphans()
    folder = directory or Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    try:
        cluster = up(folder, brokers, port, owned=True, proxied=proxied, secured=secured, say=say)
        try:
            yield cluster
        finally:
            cluster.down(keep=directory is not None)
    finally:
        if directory is None:
            shutil.rmtree(folder, ignore_errors=True)


def up(
    folder: Path,
    brokers: int = 1,
    port: int | None = None,
    *,
    owned: bool = False,
    proxied: bool = False,
    secured: Mapping[str, str] | None = None,
    say: Say = lambda _: None,
) -> Cluster:
    """Start the folder's cluster, made when there is none, and return when it can be used.

    ``owned``: it belongs to this process and is an orphan when that is gone. A running cluster
    that nobody owns is returned as it is.
    """
    fetch(say)
    folder = folder.resolve()
    known = Cluster.open(folder) if (folder / "state.json").exists() else None
    if known and known.brokers != brokers:
        raise BrokerError(
            f"{folder} holds {known.brokers} node(s), not {brokers}", "choose another folder"
        )
    if known and known.running and not known.orphaned:
        if owned or known.state.owner or (port not in (None, known.state.port)):
            raise BrokerError(
                f"{folder} is in use by a Kafka on {known.bootstrap}", "stop it first"
            )
        known.start(known.nodes)
        return known
    if known:
        known.stop()
    state = State(
        0,
        brokers,
        proxied=proxied,
        secured=dict(secured or {}),
        owner=Process.of(os.getpid()) if owned else None,
    )
    state.port = port = _ports(port, known.state.port if known else None, state.ports)
    say(f"starting Apache Kafka {kafka_version()} on {HOST}:{port}")
    cluster = Cluster(folder, state)
    try:
        cluster.prepare()
        cluster.start(cluster.nodes)
    except BaseException:
        cluster.down(keep=known is not None)
        raise
    return cluster


def _ports(wanted: int | None, before: int | None, count: int) -> int:
    """The first of ``count`` free ports in a row: the wanted, those of last time, or any."""
    if wanted is not None:
        for port in range(wanted, wanted + count):
            if trouble := _trouble(port):
                raise BrokerError(
                    f"port {port} is not free ({trouble}; Kafka needs {wanted} to"
                    f" {wanted + count - 1})",
                    "choose another port, or stop what listens there",
                )
        return wanted
    # Processes that start at once begin to look at different places.
    offset = os.getpid() * 16 % len(_FREE_PORTS)
    last = () if before is None else (before,)
    for first in chain(last, _FREE_PORTS[offset:-count:count], _FREE_PORTS[:offset:count]):
        if not any(map(_trouble, range(first, first + count))):
            return first
    raise BrokerError(f"no {count} free ports in a row in {_FREE_PORTS}", "name one")


def _trouble(port: int) -> str | None:
    """Why that port cannot be listened on."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the JVM: TIME_WAIT is free
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return str(error.strerror).lower()
        except OverflowError:
            return "there is no such port"
    return None


def _clear_orphans() -> None:
    """Take down temporary clusters of this user whose process is gone (killed, not ended)."""
    for state in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*/state.json"):
        with suppress(OSError, BrokerError):
            if state.stat().st_uid == os.getuid() and (left := Cluster.open(state.parent)).orphaned:
                left.down()


# --- for developers -------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """``python -m pipeline.broker``: 0 done, 1 it failed (one line says why), 2 usage."""
    args, rest = _arguments(sys.argv[1:] if argv is None else argv)
    folder = (
        args.dir or Path(tempfile.gettempdir()) / f"foldstream-broker-{os.getuid()}-{args.port}"
    )
    try:
        return _command(args, folder, rest)
    except BrokerError as error:
        _to_stderr(f"broker: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


_COMMANDS = """
  fetch          the jars into the cache (Maven, once)
  up             start, wait until it can be used, print the bootstrap servers
  run -- CMD…    up, CMD with KAFKA_BOOTSTRAP set, down; exits as CMD did
  status         the nodes; exit 1 unless all run
  down           stop and remove the cluster; with --keep the data stays and `up` continues it
  kill N         SIGKILL a node; `start N` brings it back
  pause N        SIGSTOP: connections stay open, nothing answers; `resume N` ends it
  java -- CLASS ARGS…   a main class of the jars, Kafka's own tools included

example: python -m pipeline.broker run --port 19200 -- pytest tests/integration
"""
_SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "resume": signal.SIGCONT}


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    cut = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.broker",
        description="A real Apache Kafka on this machine." + _COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = ["fetch", "up", "run", "status", "down", "start", "java", *_SIGNALS]
    parser.add_argument("command", choices=commands, metavar="COMMAND")
    parser.add_argument("node", type=int, nargs="?", choices=(1, 2, 3), metavar="N")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--port", type=int, default=19092, help="the first one (%(default)s)")
    parser.add_argument("--dir", type=Path, help="the cluster's folder (default: one per port)")
    parser.add_argument("--keep", action="store_true", help="down: a clean stop, the data stays")
    args, rest = parser.parse_intermixed_args(argv[:cut]), argv[cut + 1 :]
    if (args.node is None) == (args.command in ("start", *_SIGNALS)):
        parser.error(
            f"{args.command}: which node? (1 to {args.brokers})"
            if args.node is None
            else "no node here"
        )
    if (args.command in ("run", "java")) != bool(rest):
        parser.error(
            f"{args.command}: a command after -- " + ("is missing" if not rest else "has no use")
        )
    return args, rest


def _command(args: argparse.Namespace, folder: Path, rest: list[str]) -> int:
    match args.command:
        case "fetch":
            print(fetch(_to_stderr))
        case "java":
            fetch(_to_stderr)
            return subprocess.call(java_command(*rest))
        case "up":
            print(up(folder, args.brokers, args.port, say=_to_stderr).bootstrap)
        case "run":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            with local_kafka(args.brokers, args.port, args.dir, _to_stderr) as bootstrap:
                return subprocess.call(rest, env={**os.environ, "KAFKA_BOOTSTRAP": bootstrap})
        case "status":
            cluster = Cluster.open(folder)
            for node in cluster.nodes:
                print(node, cluster.address(node), f"pid={cluster.pid(node) or '-'}")
            return int(not all(map(cluster.pid, cluster.nodes)))
        case "down":
            Cluster.open(folder).down(keep=args.keep)
        case "start":
            Cluster.open(folder).start([args.node])
        case fault:
            Cluster.open(folder).signal(args.node, _SIGNALS[fault])
    return 0


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
