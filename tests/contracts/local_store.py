"""What the tests of the local store share: a store that is what it was made for, a partition's
contents by a rule, and a process that writes until it is killed."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pipeline.ports import Segment, StateStore
from pipeline.store import LocalStore, Origin

ORIGIN = Origin("cluster-1", "topic-1", "foldstream", 86_400.0)
SESSIONS = 300
PER_BATCH = 40
SMALL = 128 * 1024  #: bytes that are written out at once


def local(folder: Path, origin: Origin = ORIGIN) -> LocalStore:
    """With a small buffer, so that a few batches are written out."""
    return LocalStore(folder, origin, write_buffer=SMALL)


@cache
def batch(number: int) -> list[Segment]:
    """The ``number``-th batch of every partition: heads that say in which batch they were written,
    segments that must go with them, and sessions that end."""
    chance = random.Random(number)
    items: list[Segment] = []
    for session in chance.sample(range(SESSIONS), PER_BATCH):
        name = f"session-{session}"
        if chance.random() < 0.1:
            items += [(name, "", None), (name, "t0", None)]
        else:
            head = b"%d:" % number + chance.randbytes(chance.randrange(100, 3_000))
            items += [(name, "", head), (name, "t0", b"%d" % number)]
    return items


def contents(batches: int) -> dict[str, dict[str, bytes]]:
    """What is held after so many batches."""
    sessions: dict[str, dict[str, bytes]] = {}
    for number in range(batches):
        for name, segment, value in batch(number):
            if value is None:
                sessions.pop(name, None)
            else:
                sessions.setdefault(name, {})[segment] = value
    return sessions


def held(store: StateStore, partition: int) -> dict[str, Mapping[str, bytes]]:
    names = (f"session-{session}" for session in range(SESSIONS))
    found = ((name, store.segments(partition, name)) for name in names)
    return {name: dict(segments) for name, segments in found if segments is not None}


def writer(folder: Path, partitions: int, first: int) -> subprocess.Popen[bytes]:
    """A process that writes batches from the ``first`` on until it is killed, a byte on its
    standard output after each."""
    code = (
        "import sys; from pathlib import Path; from tests.contracts.local_store import write_on;"
        "write_on(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(partitions), str(first)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )


def write_on(folder: Path, partitions: int, first: int) -> None:
    store = local(folder)
    number = first
    while True:
        for partition in range(partitions):
            position = store.open(partition) or 0
            if position <= number:
                for missing in range(position, number + 1):  # as a restore from the topic would
                    store.write(partition, batch(missing), missing + 1, current=missing == number)
        number += 1
        sys.stdout.buffer.write(b".")
        sys.stdout.flush()
