"""One round: workers, a steady feed, a fault at a seeded moment, and what is left to prove."""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from pipeline.topics import Names

from . import journal
from .audit import Audit, audit
from .checks import CATCH_UP_S, Trouble, catch_up, verify
from .crew import Crew, Exit, Place, Worker
from .feeder import Feeder, Line, stream
from .journal import Told
from .stage import PARTITIONS, Stage

RATE = 300.0  #: lines a second, over all partitions
REST_S = 2.0  #: is fed after the fault is over
READY_S = 60.0
INSTANCES = ("w1", "w2")
EVERYWHERE = frozenset(range(PARTITIONS))


class Struck(Struct, frozen=True):
    """A fault was made (or what it was made to was free to recover), and whom it concerned."""

    at: float
    partitions: frozenset[int]


def as_it_is(_: Random, lines: Iterator[Line]) -> Iterator[Line]:
    return lines


class Fault(Struct, frozen=True, kw_only=True):
    """``make`` is called at a seeded moment. ``stops``: a worker that stops by itself is what the
    fault is about. ``prepare``: before the workers start; ``feed``: the lines as they are sent."""

    name: str
    make: Callable[[Round], None]
    proxied: bool = False
    stops: bool = False
    options: dict[str, Any] = {}
    prepare: Callable[[Round, ExitStack], None] | None = None
    feed: Callable[[Random, Iterator[Line]], Iterator[Line]] = as_it_is


class Outcome(Struct, frozen=True, kw_only=True):
    """One round's result. ``recovery``: per fault made, seconds until every partition concerned
    had a record committed that was produced after it. ``stops``: workers that stopped by
    themselves, where none should. ``phases``: what the round spent its seconds on.
    ``kept``: the folder with the logs, if anything is wrong."""

    fault: str
    round: int
    seed: str
    lost: int
    duplicated: int
    verify: str
    recovery: list[float]
    stops: list[str]
    trouble: str
    seconds: float
    fed: int
    faults: int
    phases: dict[str, float]
    kept: str = ""

    @property
    def ok(self) -> bool:
        return not (self.lost or self.duplicated or self.stops or self.trouble) and (
            self.verify == "ok"
        )


class Round:
    """What a fault's functions may look at and touch."""

    def __init__(self, stage: Stage, fault: Fault, seed: str, number: int, folder: Path) -> None:
        self.stage = stage
        self.fault = fault
        self.seed = seed
        self.number = number
        self.folder = folder
        self.random = Random(seed)
        self.names = Names(f"c{folder.name}.", f"c{folder.name}")
        self.struck: list[Struck] = []
        self.phases: dict[str, float] = {}
        self._since = time.monotonic()
        self.state = folder / "state"
        lines = fault.feed(self.random, stream(self.random, PARTITIONS))
        self.crew = Crew(
            Place(
                bootstrap=stage.proxied if fault.proxied else stage.bootstrap,
                names=self.names,
                folder=folder,
                state=self.state,
                options=fault.options,
            )
        )
        self.feeder = Feeder(stage.bootstrap, self.names.of("events"), lines, RATE)

    # --- for the faults ---------------------------------------------------------------------------

    @property
    def told(self) -> list[Told]:
        return journal.read(self.folder)

    def worker(self) -> Worker:
        """One of the two, by the seed."""
        return self.crew.worker(self.random.choice(INSTANCES))

    def sleep(self, least: float, most: float) -> None:
        time.sleep(self.random.uniform(least, most))

    def strike(self, partitions: Iterable[int] = EVERYWHERE, at: float | None = None) -> None:
        """Note that a fault is made now."""
        self.struck.append(Struck(time.monotonic() if at is None else at, frozenset(partitions)))

    def held(self, worker: Worker) -> set[int]:
        return journal.held_by(self.told, worker.label, time.monotonic())

    def until(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        if not Crew.until(condition, seconds):
            raise Trouble(f"{what}: not within {seconds:.0f} s")

    def exit_of(self, *labels: str, since: float) -> Exit | None:
        """The first that stopped by itself since then."""
        exits = [
            e for e in self.crew.exits if e.by_itself and e.at >= since and e.instance in labels
        ]
        return exits[0] if exits else None

    # --- the round --------------------------------------------------------------------------------

    def play(self) -> Outcome:
        began = time.monotonic()
        trouble, verdict, count = "", "not run", Audit()
        try:
            self._faults()
            self._passed("stop")
            verdict = verify(self.stage.bootstrap, self.names, self.folder)
            self._passed("verify")
            count = audit(self.stage.bootstrap, self.names, self.feeder.fed)
            self._passed("audit")
            trouble = count.first
        except (Trouble, TimeoutError) as error:
            trouble = str(error)
            if verdict == "not run":  # what is there may still be right, if not complete
                verdict = verify(self.stage.bootstrap, self.names, self.folder)
        return self._outcome(began, count, verdict, trouble)

    def _faults(self) -> None:
        with ExitStack() as ends:
            self.state.mkdir()
            if self.fault.prepare is not None:
                self.fault.prepare(self, ends)
            self.stage.create(self.names)
            self._passed("topics")
            ends.enter_context(self.crew)
            for instance in INSTANCES:
                self.crew.start(instance)
            self.feeder.start()
            ends.callback(self.feeder.stop)
            ends.push(self._told_where)
            self.until("both workers commit", self._both_commit, READY_S)
            self._passed("ready")
            self.sleep(0.5, 2.5)
            try:
                self.fault.make(self)
            finally:
                self.stage.proxy.heal()
                self.stage.mend()
            self._passed("fault")
            time.sleep(REST_S)
            self.feeder.finish(CATCH_UP_S)
            catch_up(self.stage, self.names, self.folder, self.feeder.ends)
            self._passed("catch-up")
            if left := self.crew.stop():
                raise Trouble(f"not ended by SIGTERM within 20 s: {', '.join(left)}")

    def _passed(self, phase: str) -> None:
        now = time.monotonic()
        self.phases[phase], self._since = round(now - self._since, 2), now

    def _told_where(self, kind: type[BaseException] | None, *_: object) -> None:
        """When something was waited for in vain, every worker writes its stacks to its log."""
        if kind is not None:
            self.crew.send(signal.SIGUSR1)
            time.sleep(0.5)

    def _both_commit(self) -> bool:
        told, now = self.told, time.monotonic()
        held = [journal.held_by(told, instance, now) for instance in INSTANCES]
        return all(held) and set().union(*held) == EVERYWHERE

    def _outcome(self, began: float, count: Audit, verdict: str, trouble: str) -> Outcome:
        told = self.told
        found = [
            journal.recoveries(told, self.feeder.sent, one.at, one.partitions)
            for one in self.struck
        ]
        words = Counter(
            f"{e.instance}: {e.words}"
            for e in self.crew.exits
            if e.by_itself and not self.fault.stops
        )
        stops = [f"{said} ({times} times)" for said, times in words.items()]
        if trouble == "" and not count.clean:
            trouble = "the audit is not clean"
        return Outcome(
            fault=self.fault.name,
            round=self.number,
            seed=self.seed,
            lost=count.lost,
            duplicated=count.duplicated,
            verify=verdict,
            recovery=[max(one.values()) for one in found if one],
            stops=stops,
            trouble=trouble,
            seconds=time.monotonic() - began,
            fed=self.feeder.confirmed,
            faults=len(self.struck),
            phases=self.phases,
        )


def play(
    stage: Stage, fault: Fault, seed: str, number: int, folder: Path, *, keep: bool
) -> Outcome:
    """One round in a folder of its own, which stays with ``keep`` or if something is wrong."""
    folder.mkdir(parents=True)
    outcome = Round(stage, fault, seed, number, folder).play()
    if keep or not outcome.ok:
        outcome = msgspec.structs.replace(outcome, kept=str(folder))
        (folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))
    if not outcome.ok:
        return outcome
    stage.delete(Names(f"c{folder.name}.", f"c{folder.name}"))
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome
