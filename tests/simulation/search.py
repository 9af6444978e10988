"""Histories made by Hypothesis, run until one shows a violation, which is then shrunk."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, given, seed, settings
from msgspec import Struct

from tests.simulation.fleet import Fleet
from tests.simulation.histories import History, histories
from tests.simulation.mutants import applied
from tests.simulation.oracle import Violation, check

CHUNK = 250  #: histories of one Hypothesis run: a chunk is repeated by its seed


class Result(Struct, frozen=True):
    """``run``: histories until the first violation, itself included; ``history`` is that one."""

    run: int
    seconds: float
    struck: dict[str, int]
    virtual_s: float
    history: History | None = None
    text: str = ""


class _Enough(Exception):  # noqa: N818 - no error
    """The first violation is all that is asked for."""


@contextmanager
def silent() -> Iterator[None]:
    """A worker in trouble says much, and here it is all trouble."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def search(number: int, count: int, *, mutant: str = "", shrinks: bool = True) -> Result:
    """``count`` histories of the seed ``number``, or up to the first violation."""
    ran = 0
    found: list[tuple[History, Violation]] = []
    struck: Counter[str] = Counter()
    virtual_s = 0.0
    fleets: list[Fleet] = []

    def one(history: History) -> None:
        nonlocal ran, virtual_s
        ran += not found
        fleets.clear()
        try:
            check(history, fleets.append)
        except Violation as violation:
            found.append((history, violation))
            if not shrinks:
                raise _Enough from violation
            raise
        struck.update(fault.kind for fault in history.faults)
        virtual_s += fleets[0].time.monotonic()

    phases = (Phase.generate, Phase.shrink) if shrinks else (Phase.generate,)
    run = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )(seed(number)(given(histories())(one)))
    began = time.monotonic()
    with applied(mutant), silent():
        try:
            run()
        except (Violation, _Enough):
            history, violation = found[-1]
            return Result(
                ran, time.monotonic() - began, dict(struck), virtual_s, history, str(violation)
            )
    return Result(ran, time.monotonic() - began, dict(struck), virtual_s)
