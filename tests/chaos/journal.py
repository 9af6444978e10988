"""What a worker process writes down while it lives, one JSON line each, and what is read from that.

A line is written with one `write`, so that a process killed right after has said it. Times are
those of the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

SUFFIX = ".journal"


class Entry(Struct, frozen=True):
    """``what``: ``began``, ``committed`` (``nexts``: partition -> offset to go on from), ``fault``
    (made by the process itself at ``line`` of the commit procedure), ``moved`` (partitions came
    or went), ``failed`` (``note``: the error that it recovers from), ``ended``."""

    what: str
    at: float
    nexts: Mapping[int, int] = {}
    line: int = 0
    note: str = ""
    revoked: tuple[int, ...] = ()
    assigned: tuple[int, ...] = ()


class Journal:
    """The writing side, for one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, what: str, **fields: object) -> None:
        entry = msgspec.convert({"what": what, "at": time.monotonic(), **fields}, Entry)
        os.write(self._file, msgspec.json.encode(entry) + b"\n")


class Told(Struct, frozen=True):
    """An entry, and by whom: an instance, in its ``run``-th process."""

    instance: str
    run: int
    entry: Entry


def path_of(folder: Path, instance: str, run: int) -> Path:
    return folder / f"{instance}.{run}{SUFFIX}"


def read(folder: Path) -> list[Told]:
    """All that the workers of a round have told so far, by time."""
    told = []
    for path in folder.glob(f"*{SUFFIX}"):
        instance, run = path.name.removesuffix(SUFFIX).rsplit(".", 1)
        whole, _, _torn = path.read_bytes().rpartition(b"\n")
        told += [
            Told(instance, int(run), msgspec.json.decode(line, type=Entry))
            for line in whole.splitlines()
        ]
    return sorted(told, key=lambda one: one.entry.at)


def folded_to(told: Iterable[Told]) -> dict[int, int]:
    """The highest offset that each partition is known to be committed to."""
    highest: dict[int, int] = {}
    for one in told:
        for partition, offset in one.entry.nexts.items():
            highest[partition] = max(offset, highest.get(partition, 0))
    return highest


def held_by(told: Iterable[Told], instance: str, at: float) -> set[int]:
    """The partitions that ``instance`` was the last to commit before ``at``."""
    last: dict[int, str] = {}
    for one in told:
        if one.entry.at <= at:
            last.update(dict.fromkeys(one.entry.nexts, one.instance))
    return {partition for partition, holder in last.items() if holder == instance}


def recoveries(
    told: Sequence[Told],
    sent: Mapping[int, Iterable[tuple[float, int]]],
    fault_at: float,
    partitions: Iterable[int],
) -> dict[int, float]:
    """Per partition the seconds from the fault to the first commit that covers a record sent after
    it (``sent``: moment before sending, offset; by offset). A partition to which none was sent, or
    none that was committed, is left out."""
    found = {}
    for partition in partitions:
        after = next((offset for at, offset in sent.get(partition, ()) if at > fault_at), None)
        if after is None:
            continue
        for one in told:
            if one.entry.at > fault_at and one.entry.nexts.get(partition, 0) > after:
                found[partition] = one.entry.at - fault_at
                break
    return found


def moved(told: Iterable[Told], since: float, until: float) -> set[int]:
    """The partitions that a worker was given or lost within the time."""
    changes = (one.entry for one in told if since <= one.entry.at <= until)
    return {partition for entry in changes for partition in (*entry.revoked, *entry.assigned)}


def gaps(told: Iterable[Told], since: float, until: float) -> dict[int, list[float]]:
    """Per partition the seconds between one commit and the next of the same process that touch the
    time, where nobody else committed in between."""
    last: dict[int, Told] = {}
    found: dict[int, list[float]] = {}
    for one in told:
        for partition in one.entry.nexts:
            before = last.get(partition)
            last[partition] = one
            if before is None or before.entry.at > until or one.entry.at < since:
                continue
            if (before.instance, before.run) == (one.instance, one.run):
                found.setdefault(partition, []).append(one.entry.at - before.entry.at)
    return found
