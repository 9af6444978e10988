"""One worker process of a chaos round: the product's worker, built as ``foldstream run`` builds it.

Beside it there is a journal of what was committed, and a file that the harness may put down: then
this process sends itself a signal right before a line of the commit procedure.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pipeline import limits
from pipeline.commands.stopping import stopping
from pipeline.commit import Folded
from pipeline.errors import PipelineError, Retriable
from pipeline.observe import Observer
from pipeline.store import rocks
from pipeline.wiring import WorkerSettings, build

from .journal import Journal

_PR_SET_PDEATHSIG = 1


class Plan(Struct, frozen=True):
    """What the process is given, as its one argument in JSON. ``trigger``: where a `Strike` may be
    put down; ``parent``: without that process this one ends; ``options``: client options, as
    ``--client-option`` takes them; ``store_bytes``: of the local store's write buffers, and of its
    cache, if not as usual."""

    bootstrap: str
    instance: str
    prefix: str
    application: str
    journal: str
    trigger: str
    parent: int
    state_dir: str | None = None
    resident_bytes: int = limits.RESIDENT_BYTES
    store_bytes: int | None = None
    options: Mapping[str, Any] = {}


class Strike(Struct, frozen=True):
    """A signal, right before that line of the commit procedure is reached for the next time."""

    line: int
    signal: int


def main(argument: str) -> int:
    """0: ended as asked; 1: stopped by itself, the last line of standard error says why."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
    plan = msgspec.json.decode(argument, type=Plan)
    _end_with(plan.parent)
    faulthandler.register(signal.SIGUSR1)
    journal = Journal(Path(plan.journal))
    journal.write("began")
    with stopping(threading.Event()) as stop:
        return _run(plan, journal, stop)


def _run(plan: Plan, journal: Journal, stop: threading.Event) -> int:
    try:
        if plan.store_bytes is not None:
            rocks.WRITE_BUFFERS = rocks.BLOCK_CACHE = plan.store_bytes
        running = build(_settings(plan, stop, journal), _Told(journal))
        running.committed.subscribe(lambda folded: _committed(journal, folded))
        running.run()
    except PipelineError as error:
        journal.write("ended", note=str(error))
        sys.stderr.write(f"foldstream: {error}\n")
        return 1
    journal.write("ended")
    return 0


def _end_with(parent: int) -> None:
    """Killed when the harness is gone, however that came about (where there is `prctl`)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # gone before that call
        sys.exit(1)


def _settings(plan: Plan, stop: threading.Event, journal: Journal) -> WorkerSettings:
    return WorkerSettings(
        broker=plan.bootstrap,
        instance=plan.instance,
        prefix=plan.prefix,
        application=plan.application,
        client_options=plan.options,
        state_dir=None if plan.state_dir is None else Path(plan.state_dir),
        resident_bytes=plan.resident_bytes,
        stop=stop,
        step=_strikes(Path(plan.trigger), journal),
    )


def _committed(journal: Journal, folded: Folded) -> None:
    journal.write("committed", nexts=dict(folded.nexts))


def _strikes(trigger: Path, journal: Journal) -> Callable[[int], None]:
    """Before each line of the commit procedure a look whether to strike."""

    def before(line: int) -> None:
        if not trigger.exists():
            return
        strike = msgspec.json.decode(trigger.read_bytes(), type=Strike)
        if strike.line != line:
            return
        trigger.unlink()
        journal.write("fault", line=line)
        os.kill(os.getpid(), strike.signal)

    return before


class _Told(Observer):
    """What the loop goes through besides commits."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def rebalanced(self, revoked: tuple[int, ...], assigned: tuple[int, ...]) -> None:
        self._journal.write("moved", revoked=revoked, assigned=assigned)

    def failed(self, error: Retriable) -> None:
        self._journal.write("failed", note=str(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
