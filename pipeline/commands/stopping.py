"""How a command that goes on is asked to stop: the first SIGINT or SIGTERM asks for a clean end,
the second one means it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

STOPPING = "stopping after the batch in hand; again to stop at once"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def nothing_said(_: int) -> None:
    """Who stops has nothing to say about it."""


@contextmanager
def stopping(
    stop: threading.Event, told: Callable[[int], None] = nothing_said
) -> Iterator[threading.Event]:
    """Sets ``stop`` after ``told(signal)``; outside of the main thread nothing asks.

    Both happen in a thread of their own: a handler runs in the middle of whatever the main thread
    does, and where that is ``stop.wait()`` or a line to standard error, doing the same there waits
    for ever for a lock that it holds itself. ``SimpleQueue.put`` may be called there."""
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    asked: SimpleQueue[int | None] = SimpleQueue()
    before = [signal.getsignal(number) for number in SIGNALS]

    def as_before() -> None:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)

    def ask(number: int, _frame: FrameType | None) -> None:
        as_before()
        asked.put(number)

    def answer() -> None:
        number = asked.get()
        if number is not None:
            told(number)
            stop.set()

    thread = threading.Thread(target=answer, name="foldstream-stopping", daemon=True)
    thread.start()
    for each in SIGNALS:
        signal.signal(each, ask)
    try:
        yield stop
    finally:
        as_before()
        asked.put(None)
        thread.join()
