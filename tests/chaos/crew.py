"""The worker processes of a round, and who starts them again: at once, under the same instance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from pipeline import limits
from pipeline.topics import Names

from .journal import path_of
from .worker import Plan, Strike

POLL_S = 0.02
AGAIN_S = 1.0  #: before one that stopped by itself is started again
STOP_S = 20.0


class Exit(Struct, frozen=True):
    """A process that is gone. ``code`` below 0: by that signal; ``words``: its last line."""

    instance: str
    run: int
    at: float
    code: int
    words: str

    @property
    def by_itself(self) -> bool:
        return self.code > 0


class Place(Struct, frozen=True, kw_only=True):
    """What all workers of a round share. ``state``: the folder of their stores, each has its own
    in it; None: without any."""

    bootstrap: str
    names: Names
    folder: Path
    state: Path | None = None
    resident_bytes: int = limits.RESIDENT_BYTES
    store_bytes: int | None = None
    options: Mapping[str, Any] = {}


class Worker:
    """One instance, in one process after the other."""

    def __init__(self, place: Place, instance: str, label: str | None = None) -> None:
        self.instance = instance
        self.label = label or instance  #: differs from the instance for a twin
        self.wanted = True
        self.runs = 0
        self.started = 0.0
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self.spawn()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def state_dir(self) -> Path | None:
        return None if self._place.state is None else self._place.state / self.label

    def spawn(self) -> None:
        self.runs += 1
        place = self._place
        plan = Plan(
            bootstrap=place.bootstrap,
            instance=self.instance,
            prefix=place.names.prefix,
            application=place.names.application,
            journal=str(path_of(place.folder, self.label, self.runs)),
            trigger=str(self._trigger),
            parent=os.getpid(),
            state_dir=None if self.state_dir is None else str(self.state_dir),
            resident_bytes=place.resident_bytes,
            store_bytes=place.store_bytes,
            options=place.options,
        )
        with self._log(self.runs).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker", msgspec.json.encode(plan).decode()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the harness
            )
        self.started = time.monotonic()

    def strike(self, line: int, number: signal.Signals = signal.SIGKILL) -> None:
        """The next time it gets to that line of the commit procedure."""
        part = self._trigger.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(Strike(line, number)))
        part.rename(self._trigger)

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def gone(self) -> Exit | None:
        """Once for each process that has ended."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        words = self._log(self.runs).read_text(errors="replace").strip().splitlines() or [""]
        return Exit(self.label, self.runs, time.monotonic(), code, words[-1])

    @property
    def _trigger(self) -> Path:
        return self._place.folder / f"{self.label}.strike"

    def _log(self, run: int) -> Path:
        return self._place.folder / f"{self.label}.{run}.log"


class Crew:
    """Watches its workers in a thread of its own. A context manager: at its end all are killed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.exits: list[Exit] = []
        self._workers: dict[str, Worker] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="crew", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with self._lock:
            for worker in self._workers.values():
                worker.send(signal.SIGKILL)
            for worker in self._workers.values():
                while worker.pid is not None and worker.gone() is None:
                    time.sleep(POLL_S)

    def start(self, instance: str, label: str | None = None) -> Worker:
        with self._lock:
            worker = Worker(self.place, instance, label)
            self._workers[worker.label] = worker
        return worker

    def worker(self, label: str) -> Worker:
        return self._workers[label]

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.pid is not None]

    def retire(self, worker: Worker, number: signal.Signals = signal.SIGTERM) -> None:
        """It is not started again."""
        worker.wanted = False
        worker.send(number)

    def send(self, number: signal.Signals) -> None:
        for worker in self.running:
            worker.send(number)

    def again(self, worker: Worker) -> None:
        """A retired one comes back."""
        with self._lock:
            worker.wanted = True
            worker.spawn()

    def stop(self) -> list[str]:
        """All by SIGTERM; those that had not ended after `STOP_S` are named (and killed later)."""
        for worker in self.running:
            worker.send(signal.SIGCONT)
            self.retire(worker)
        self.until(lambda: not self.running, STOP_S)
        return [worker.label for worker in self.running]

    @staticmethod
    def until(condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _watch(self) -> None:
        again: dict[str, float] = {}
        while not self._ended.wait(POLL_S):
            with self._lock:
                for worker in self._workers.values():
                    left = worker.gone()
                    if left is not None:
                        self.exits.append(left)
                        pause = AGAIN_S if left.by_itself else 0.0
                        again[worker.label] = left.at + pause
                    if not worker.wanted:
                        again.pop(worker.label, None)
                    due = again.get(worker.label)
                    if due is not None and worker.wanted and time.monotonic() >= due:
                        del again[worker.label]
                        worker.spawn()
