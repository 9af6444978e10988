"""This machine: versions with known faults, the clock, the folder of the local store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from pipeline.topics import Names

from .facts import Finding, Probe, span

AHEAD_MS = 5_000  #: that a timestamp may be in the future
SKEW_MS = 2_000
SPARE_BYTES = 1 << 30


class Fault(Struct, frozen=True):
    """Of a library before ``fixed``; found or read on ``dated``."""

    library: str
    fixed: tuple[int, ...]
    what: str
    dated: str


FAULTS = (
    Fault("kafka-python", (3, 0, 2), "its timeouts leak memory", "2026-10"),
    Fault(
        "kafka-python", (3, 0, 3), "several brokers make it spin and lose coordinators", "2026-10"
    ),
    Fault("kafka-python", (3, 0, 5), "encoding may run over its buffer", "2026-10"),
    Fault("kafka-python", (3, 0, 7), "its close may stall", "2026-10"),
    Fault("kafka-python", (3, 0, 9), "partitions are silently stuck after a rebalance", "2026-10"),
    Fault("kafka-python", (3, 0, 12), "flush hangs over expired batches", "2026-10"),
)
"""Known of the client, newest last; the guards of `pipeline/kafka` stand against what 3.0.12 still
does."""

NEEDED_CLIENT = (3, 0, 12)
PYTHON = (3, 11)


def client(installed: Mapping[str, str | None], python: tuple[int, ...]) -> Iterator[Finding]:
    """``installed``: versions by library, None for what is missing."""
    if python[:2] < PYTHON:
        yield Finding("fail", "client", "Python", f"is {_dotted(python)}", "run 3.11 or newer")
    else:
        yield Finding("ok", "client", "Python", f"is {_dotted(python)}")
    text = installed.get("kafka-python")
    if text is None:
        yield Finding("fail", "client", "kafka-python", "is missing", "pip install foldstream")
    else:
        yield from _kafka_python(text)
    if installed.get("crc32c") is None:
        what = "is missing: checksums in Python cost three quarters of the throughput"
        yield Finding("fail", "client", "crc32c", what, "pip install crc32c")
    else:
        yield Finding("ok", "client", "crc32c", f"is {installed['crc32c']}")


def _kafka_python(text: str) -> Iterator[Finding]:
    version = _version(text)
    faults = [one for one in FAULTS if one.library == "kafka-python" and version < one.fixed]
    for one in faults:
        what = f"{text}: {one.what} (fixed in {_dotted(one.fixed)}, known since {one.dated})"
        fix = f"pip install 'kafka-python>={_dotted(NEEDED_CLIENT)},<4'"
        yield Finding("fail", "client", "kafka-python", what, fix)
    if version[:1] > (3,):
        what = f"is {text}, which nobody has tried with this program"
        yield Finding("warn", "client", "kafka-python", what, "pip install 'kafka-python<4'")
    elif not faults:
        yield Finding("ok", "client", "kafka-python", f"is {text}")


def _version(text: str) -> tuple[int, ...]:
    """Its leading numbers."""
    numbers: list[int] = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version[:3]))


# --- the clock ------------------------------------------------------------------------------------


def clock(
    probe: Probe, names: Names, now_ms: Callable[[], int], pause: Callable[[], None]
) -> Iterator[Finding]:
    """The protocol has no question for a broker's time. What it does give: when a coordinator says
    that a transaction began, and the stamps of records. One that began between two looks bounds the
    difference from both sides; any in the future shows a clock ahead of ours."""
    first, began = now_ms(), _began(probe, names)
    pause()
    last, begun = now_ms(), _began(probe, names)
    where = "transaction coordinator"
    if begun > began > 0:
        low, high = begun - last, begun - first
        skew = low if low > 0 else min(high, 0)
        if abs(skew) > SKEW_MS:
            side = "ahead of" if skew > 0 else "behind"
            what = f"its clock is {span(abs(skew))} or more {side} this machine's"
            yield Finding("warn", "clock", where, what, "set both by NTP")
        else:
            what = f"its clock is between {low} and {high} ms ahead of this machine's"
            yield Finding("ok", "clock", where, what)
    elif begun - last > SKEW_MS:
        what = f"its clock is {span(begun - last)} or more ahead of this machine's"
        yield Finding("warn", "clock", where, what, "set both by NTP")
    else:
        what = "cannot be told: no worker began a transaction while this looked"
        yield Finding("ok", "clock", where, what)
    found = probe.topics(names.of(role) for role in ("events", "state"))
    for name, topic in found.items():
        newest = probe.newest(name)
        if newest is not None and newest - now_ms() > AHEAD_MS:
            by_broker = topic.settings.get("message.timestamp.type") == "LogAppendTime"
            whose = "its broker's" if by_broker else "its producer's"
            what = f"a record is stamped {span(newest - now_ms())} from now: {whose} clock is ahead"
            yield Finding("warn", "clock", name, what, "set the machines' clocks by NTP")


def _began(probe: Probe, names: Names) -> int:
    prefix = f"{names.application}-"
    ours = (one.started_ms for one in probe.transactions(names) if one.id.startswith(prefix))
    return max(ours, default=-1)


# --- the local store ------------------------------------------------------------------------------


def store(folder: Path | None, held: Callable[[Path], Iterator[Finding]]) -> Iterator[Finding]:
    """``held`` looks into a folder that is there."""
    if folder is None:
        yield Finding("ok", "store", "memory", "cold sessions stay in memory, as asked")
        return
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    where = str(folder)
    if free < SPARE_BYTES:
        what = f"{free / 2**20:.0f} MiB are free on its disk"
        yield Finding("warn", "store", where, what, "free space, or name another --state-dir")
    if not folder.exists():
        what = "is not there: a worker on this machine would read its states from the topic"
        yield Finding("ok", "store", where, what)
        return
    yield from held(folder)
