"""A place in a log file from which its reading goes on when it has grown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from .torn import Rows

PROOF = 512  #: bytes before a place that must still be the same


class Place(Struct, frozen=True):
    """Where a reading ended: its ``position`` in the file ``inode``, the ``text`` bytes and the
    ``number`` of lines before it, and what the bytes right before it were (``proof``). It goes with
    ``rows``, which know the log up to there: one reading may follow a place, and no second one."""

    inode: int
    position: int
    text: int
    number: int
    proof: int
    zstd: bool
    header: dict[str, Any] | None
    rows: Rows

    def holds(self, file: BinaryIO) -> bool:
        """Whether it is still that file, and has at least what was read of it."""
        found = os.fstat(file.fileno())
        return (
            found.st_ino == self.inode
            and found.st_size >= self.position
            and proof(file, self.position) == self.proof
        )


def holds(path: Path, place: Place) -> bool:
    """Whether the file there is as it was up to that place."""
    try:
        with path.open("rb") as file:
            return place.holds(file)
    except OSError:
        return False


def inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def proof(file: BinaryIO, position: int) -> int:
    """What the bytes before ``position`` are."""
    start = max(0, position - PROOF)
    file.seek(start)
    return xxh3_64_intdigest(file.read(position - start))
