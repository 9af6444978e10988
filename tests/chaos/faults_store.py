"""What is done to the local store of a worker: no room, deleted, damaged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from .checks import Trouble
from .crew import Worker
from .rounds import INSTANCES, Fault, Round

VICTIM = INSTANCES[0]
TINY_MB = 64
UNNOTICED_S = 15.0
FULL_S = 30.0
WORDS = ("disk", "space", "room")  #: one of them is said by a worker that has none


def _tiny_disk(round_: Round, ends: ExitStack) -> None:
    """For one worker's store."""
    tiny_disk(round_.state / VICTIM, ends)


def tiny_disk(place: Path, ends: ExitStack) -> None:
    """A file system of its own (needs the right to mount)."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={TINY_MB}m", "chaos", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"no tiny disk can be mounted here: {done.stderr.strip()}")
    ends.callback(_unmount, place)


def _unmount(place: Path) -> None:
    """Lazily: a worker that has just been killed may hold it for a moment."""
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def _fill_up(round_: Round) -> None:
    worker = round_.crew.worker(VICTIM)
    held, since = round_.held(worker), time.monotonic()
    assert worker.state_dir is not None
    ballast = worker.state_dir / "ballast"
    fill(ballast)

    def stopped() -> bool:
        return round_.exit_of(VICTIM, since=since) is not None

    if not round_.crew.until(stopped, UNNOTICED_S):  # nothing was written out so far
        worker.send(signal.SIGKILL)
        round_.until("a worker without room on its disk stops", stopped, FULL_S)
    left = round_.exit_of(VICTIM, since=since)
    if left is None or not any(word in left.words.lower() for word in WORDS):
        raise Trouble(f"a worker without room stopped without saying so: {left}")
    round_.sleep(1.0, 3.0)
    round_.strike(held)
    ballast.unlink()


def fill(ballast: Path) -> None:
    block = bytes(4096)
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(block)


def _delete(round_: Round) -> None:
    """By round: while it runs; between two processes; or one byte of it is another."""
    worker = round_.worker()
    held = round_.held(worker)
    (_while_running, _between, _flipped)[round_.number % 3](round_, worker, held)


def _while_running(round_: Round, worker: Worker, held: set[int]) -> None:
    """And later it is killed: what it restores from then is what it made after that."""
    assert worker.state_dir is not None
    shutil.rmtree(worker.state_dir)
    round_.strike(held)
    round_.sleep(2.0, 4.0)
    round_.strike(held)
    worker.send(signal.SIGKILL)


def _between(round_: Round, worker: Worker, held: set[int]) -> None:
    assert worker.state_dir is not None
    _while_away(round_, worker, held)
    shutil.rmtree(worker.state_dir)
    round_.crew.again(worker)


def _flipped(round_: Round, worker: Worker, held: set[int]) -> None:
    """A byte of its largest file, not in the first page: there everything would notice."""
    assert worker.state_dir is not None
    _while_away(round_, worker, held)
    files = [path for path in worker.state_dir.rglob("*") if path.is_file()]
    if not files:
        raise Trouble(f"there is no store in {worker.state_dir}")
    largest = max(files, key=lambda path: path.stat().st_size)
    with largest.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        for _ in range(max(1, size // 4096)):  # one in each page: some are not in use
            place = round_.random.randrange(size)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1 << round_.random.randrange(8)]))
    round_.crew.again(worker)


def _while_away(round_: Round, worker: Worker, held: set[int]) -> None:
    round_.strike(held)
    round_.crew.retire(worker, signal.SIGKILL)
    round_.until("a killed worker is gone", lambda: worker.pid is None, 5)


STORE = (
    Fault(name="disk-full", make=_fill_up, prepare=_tiny_disk, stops=True),
    Fault(name="store-deleted", make=_delete),
)
