"""Signals ask once for a clean end, wherever the main thread is."""

from __future__ import annotations

import signal
import threading

import pytest

from pipeline.commands.stopping import SIGNALS, stopping

PATIENCE_S = 20


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks(number: signal.Signals) -> None:
    told: list[int] = []
    with stopping(threading.Event(), told.append) as stop:
        assert not stop.is_set()
        signal.raise_signal(number)
        assert stop.wait(PATIENCE_S)
    assert told == [number]


def test_the_second_one_means_it() -> None:
    with stopping(threading.Event()):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_in_the_middle_of_a_wait_does_not_wait_for_itself() -> None:
    """The main thread holds the event's lock there; without an alarm a failure would hang."""
    stop = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the handler waits"))
    signal.alarm(PATIENCE_S)
    try:
        with stopping(stop):
            with stop._cond:  # type: ignore[attr-defined]
                signal.raise_signal(signal.SIGINT)
            assert stop.wait(PATIENCE_S)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_that_does_not_wake_the_main_thread_is_heard() -> None:
    """As one that comes right before a wait does not: here it goes to another thread."""
    stop = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("nobody has heard it"))
    signal.alarm(PATIENCE_S)
    try:
        with stopping(stop):
            other = threading.Timer(
                0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
            )
            other.start()
            stop.wait()
            other.join()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_what_handled_them_before_does_so_again() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with stopping(threading.Event()):
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_outside_of_the_main_thread_nothing_asks() -> None:
    found: list[bool] = []

    def run() -> None:
        with stopping(threading.Event()) as stop:
            found.append(stop.is_set())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]
