"""Every fault of a gateway's surroundings, by name: its process, brokers, database, connections."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from .faults_store import fill, tiny_disk
from .gateway_rounds import GatewayFault, GatewayRound

AWAY_S = 30.0


# --- the process ----------------------------------------------------------------------------------


def _kill(round_: GatewayRound) -> None:
    """Twice: at any moment, and while it is still reading on."""
    for least, most in ((2.0, 4.0), (1.0, 2.0)):
        round_.gateway.end(signal.SIGKILL)
        round_.sleep(0.2, 2.0)
        round_.gateway.start()
        round_.sleep(least, most)


def _restart(round_: GatewayRound) -> None:
    """As an operator does: clients are told good-bye."""
    round_.gateway.end(signal.SIGTERM)
    round_.gateway.start()


def _stop(round_: GatewayRound) -> None:
    round_.gateway.send(signal.SIGSTOP)
    time.sleep(12.0)
    round_.gateway.send(signal.SIGCONT)


def _fail_over(round_: GatewayRound) -> None:
    """Cursors are resumed on another gateway, whose database is its own."""
    other = round_.new_gateway("other")
    other.start()
    other.until_ready()
    round_.proxy.lead(round_.front, ("127.0.0.1", other.port))
    round_.gateways.reverse()
    round_.gateways[1].end(signal.SIGKILL)


# --- the brokers ----------------------------------------------------------------------------------


def _broker(how: str, round_: GatewayRound) -> None:
    (node,) = round_.stage.cluster.nodes
    began = time.monotonic()
    if how == "kill":
        round_.stage.kill(node)
    else:
        round_.stage.pause(node)
    round_.stale("")
    time.sleep(max(0.0, AWAY_S - (time.monotonic() - began)))
    round_.stage.mend()


# --- the database ---------------------------------------------------------------------------------


def _deleted(round_: GatewayRound) -> None:
    """While the gateway is down."""
    round_.gateway.end(signal.SIGKILL)
    round_.gateway.database.delete()
    round_.gateway.start()


def _deleted_under_way(round_: GatewayRound) -> None:
    round_.gateway.database.delete()


def _wiped(round_: GatewayRound) -> None:
    """The whole folder, while the gateway is up; once more while it has just begun anew."""
    round_.gateway.database.wipe()
    round_.sleep(2.0, 4.0)
    round_.gateway.until_ready()
    round_.gateway.database.wipe()


def _locked(round_: GatewayRound) -> None:
    with round_.gateway.database.locked():
        round_.stale("locked")
        time.sleep(3.0)


def _full(round_: GatewayRound) -> None:
    ballast = round_.gateway.database.folder / "ballast"
    fill(ballast)
    round_.stale("full")
    time.sleep(3.0)
    ballast.unlink()


def _tiny(round_: GatewayRound, ends: ExitStack) -> None:
    tiny_disk(round_.gateway.database.folder, ends)


def _postgres_killed(round_: GatewayRound) -> None:
    """Twice: for longer than anybody waits, and for a moment."""
    assert round_.server is not None
    round_.server.kill()
    round_.stale("database")
    round_.sleep(8.0, 10.0)
    round_.server.start()
    round_.sleep(3.0, 5.0)
    round_.server.stop()
    round_.server.start()


def _postgres_stopped(round_: GatewayRound) -> None:
    """Connections stay, and nobody answers."""
    assert round_.server is not None
    round_.server.send(signal.SIGSTOP)
    try:
        round_.stale("")
        time.sleep(5.0)
    finally:
        round_.server.send(signal.SIGCONT)


# --- connections ----------------------------------------------------------------------------------


def _cut(round_: GatewayRound) -> None:
    round_.proxy.cut(refuse=True)
    round_.sleep(2.0, 5.0)
    round_.proxy.heal()
    round_.sleep(2.0, 3.0)
    round_.proxy.cut(refuse=False)


def _half_close(round_: GatewayRound) -> None:
    round_.proxy.half_close()


_ALL = (
    GatewayFault(name="gateway-kill", make=_kill),
    GatewayFault(name="gateway-restart", make=_restart),
    GatewayFault(name="gateway-stop", make=_stop),
    GatewayFault(name="gateway-fail-over", make=_fail_over),
    GatewayFault(name="broker-kill-30s", make=partial(_broker, "kill")),
    GatewayFault(name="broker-stop-30s", make=partial(_broker, "stop")),
    GatewayFault(name="database-deleted", make=_deleted),
    GatewayFault(name="database-deleted-under-way", make=_deleted_under_way),
    GatewayFault(name="database-wiped", make=_wiped),
    GatewayFault(name="database-locked", make=_locked),
    GatewayFault(name="disk-full", make=_full, prepare=_tiny),
    GatewayFault(name="postgres-kill", make=_postgres_killed, postgres=True),
    GatewayFault(name="postgres-stop", make=_postgres_stopped, postgres=True),
    GatewayFault(name="postgres-emptied", make=_deleted_under_way, postgres=True),
    GatewayFault(name="clients-cut", make=_cut),
    GatewayFault(name="clients-half-open", make=_half_close),
)
GATEWAY_FAULTS: Mapping[str, GatewayFault] = {fault.name: fault for fault in _ALL}
GATEWAY_SHORT = ("gateway-kill", "database-wiped")
