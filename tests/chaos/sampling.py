"""Memory, descriptors and threads of processes, looked at again and again (Linux: ``/proc``)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Self

import msgspec
from msgspec import Struct

from .measures import slope

EVERY_S = 2.0
SETTLED_S = 30.0  #: a process's first moments are not its growth
LONG_S = 120.0  #: what lived less long tells of no growth
MIB = 1024 * 1024
WHAT = ("rss", "fds", "threads")


class Sample(Struct, frozen=True):
    """``rss`` in bytes, ``at`` in seconds of the monotonic clock."""

    process: str
    at: float
    rss: int
    fds: int
    threads: int


class Growth(Struct, frozen=True):
    """How one figure of one process went: medians of its first, second and last third, and the
    slope per hour of the last two; ``rss`` in MiB. In the first third caches and pools fill."""

    process: str
    what: str
    samples: int
    first: float
    second: float
    last: float
    per_hour: float

    @property
    def is_flat(self) -> bool:
        """Whether the last third is within 5 % of the second (of few: within 2)."""
        return self.last - self.second <= max(2.0, self.second / 20)

    def row(self) -> tuple[str, ...]:
        form = "{:.1f}" if self.what == "rss" else "{:.0f}"
        unit = "rss MiB" if self.what == "rss" else self.what
        thirds = [form.format(each) for each in (self.first, self.second, self.last)]
        flat = "yes" if self.is_flat else "NO"
        return (
            *(self.process, unit, str(self.samples), *thirds),
            *(f"{self.per_hour:+.1f}", flat),
        )


class Sampler:
    """Samples while the block runs, also into a file (one JSON line each). ``pids``: those that
    run now, by name."""

    def __init__(self, path: Path, pids: Callable[[], Mapping[str, int]]) -> None:
        self.samples: list[Sample] = []
        self._path = path
        self._pids = pids
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with self._path.open("ab") as file:
            while not self._ended.wait(EVERY_S):
                for process, pid in self._pids().items():
                    with suppress(OSError):  # it is gone
                        self.samples.append(_sample(process, pid))
                        file.write(msgspec.json.encode(self.samples[-1]) + b"\n")
                file.flush()


def _sample(process: str, pid: int) -> Sample:
    base = Path("/proc") / str(pid)
    resident = int((base / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    fds, threads = (len(list((base / name).iterdir())) for name in ("fd", "task"))
    return Sample(process, time.monotonic(), resident, fds, threads)


def growth(samples: Sequence[Sample]) -> list[Growth]:
    """Of every process that lived long enough."""
    by_process: dict[str, list[Sample]] = {}
    for sample in samples:
        by_process.setdefault(sample.process, []).append(sample)
    found = []
    for process, some in sorted(by_process.items()):
        settled = [one for one in some if one.at - some[0].at >= SETTLED_S]
        if settled and settled[-1].at - settled[0].at >= LONG_S:
            found += [_growth(process, what, settled) for what in WHAT]
    return found


def _growth(process: str, what: str, samples: Sequence[Sample]) -> Growth:
    unit = MIB if what == "rss" else 1
    points = [(one.at / 3600, getattr(one, what) / unit) for one in samples]
    third = max(1, len(points) // 3)
    first, second, last = (
        median(value for _, value in some)
        for some in (points[:third], points[third:-third] or points, points[-third:])
    )
    return Growth(process, what, len(points), first, second, last, slope(points[third:]))
