"""How a command that goes on is asked to stop: the first SIGINT or SIGTERM asks for a clean end,
the second one means it."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = "stopping after the batch in hand; again to stop at once"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def nothing_said(_: int) -> None:
    """Who stops has nothing to say about it."""


@contextmanager
def stopping(
    stop: threading.Event, told: Callable[[int], None] = nothing_said
) -> Iterator[threading.Event]:
    """Sets ``stop`` after ``told(signal)``; outside of the main thread nothing asks.

    Both happen in a thread of their own, which hears of a signal through Python's wakeup
    descriptor. A handler runs in the main thread alone: not at all for as long as that waits, if
    the signal came right before the wait; and if it came in the middle of one, or of a line to
    standard error, doing the same there would wait for ever for a lock that it holds itself."""
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    heard, tells = socket.socketpair()
    tells.setblocking(False)
    before = [signal.getsignal(number) for number in SIGNALS]

    def as_before(*_: object) -> None:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)

    def answer() -> None:
        while number := heard.recv(1):  # others have handlers, too
            if number[0] in SIGNALS:
                told(number[0])
                stop.set()
                return

    thread = threading.Thread(target=answer, name="foldstream-stopping", daemon=True)
    thread.start()
    told_before = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
    for each in SIGNALS:
        signal.signal(each, as_before)
    try:
        yield stop
    finally:
        as_before()
        signal.set_wakeup_fd(told_before)
        tells.close()
        thread.join()
        heard.close()
