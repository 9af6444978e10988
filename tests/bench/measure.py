"""How the benches measure: two or more ways of doing one thing, in turn, in one run.

A figure is worth something only beside another of the same minute: machines differ, and a shared
one differs from itself. So every round runs all sides one after the other, each round beginning
with another one, and what counts is the ratio.
"""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from statistics import median

from msgspec import Struct

Work = Callable[[], object]
Clock = Callable[[], float]


class Options(Struct, frozen=True):
    """``size`` scales the input (1: as the aims are meant); ``logs``: a folder of session logs to
    measure instead of simulated ones; ``bootstrap``: a broker to use instead of a local one, or
    ``brokers`` local ones; ``rate`` (events/s) and ``seconds`` of a steady load."""

    rounds: int = 7
    size: float = 1.0
    logs: Path | None = None
    bootstrap: str | None = None
    brokers: int = 1
    rate: int = 1_000
    seconds: float = 60.0

    def scaled(self, count: int) -> int:
        return max(1, int(count * self.size))


class Figure(Struct, frozen=True):
    """One line of the table: ``least`` and ``middle`` (median) of the rounds in ``unit``. With
    ``against``, ``ratio`` is that of the least ones, ``ratio_middle`` the median of the rounds'
    own; ``at_most`` is what the ratio should be."""

    what: str
    unit: str
    least: float
    middle: float
    against: str | None = None
    ratio: float | None = None
    ratio_middle: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        if self.at_most is None or self.ratio is None:
            return None
        return self.ratio <= self.at_most


def interleaved(
    sides: Mapping[str, Work], rounds: int, clock: Clock = time.process_time
) -> dict[str, list[float]]:
    """Seconds of every side in every round. Processor time unless told otherwise, as other
    programs run too; the collector runs between sides, not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            start = clock()
            sides[name]()
            seconds[name].append(clock() - start)
    return seconds


def figures(
    seconds: Mapping[str, list[float]],
    per: int,
    base: str,
    aims: Mapping[str, float] | None = None,
) -> list[Figure]:
    """Figures in µs per one of ``per`` items, the base first, the others as ratios to it."""
    found = []
    for name in sorted(seconds, key=lambda side: side != base):
        taken = seconds[name]
        micros = [second / per * 1e6 for second in taken]
        if name == base:
            found.append(Figure(name, "us", min(micros), median(micros)))
            continue
        pairs = [one / other for one, other in zip(taken, seconds[base], strict=True)]
        found.append(
            Figure(
                name,
                "us",
                min(micros),
                median(micros),
                base,
                min(taken) / min(seconds[base]),
                median(pairs),
                (aims or {}).get(name),
            )
        )
    return found


def count_figures(
    counts: Mapping[str, float], unit: str, base: str, at_most: float | None = None
) -> list[Figure]:
    """Figures that were counted, not timed: one value each, the others as ratios to the base."""
    found = []
    for name, value in counts.items():
        if name == base:
            found.append(Figure(name, unit, value, value))
        else:
            ratio = value / counts[base]
            found.append(Figure(name, unit, value, value, base, ratio, ratio, at_most))
    return found


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    packages = ("msgspec", "fastavro", "kafka-python", "reactivex")
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    } | {name: version(name) for name in packages}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
