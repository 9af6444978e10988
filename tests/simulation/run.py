"""``python -m tests.simulation.run``: many histories, or one again, or the guards taken away.

Exit 0: nothing was violated (with ``--mutants``: every one was found); 1: otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import msgspec

from tests.simulation.histories import History
from tests.simulation.mutants import MUTANTS, applied
from tests.simulation.oracle import Violation, check
from tests.simulation.search import CHUNK, Result, search, silent

FIND_WITHIN = 1_000  #: histories; a guard's absence must show in so many


def main(words: list[str] | None = None) -> int:
    chosen = _arguments().parse_args(words)
    if chosen.replay:
        return replay(msgspec.json.decode(chosen.replay, type=History), chosen.mutant)
    if chosen.mutants:
        return mutants(chosen.seed, chosen.jobs)
    return many(chosen)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.simulation.run", description=__doc__)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS], metavar="NAME")
    parser.add_argument("--mutants", action="store_true", help="search for each, show the table")
    parser.add_argument("--replay", default="", metavar="JSON", help="one history, as printed")
    return parser


def replay(history: History, mutant: str) -> int:
    """Run one history and say what happened."""
    with applied(mutant), silent():
        try:
            fleet = check(history)
        except Violation as violation:
            say(violation)
            return 1
    say("\n".join([*fleet.events, f"nothing violated after {fleet.time.monotonic():.0f} s"]))
    return 0


def many(chosen: argparse.Namespace) -> int:
    """All the histories; the first violation is printed, shrunk, and ends it."""
    chunks = list(_chunks(chosen.seed, chosen.histories))
    began, total, struck, virtual_s = time.monotonic(), 0, Counter[str](), 0.0
    with ProcessPoolExecutor(chosen.jobs) as pool:
        work = partial(_search, mutant=chosen.mutant)
        for result in pool.map(work, chunks):
            total += result.run
            struck.update(result.struck)
            virtual_s += result.virtual_s
            say(f"{total} histories, {time.monotonic() - began:.0f} s")
            if result.history is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                _tell(result, chosen.mutant)
                return 1
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(struck.items()))
    say(f"{total} histories of {virtual_s / 3600:.0f} hours, 0 violations; faults: {kinds}")
    return 0


def _search(chunk: tuple[int, int], *, mutant: str) -> Result:
    return search(*chunk, mutant=mutant)


def _chunks(number: int, count: int) -> Iterator[tuple[int, int]]:
    """(seed, histories) of each Hypothesis run."""
    for n in range(0, count, CHUNK):
        yield number * 100_003 + n // CHUNK, min(CHUNK, count - n)


def _tell(result: Result, mutant: str) -> None:
    say(f"\nviolated after {result.run} histories of its chunk:\n{result.text}\n")
    again = msgspec.json.encode(result.history).decode()
    flag = f" --mutant '{mutant}'" if mutant else ""
    say(f"again: python -m tests.simulation.run{flag} --replay '{again}'")


def mutants(number: int, jobs: int) -> int:
    """The table: each guard, and after how many histories its absence showed."""
    failed = 0
    say(f"{'guard taken away':45} {'histories':>9} {'seconds':>8}  what was violated")
    with ProcessPoolExecutor(jobs) as pool:
        for name, result in zip(MUTANTS, pool.map(partial(find, number), MUTANTS), strict=True):
            found = result.history is not None
            failed += not found
            what = result.text.split("\n")[0][:80] if found else "NOT FOUND"
            say(f"{name:45} {result.run:9} {result.seconds:8.1f}  {what}")
    return 1 if failed else 0


def find(number: int, name: str) -> Result:
    """The first violation without that guard, within `FIND_WITHIN` histories."""
    return search(number, FIND_WITHIN, mutant=name, shrinks=False)


if __name__ == "__main__":
    sys.exit(main())
