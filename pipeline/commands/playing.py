"""Sessions that go on while somebody looks: simulated ones, written line by line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pipeline.simulate import SHAPES, SimulatedSession, simulate, transcript_path

AT_ONCE = 6  #: running sessions
LINES_PER_S = 5.0  #: of each


class _Running:
    """One session on its way into its file."""

    def __init__(self, session: SimulatedSession, root: Path) -> None:
        path = transcript_path(root, session)
        path.parent.mkdir(parents=True, exist_ok=True)
        unseen = path.with_name(f".{path.name}")  # until there is a whole line in it
        self._file = unseen.open("wb", 0)
        self._lines = iter(session.lines)
        self.write()
        unseen.replace(path)

    def write(self) -> bool:
        """One line more; False at its end."""
        line = next(self._lines, None)
        if line is None:
            self.close()
            return False
        self._file.write(line + b"\n")
        return True

    def close(self) -> None:
        self._file.close()


def play(
    root: Path,
    seed: int,
    events: int,
    stop: threading.Event,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> None:
    """`AT_ONCE` sessions at a time, from ``seed`` on, about ``events`` long each, until ``stop``;
    one that ends is followed by another."""
    seeds = count(seed)

    def begun() -> _Running:
        number = next(seeds)
        shape = SHAPES[number % len(SHAPES)]
        return _Running(simulate(number, events=events, shape=shape, start=now_ms()), root)

    running: list[_Running] = []
    try:
        for turn in count():
            if stop.wait(1 / (AT_ONCE * LINES_PER_S)):
                return
            place = turn % AT_ONCE
            if place == len(running):
                running.append(begun())
            elif not running[place].write():
                running[place] = begun()
    finally:
        for each in running:
            each.close()


@contextmanager
def playing(root: Path, seed: int, events: int) -> Iterator[None]:
    """`play` while the block runs."""
    stop = threading.Event()
    thread = threading.Thread(
        target=play, args=(root, seed, events, stop), name="simulated-sessions", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
