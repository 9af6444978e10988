"""Every fault, by name: what is done to workers, brokers, connections, stores and input."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from functools import partial

from .checks import Trouble
from .crew import Worker
from .faults_store import STORE
from .feeder import twice
from .rounds import Fault, Round
from .stage import Stage

LINES = range(1, 8)  #: of the commit procedure; 6 is after the commit and before the merge
WITHIN_S = 10.0  #: a fault at a line is made; a batch comes every few hundred milliseconds
SESSION_S = 10.0  #: `limits.SESSION_TIMEOUT_MS`
POLL_INTERVAL_MS = 12_000
TWIN_S = 45.0
JOINED_S = 5.0


# --- workers --------------------------------------------------------------------------------------


def _struck_at_line(round_: Round, worker: Worker, line: int, number: signal.Signals) -> None:
    """Wait until the process has done it to itself."""
    held, since = round_.held(worker), time.monotonic()
    worker.strike(line, number)

    def moments() -> list[float]:
        return [
            one.entry.at
            for one in round_.told
            if one.entry.what == "fault" and one.instance == worker.label and one.entry.at > since
        ]

    round_.until(f"{worker.label} reaches line {line}", lambda: bool(moments()), WITHIN_S)
    round_.strike(held, at=moments()[0])


def _kill_at(line: int, round_: Round) -> None:
    """One worker, and a few seconds later the other."""
    first = round_.worker()
    for worker in (first, *(w for w in round_.crew.running if w is not first)):
        _struck_at_line(round_, worker, line, signal.SIGKILL)
        round_.sleep(2.0, 4.0)


def _zombie(round_: Round) -> None:
    """Stopped in the middle of a batch until its place in the group is another's, then continued:
    whatever it believes then is no longer true."""
    worker = round_.worker()
    _struck_at_line(round_, worker, round_.random.randint(1, 6), signal.SIGSTOP)
    time.sleep(max(SESSION_S, POLL_INTERVAL_MS / 1000) + round_.random.uniform(2.0, 5.0))
    worker.send(signal.SIGCONT)
    round_.sleep(2.0, 4.0)


def _come_and_go(round_: Round) -> None:
    """Two more workers, each there and away every few seconds, by SIGTERM or SIGKILL."""
    crew = round_.crew
    extra = [crew.start("w3"), crew.start("w4")]
    for _ in range(6):
        round_.sleep(1.0, 2.5)
        worker = round_.random.choice(extra)
        if worker.pid is None:
            crew.again(worker)
        elif worker.wanted:
            _leave(round_, worker, round_.random.choice([signal.SIGTERM, signal.SIGKILL]))
    for worker in extra:
        if worker.wanted:
            _leave(round_, worker, signal.SIGTERM)


def _leave(round_: Round, worker: Worker, number: signal.Signals) -> None:
    """Once it was given something, if that takes no longer than it should."""

    def has_some() -> bool:
        return any(
            one.entry.assigned and (one.instance, one.run) == (worker.label, worker.runs)
            for one in round_.told
        )

    round_.crew.until(has_some, JOINED_S)
    round_.strike()
    round_.crew.retire(worker, number)


def _twin(round_: Round) -> None:
    """The same application under an instance name that is in use: one of them stops and says so."""
    one = round_.worker()
    held, since = round_.held(one), time.monotonic()
    twin = round_.crew.start(one.instance, label=f"{one.instance}-twin")
    one.wanted = twin.wanted = False
    labels = (one.label, twin.label)
    round_.strike(held)

    def stopped() -> bool:
        return round_.exit_of(*labels, since=since) is not None

    round_.until("a twin stops by itself", stopped, TWIN_S)
    left = round_.exit_of(*labels, since=since)
    if left is None or "instance" not in left.words:
        raise Trouble(f"a twin stopped without saying why: {left}")
    round_.sleep(3.0, 5.0)
    if one.pid is None and twin.pid is None:
        raise Trouble("both twins stopped")


# --- brokers --------------------------------------------------------------------------------------


def _leader(stage: Stage, round_: Round) -> int:
    leaders = stage.leaders(round_.names.of("events"))
    return leaders[round_.random.choice(sorted(leaders))]


def _transaction_coordinator(stage: Stage, round_: Round) -> int:
    return stage.transaction_coordinator(f"{round_.names.application}-{round_.worker().instance}")


def _group_coordinator(stage: Stage, round_: Round) -> int:
    return stage.group_coordinator(round_.names.application)


Find = Callable[[Stage, Round], int]

_BROKERS: Mapping[str, Find] = {
    "leader": _leader,
    "txn-coordinator": _transaction_coordinator,
    "group-coordinator": _group_coordinator,
}


def _kill_broker(find: Find, round_: Round) -> None:
    node = find(round_.stage, round_)
    round_.strike()
    round_.stage.kill(node)
    round_.sleep(0.5, 3.0)
    round_.stage.cluster.start([node])


def _stop_broker(find: Find, round_: Round) -> None:
    """For longer than the others wait for it; its connections stay open meanwhile."""
    node = find(round_.stage, round_)
    round_.strike()
    round_.stage.pause(node)
    round_.sleep(8.0, 13.0)
    round_.stage.resume(node)
    round_.sleep(1.0, 2.0)


# --- connections ----------------------------------------------------------------------------------


def _delay(round_: Round) -> None:
    round_.strike()
    round_.stage.proxy.delay(round_.random.uniform(0.1, 0.4))
    round_.sleep(5.0, 8.0)
    round_.stage.proxy.heal()


def _cut(round_: Round) -> None:
    """Reset, with nobody answering for a while; then reset once more, answered at once."""
    round_.strike()
    round_.stage.proxy.cut(refuse=True)
    round_.sleep(0.5, 4.0)
    round_.stage.proxy.heal()
    round_.sleep(3.0, 5.0)
    round_.strike()
    round_.stage.proxy.cut(refuse=False)
    round_.sleep(1.0, 2.0)


def _half_close(round_: Round) -> None:
    for _ in range(2):
        round_.strike()
        round_.stage.proxy.half_close()
        round_.sleep(4.0, 6.0)


# --- input ----------------------------------------------------------------------------------------


def _nothing(round_: Round) -> None:
    """The fault is in the input."""
    round_.sleep(6.0, 8.0)


# --- all of them ----------------------------------------------------------------------------------


def _all() -> dict[str, Fault]:
    found = [
        *(Fault(name=f"worker-kill-line-{line}", make=partial(_kill_at, line)) for line in LINES),
        Fault(
            name="worker-zombie",
            make=_zombie,
            options={"max_poll_interval_ms": POLL_INTERVAL_MS},
        ),
        *(
            Fault(name=f"broker-{what}-{which}", make=partial(how, find))
            for which, find in _BROKERS.items()
            for what, how in (("kill", _kill_broker), ("stop", _stop_broker))
        ),
        Fault(name="proxy-delay", make=_delay, proxied=True),
        Fault(name="proxy-cut", make=_cut, proxied=True),
        Fault(name="proxy-half-close", make=_half_close, proxied=True),
        Fault(name="workers-come-and-go", make=_come_and_go),
        Fault(name="twin-transactional-id", make=_twin, stops=True),
        *STORE,
        Fault(name="input-twice", make=_nothing, feed=twice),
    ]
    return {fault.name: fault for fault in found}


FAULTS: Mapping[str, Fault] = _all()
SHORT = (
    "worker-kill-line-3",
    "worker-kill-line-6",
    "broker-kill-leader",
    "proxy-cut",
    "store-deleted",
)
