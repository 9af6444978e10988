"""``foldstream doctor``: what is wrong with a deployment, or will be, and what to do about it.

Each check looks at one thing and says ok, warn or fail. What it may not see, or what no broker
answers, is said and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from pipeline.errors import PipelineError
from pipeline.topics import Names

from . import cluster, machine, progress, transactions
from .facts import Finding, Probe

__all__ = ["Finding", "Surroundings", "examine"]


class Surroundings(Struct, frozen=True):
    """Where and when. ``pause`` waits between two looks at what should move."""

    names: Names
    bootstrap: str
    now_ms: Callable[[], int]
    pause: Callable[[], None]


def examine(probe: Probe, about: Surroundings) -> Iterator[Finding]:
    """All checks of a cluster, in the order in which to read them."""
    names, now = about.names, about.now_ms
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("broker", lambda: cluster.brokers(probe)),
        ("topic", lambda: cluster.topics(probe, names)),
        ("copies", lambda: cluster.copies(probe, names)),
        ("transactions", lambda: cluster.settings(probe)),
        ("clock", lambda: machine.clock(probe, names, now, about.pause)),
        ("group", lambda: progress.group(probe, names)),
        ("offsets", lambda: progress.offsets(probe, names, now())),
        ("lag", lambda: progress.lag(probe, names, about.pause)),
        ("hanging", lambda: transactions.hanging(probe, names, about.bootstrap, now())),
    )
    for name, check in checks:
        try:
            yield from check()
        except PipelineError as error:
            what = f"cannot be told: {error.message}"
            yield Finding("warn", name, about.bootstrap, what, error.remedy)
