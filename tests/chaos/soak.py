"""Minutes of steady work under faults: ``python -m tests.chaos.soak [--minutes 15]``.

First the capacity of the workers is measured, with a backlog; then so much of it is fed steadily
(``--share``), with a worker's fault every 20 s and a broker's every 3 minutes. Memory, descriptors
and threads of every process are sampled; one worker is never killed, only stopped now and then, so
that what grows is seen. At the end all must be folded and ``foldstream verify`` ok.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct, structs

from pipeline.topics import Names

from . import journal
from .capacity import INSTANCES, measured, place_in, ready
from .checks import Trouble, catch_up, verify
from .crew import Crew
from .feeder import Feeder, stream
from .measures import quantile, table
from .sampling import Growth, Sampler, growth
from .stage import PARTITIONS, Stage, say, stage

SHARE = 0.7
MINUTES = 15.0
WORKER_FAULT_S = 20.0
BROKER_FAULT_S = 180.0
LASTING, *MORTAL = INSTANCES  #: the first is never killed
CATCH_UP_S = 300.0
VERIFY_S = 1800.0
#: So few that they are full within minutes: what grows after that is a leak.
RESIDENT_BYTES, STORE_BYTES = 48 << 20, 8 << 20
EVERYWHERE = frozenset(range(PARTITIONS))
COLUMNS = (
    *("process", "what", "samples", "first third", "second", "last"),
    *("slope per hour of the last two", "flat"),
)


class Struck(Struct, frozen=True):
    what: str
    at: float
    partitions: frozenset[int]


class Result(Struct, frozen=True):
    capacity: float
    rate: float
    minutes: float
    lines: int
    struck: list[Struck]
    recovery: dict[str, list[float]]
    growth: list[Growth]
    stops: list[str]
    verify: str
    trouble: str

    @property
    def ok(self) -> bool:
        return self.verify == "ok" and not self.trouble and not self.stops


def main(arguments: list[str] | None = None) -> int:
    args = _arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = args.keep or Path(tempfile.mkdtemp(prefix="foldstream-soak-"))
    with stage(args.port, None) as there:
        capacity = args.capacity or measured(there, folder / "capacity", args.seed, args.fastest)
        say(f"capacity {capacity:.0f} records/s; fed are {capacity * args.share:.0f}")
        result = _Soak(there, folder / "soak", args, capacity).run()
    _report(result)
    if args.json is not None:
        args.json.write_bytes(msgspec.json.encode(result))
    if result.ok and not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"logs are in {folder}")
    return int(not result.ok)


class _Soak:
    def __init__(
        self, there: Stage, folder: Path, args: argparse.Namespace, capacity: float
    ) -> None:
        self._there = there
        self._folder = folder
        self._args = args
        self._capacity = capacity
        self._random = Random(f"{args.seed}/soak")
        self._names = Names("soak.", "soak")
        place = place_in(there, folder, self._names)
        self._place = structs.replace(place, resident_bytes=RESIDENT_BYTES, store_bytes=STORE_BYTES)
        self._struck: list[Struck] = []
        self._recovery: dict[str, list[float]] = {}
        lines = stream(self._random, PARTITIONS)
        rate = capacity * args.share
        self._feeder = Feeder(there.bootstrap, self._names.of("events"), lines, rate, keep=False)

    def run(self) -> Result:
        trouble, began = "", time.monotonic()
        self._there.create(self._names)
        with Crew(self._place) as crew, Sampler(self._folder / "samples", self._pids(crew)) as seen:
            try:
                self._feeder.start()
                for instance in INSTANCES:
                    crew.start(instance)
                ready(self._folder)
                self._strike_on(crew, began + 60 * self._args.minutes)
                self._there.mend()
                self._feeder.finish(CATCH_UP_S)
                catch_up(self._there, self._names, self._folder, self._feeder.ends, CATCH_UP_S)
                if left := crew.stop():
                    trouble = f"not ended by SIGTERM: {', '.join(left)}"
            except (Trouble, TimeoutError) as error:
                trouble = str(error)
                crew.send(signal.SIGUSR1)  # where each of them is
                time.sleep(1)
            finally:
                self._feeder.stop()
        self._recovered()
        return Result(
            capacity=self._capacity,
            rate=self._capacity * self._args.share,
            minutes=(time.monotonic() - began) / 60,
            lines=self._feeder.confirmed,
            struck=self._struck,
            recovery=self._recovery,
            growth=growth(seen.samples),
            stops=[f"{one.instance}: {one.words}" for one in crew.exits if one.by_itself],
            verify=verify(self._there.bootstrap, self._names, self._folder, VERIFY_S),
            trouble=trouble,
        )

    def _pids(self, crew: Crew) -> Callable[[], dict[str, int]]:
        def pids() -> dict[str, int]:
            found = {
                f"{worker.label}.{worker.runs}": worker.pid
                for worker in crew.running
                if worker.pid is not None
            }
            nodes = {
                f"broker-{node}": pid
                for node in self._there.cluster.nodes
                if (pid := self._there.cluster.pid(node)) is not None
            }
            return {**found, **nodes}

        return pids

    def _strike_on(self, crew: Crew, until: float) -> None:
        worker_due = time.monotonic() + WORKER_FAULT_S
        broker_due = time.monotonic() + BROKER_FAULT_S / 2
        kinds = 0
        while time.monotonic() < until:
            time.sleep(0.2)
            if time.monotonic() >= broker_due:
                broker_due += BROKER_FAULT_S
                self._broker_fault(kinds)
                worker_due = max(worker_due, time.monotonic() + WORKER_FAULT_S / 2)
            elif time.monotonic() >= worker_due:
                worker_due += WORKER_FAULT_S
                self._worker_fault(crew, kinds)
            else:
                continue
            kinds += 1
            say(self._progress(until))

    def _worker_fault(self, crew: Crew, kind: int) -> None:
        """Killed at a line of the commit procedure, killed anywhere, ended and begun, or stopped
        for a few seconds."""
        worker = crew.worker(self._random.choice(MORTAL))
        told = journal.read(self._folder)
        match kind % 4:
            case 0:
                worker.strike(self._random.randint(1, 7))
                what = "kill at a line"
            case 1:
                worker.send(signal.SIGKILL)
                what = "kill"
            case 2:
                worker.send(signal.SIGTERM)
                what = "end and begin"
            case _:
                worker = crew.worker(LASTING)
                what = "stop and continue"
        held = journal.held_by(told, worker.label, time.monotonic())
        self._struck.append(Struck(what, time.monotonic(), frozenset(held)))
        if what == "stop and continue":
            worker.send(signal.SIGSTOP)
            time.sleep(self._random.uniform(1.0, 4.0))
            worker.send(signal.SIGCONT)

    def _broker_fault(self, kind: int) -> None:
        node = self._random.choice(list(self._there.cluster.nodes))
        what = ("broker: kill", "broker: stop")[kind % 2]
        self._struck.append(Struck(what, time.monotonic(), EVERYWHERE))
        if kind % 2:
            self._there.pause(node)
            time.sleep(self._random.uniform(8.0, 12.0))
        else:
            self._there.kill(node)
            time.sleep(1.0)
        self._there.mend()

    def _recovered(self) -> None:
        told = journal.read(self._folder)
        for one in self._struck:
            found = journal.recoveries(told, self._feeder.sent, one.at, one.partitions)
            if found:
                self._recovery.setdefault(one.what, []).append(max(found.values()))

    def _progress(self, until: float) -> str:
        done = sum(journal.folded_to(journal.read(self._folder)).values())
        return (
            f"{(until - time.monotonic()) / 60:.1f} minutes left; {self._struck[-1].what}; "
            f"{self._feeder.confirmed} fed, {self._feeder.confirmed - done} not folded yet"
        )


def _report(result: Result) -> None:
    rows = [COLUMNS, *(one.row() for one in result.growth)]
    sys.stdout.write(table(rows, left=(0, 1)))
    recovered = [("fault", "times", "p50 s", "max s")]
    recovered += [
        (what, str(len(some)), f"{quantile(some, 0.5):.1f}", f"{max(some):.1f}")
        for what, some in sorted(result.recovery.items())
    ]
    sys.stdout.write(table(recovered))
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    sys.stdout.write(
        f"{result.lines} records in {result.minutes:.1f} minutes, {len(result.struck)} faults; "
        f"capacity {result.capacity:.0f}/s, fed {result.rate:.0f}/s; "
        f"{os.cpu_count()} cores, load {load}\nverify: {result.verify}\n"
    )
    for wrong in (result.trouble, *result.stops):
        if wrong:
            sys.stdout.write(f"not ok: {wrong}\n")


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=MINUTES, help="(%(default)s)")
    parser.add_argument("--share", type=float, default=SHARE, help="of the capacity (%(default)s)")
    parser.add_argument("--capacity", type=float, help="records/s, instead of measuring it")
    parser.add_argument("--fastest", type=float, default=10_000.0, help="fed while measuring")
    parser.add_argument("--port", type=int, help="the brokers' first one (any that are free)")
    parser.add_argument("--seed", default="1", help="of all that is chosen (%(default)s)")
    parser.add_argument("--keep", type=Path, help="a folder for all logs, kept in any case")
    parser.add_argument("--json", type=Path, help="write the result there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of a client that were abandoned may not hold the process
