"""``python -m tests.pipeline.gateway.schedules``: what clients end with after fault schedules.

Every client must end equal to the server after any loss, duplication, delay, restart and freeze.
With ``--mutants`` every guard is taken away by name, and its absence must show. Exit 0: so it is;
1: otherwise, and the schedule is printed, shrunk.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import msgspec
from msgspec import Struct

from tests.pipeline.gateway.schedule_mutants import MUTANTS, applied
from tests.pipeline.gateway.schedule_world import Viewer, Violation, World

CHUNK = 250  #: schedules of one task of a process
FIND_WITHIN = 1_000  #: schedules; a guard's absence must show in so many
OPEN, GROW, TOOL, REMOVE = 0, 1, 6, 9  #: operations of a log


class Step(Struct, frozen=True):
    """``kind`` of `STEPS`; ``at`` says whom it is about, ``amount`` what its kind makes of it."""

    kind: str
    at: int
    amount: int


def _write(world: World, at: int, amount: int) -> None:
    world.log.write("aabc"[at % 4], amount, amount // 13 + at)


def _feed(world: World, at: int, amount: int) -> None:
    world.feed(world.gateways[at % len(world.gateways)], amount)


def _flush(world: World, at: int, amount: int) -> None:
    world.flush(world.gateways[at % len(world.gateways)], amount % 4 + 1)


def _tick(world: World, at: int, _: int) -> None:
    world.gateways[at % len(world.gateways)].hub.tick(world.now)


def _connect(world: World, at: int, amount: int) -> None:
    gateway = world.gateways[amount % len(world.gateways)]
    world.viewers[at % len(world.viewers)].connect(gateway)


def _serve(world: World, at: int, amount: int) -> None:
    link = world.viewers[at % len(world.viewers)].link
    for _ in range(amount % 5 + 1 if link is not None else 0):
        link.serve(world.now)  # type: ignore[union-attr]


def _read(world: World, at: int, amount: int) -> None:
    for _ in range(amount % 3 + 1):
        world.viewers[at % len(world.viewers)].read()


def _twice(world: World, at: int, _: int) -> None:
    world.viewers[at % len(world.viewers)].read(twice=True)


def _late(world: World, at: int, _: int) -> None:
    world.viewers[at % len(world.viewers)].read_late()


def _fetch(world: World, at: int, amount: int) -> None:
    world.viewers[at % 2].fetch(amount)


def _lost(world: World, at: int, _: int) -> None:
    """The connection ends, and what was in its pipe is lost."""
    link = world.viewers[at % len(world.viewers)].link
    if link is not None:
        link.close()
        link.pipe.clear()


def _go_round(world: World, _: int, amount: int) -> None:
    """All that usually goes on, without a fault."""
    for number, gateway in enumerate(world.gateways):
        if amount % 3 != number + 1:  # at times one of them stays behind
            world.feed(gateway, 255)
            world.flush(gateway, 9)
    for viewer in world.viewers:
        for _ in range(6):
            world.move(viewer, world.gateways[amount % len(world.gateways)])


def _storm(world: World, at: int, amount: int) -> None:
    """Much is written and shared out, and nobody reads."""
    gateway = world.gateways[at % len(world.gateways)]
    for n in range(amount % 9 + 2):
        world.log.write("aab"[at % 3], 1 if amount % 2 else amount + 5 * n, amount + n)
        world.feed(gateway, 255)
        world.flush(gateway, 9)


def _slow_answer(world: World, at: int, amount: int) -> None:
    """Something changes before and after the cut of an answer, and is told after it."""
    viewer = world.viewers[at % len(world.viewers)]
    _serve(world, at, amount % 3)
    for _ in range(2):
        world.log.write("a", 1 if amount % 2 else amount, amount)
        if viewer.link is not None:
            world.feed(viewer.link.gateway, 255)
        _serve(world, at, 0)
    if viewer.link is not None:
        world.flush(viewer.link.gateway, 9)
    _serve(world, at, 4)
    _read(world, at, 2)


def _slow_reply(world: World, at: int, amount: int) -> None:
    """Something changes between a page or row and its arrival."""
    viewer = world.viewers[at % 2]
    viewer.fetch(amount)
    viewer.fetch(amount)
    world.log.write("a", REMOVE if amount % 2 else amount, amount)
    _go_round(world, at, 0)
    viewer.fetch(amount)


def _text_first(world: World, at: int, amount: int) -> None:
    """Text is found before the row that it lengthens."""
    world.log.write("a", 0, 0)
    world.log.write("a", GROW, amount)
    viewer = world.viewers[at % 2]
    if viewer.link is not None:
        gateway = viewer.link.gateway
        world.feed(gateway, 0b111100)
        world.flush(gateway, 9)
        for _ in range(4):
            world.move(viewer, gateway)


def _text_below(world: World, at: int, amount: int) -> None:
    """A row above the pages grows, and again while it is fetched."""
    viewer = world.viewers[at % 2]
    for operation in (OPEN, TOOL, TOOL):
        world.log.write("a", operation, amount)
    viewer.reload()
    _go_round(world, at, 0)
    world.log.write("a", GROW, amount)
    _go_round(world, at, 0)
    viewer.fetch(amount)
    viewer.fetch(amount)
    world.log.write("a", GROW, amount)
    _go_round(world, at, 0)
    viewer.fetch(amount)


def _dashboard_lost(world: World, at: int, amount: int) -> None:
    """Overviews wait for the second to be over when a dashboard is answered, and it goes."""
    gateway, dashboard = world.gateways[at % len(world.gateways)], world.viewers[3]
    dashboard.connect(gateway)
    _serve(world, 3, 1)
    _write(world, at, amount)
    world.feed(gateway, 255)
    world.flush(gateway, 9)
    _serve(world, 3, 1)
    _read(world, 3, 2)
    _lost(world, 3, 0)


def _half_known(world: World, at: int, _: int) -> None:
    """A gateway that begins anew comes to know a viewer's sessions one by one."""
    gateway, viewer = world.gateways[at % len(world.gateways)], world.viewers[0]
    gateway.begin_anew(world.log)
    gateway.untold.append(gateway.model.poll({"overview": 1}))
    world.flush(gateway, 9)
    viewer.connect(gateway)
    _serve(world, 0, 4)
    _read(world, 0, 2)
    _serve(world, 0, 1)
    world.feed(gateway, 255)
    world.flush(gateway, 9)
    _serve(world, 0, 4)
    _read(world, 0, 2)


def _overlap(world: World, at: int, amount: int) -> None:
    """The connection before arrives late, amid what the new one brings."""
    viewer = world.viewers[at % len(world.viewers)]
    _serve(world, at, 4)
    _connect(world, at, amount)
    _write(world, at, amount)
    _go_round(world, at, 0)
    for _ in range(3):
        viewer.read_late()


def _viewer(do: Callable[[Viewer], None]) -> Callable[[World, int, int], None]:
    return lambda world, at, _: do(world.viewers[at % len(world.viewers)])


STEPS: dict[str, tuple[float, Callable[[World, int, int], None]]] = {
    "write": (10, _write),
    "feed": (6, _feed),
    "flush": (6, _flush),
    "tick": (2, _tick),
    "connect": (2, _connect),
    "serve": (8, _serve),
    "read": (8, _read),
    "round": (4, _go_round),
    "storm": (3, _storm),
    "slow answer": (1, _slow_answer),
    "slow reply": (2, _slow_reply),
    "text first": (1, _text_first),
    "text below": (1, _text_below),
    "overlap": (1, _overlap),
    "dashboard lost": (0.5, _dashboard_lost),
    "half known": (0.5, _half_known),
    "twice": (1, _twice),
    "late": (2, _late),
    "fetch": (10, _fetch),
    "lost": (1, _lost),
    "reload": (0.4, _viewer(Viewer.reload)),
    "keep": (0.7, _viewer(Viewer.keep)),
    "restore": (0.7, _viewer(Viewer.restore)),
    "restart": (0.5, lambda w, at, _: w.gateways[at % len(w.gateways)].restart()),
    "wipe": (0.4, lambda w, at, _: w.gateways[at % len(w.gateways)].begin_anew(w.log)),
    "topics": (0.2, lambda w, *_: w.begin_anew()),
    "wait": (0.5, lambda w, _, amount: w.sweep(amount)),
}
_KINDS = tuple(STEPS)
_WEIGHTS = tuple(weight for weight, _ in STEPS.values())


def schedule_of(number: int) -> tuple[Step, ...]:
    """The schedule of a seed."""
    draw = random.Random(number)
    kinds = draw.choices(_KINDS, _WEIGHTS, k=draw.randint(20, 90))
    return tuple(Step(kind, draw.randrange(12), draw.randrange(256)) for kind in kinds)


def check(schedule: tuple[Step, ...]) -> World:
    """Run it, heal, and judge; `Violation` if a client ends different from the server."""
    world = World()
    for step in schedule:
        STEPS[step.kind][1](world, step.at, step.amount)
    world.heal()
    world.judge()
    return world


# --- search ---------------------------------------------------------------------------------------


class Result(Struct, frozen=True):
    """``run``: schedules until the first violation, itself included; ``schedule`` is that one."""

    run: int
    seconds: float
    struck: dict[str, int]
    schedule: tuple[Step, ...] | None = None
    text: str = ""


def search(number: int, count: int, *, mutant: str = "", shrinks: bool = True) -> Result:
    """The schedules of ``count`` seeds from ``number`` on, or up to the first violation."""
    began, struck = time.monotonic(), Counter[str]()
    with applied(mutant):
        for ran in range(count):
            schedule = schedule_of(number + ran)
            text = violated(schedule, struck)
            if text is not None:
                schedule = shrunk(schedule) if shrinks else schedule
                text = violated(schedule, struck) or text
                seconds = time.monotonic() - began
                return Result(ran + 1, seconds, dict(struck), schedule, text)
    return Result(count, time.monotonic() - began, dict(struck))


def violated(schedule: tuple[Step, ...], struck: Counter[str]) -> str | None:
    """What does not hold after it, None if all does. A crash of the core is a violation too."""
    try:
        world = check(schedule)
    except Violation as violation:
        return str(violation)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    struck.update(step.kind for step in schedule)
    for gateway in world.gateways:
        tally = gateway.hub.tally
        struck.update(resyncs=tally.resyncs, coalesced=tally.coalesced, squeezed=tally.squeezed)
    return None


def shrunk(schedule: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same without all that it does not take, from large pieces to single steps."""
    size = len(schedule) // 2
    while size:
        at = 0
        while at < len(schedule):
            shorter = schedule[:at] + schedule[at + size :]
            if violated(shorter, Counter()) is not None:
                schedule = shorter
            else:
                at += size
        size //= 2
    return schedule


# --- the command ----------------------------------------------------------------------------------


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.pipeline.gateway.schedules", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS], metavar="NAME")
    parser.add_argument("--mutants", action="store_true", help="search for each, show the table")
    parser.add_argument("--replay", default="", metavar="JSON", help="one schedule, as printed")
    chosen = parser.parse_args(words)
    if chosen.replay:
        return replay(msgspec.json.decode(chosen.replay, type=tuple[Step, ...]), chosen.mutant)
    if chosen.mutants:
        return mutants(chosen.seed, chosen.jobs)
    return many(chosen.seed, chosen.count, chosen.jobs, chosen.mutant)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def replay(schedule: tuple[Step, ...], mutant: str) -> int:
    with applied(mutant):
        try:
            check(schedule)
        except Violation as violation:
            say(violation)
            return 1
    say("every client ended equal to the server")
    return 0


def many(number: int, count: int, jobs: int, mutant: str) -> int:
    """All the schedules; the first violation is printed, shrunk, and ends it."""
    chunks = [(number + n, min(CHUNK, count - n)) for n in range(0, count, CHUNK)]
    began, total, struck = time.monotonic(), 0, Counter[str]()
    with ProcessPoolExecutor(jobs) as pool:
        for result in pool.map(partial(_search, mutant=mutant), chunks):
            total += result.run
            struck.update(result.struck)
            if result.schedule is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                again = msgspec.json.encode(result.schedule).decode()
                say(f"a client ends different from the server:\n{result.text}\n")
                say(f"again: python -m tests.pipeline.gateway.schedules --replay '{again}'")
                return 1
    kinds = ", ".join(f"{kind} {amount}" for kind, amount in sorted(struck.items()))
    say(f"{total} schedules, {time.monotonic() - began:.0f} s, 0 clients that differ; {kinds}")
    return 0


def _search(chunk: tuple[int, int], *, mutant: str) -> Result:
    return search(*chunk, mutant=mutant)


def mutants(number: int, jobs: int) -> int:
    """The table: each guard, and after how many schedules its absence showed."""
    failed = 0
    say(f"{'guard taken away':50} {'schedules':>9} {'seconds':>8}  what differed")
    with ProcessPoolExecutor(jobs) as pool:
        for name, result in zip(MUTANTS, pool.map(partial(find, number), MUTANTS), strict=True):
            found = result.schedule is not None
            failed += not found
            what = result.text.split("\n")[0][:60] if found else "NOT FOUND"
            say(f"{name:50} {result.run:9} {result.seconds:8.1f}  {what}")
    return 1 if failed else 0


def find(number: int, name: str) -> Result:
    """The first violation without that guard, within `FIND_WITHIN` schedules."""
    return search(number, FIND_WITHIN, mutant=name, shrinks=False)


if __name__ == "__main__":
    sys.exit(main())
