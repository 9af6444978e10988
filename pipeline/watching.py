"""Which logs below some folders are new, gone or longer than they were.

A look costs one question to the system per folder and one per log. A folder is listed again only
when its time of change moved, and now and then in any case. No events of the file system are asked
for: they are not told of files on network drives, are dropped when there are many, and would save
what ten thousand sessions cost: a tenth of a second (``tests/bench/ingest.py``).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from schemas.names import is_log

#: A folder that changed this short a time ago may change again without its time showing it.
COARSE_NS = 2_000_000_000
#: Looks after which every folder is listed again: some drives do not move a folder's time.
LIST_EVERY = 60

Sign: TypeAlias = tuple[int, int, int]
"""Size, time of change in ns, inode: while these stand, a file is not read again."""


class Seen(Struct, frozen=True):
    """``others``: there are other files than before, or one is another one under its name or is
    shorter. ``grown``: paths of those that changed otherwise."""

    others: bool
    grown: tuple[str, ...] = ()


class _Folder(Struct, frozen=True):
    """As it was listed; ``time`` 0: list it again."""

    time: int
    folders: tuple[str, ...]
    logs: tuple[str, ...]


class Watch:
    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [os.fspath(root) for root in roots]
        self._folders: dict[str, _Folder] = {}
        self._signs: dict[str, Sign] | None = None
        self._looks = 0

    def look(self) -> Seen:
        """What changed since the last look; before the first there was nothing."""
        if self._looks % LIST_EVERY == 0:
            self._folders = {}
        self._looks += 1
        before, now = self._signs, dict(self._logs())
        self._signs = now
        if before is None or before.keys() != now.keys():
            return Seen(others=True)
        changed = [path for path, sign in now.items() if sign != before[path]]
        others = any(
            now[path][2] != before[path][2] or now[path][0] < before[path][0] for path in changed
        )
        return Seen(others, tuple(str(Path(path)) for path in changed))

    def _logs(self) -> Iterator[tuple[str, Sign]]:
        folders: dict[str, _Folder] = {}
        left = self._roots[::-1]
        while left:
            path = left.pop()
            try:
                found = os.stat(path)  # noqa: PTH116 - a Path of each would double the cost
            except OSError:
                continue
            if not stat.S_ISDIR(found.st_mode):
                yield path, _sign(found)
                continue
            if path in folders:
                continue
            folder = self._folders.get(path)
            if folder is None or folder.time != found.st_mtime_ns:
                folder = _listed(path, found.st_mtime_ns)
            folders[path] = folder
            left += folder.folders
            left += folder.logs
        self._folders = folders


def sign(path: Path) -> Sign | None:
    """None for what is not there."""
    try:
        return _sign(path.stat())
    except OSError:
        return None


def _sign(found: os.stat_result) -> Sign:
    return found.st_size, found.st_mtime_ns, found.st_ino


def _listed(path: str, changed_ns: int) -> _Folder:
    settled = time.time_ns() - changed_ns > COARSE_NS
    folders: list[str] = []
    logs: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif is_log(entry.name):
                    logs.append(entry.path)
    except OSError:
        return _Folder(0, (), ())
    return _Folder(changed_ns if settled else 0, tuple(folders), tuple(logs))
