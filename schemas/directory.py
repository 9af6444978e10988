"""Session directories: which file holds which session (session-log.md §1.1, streams.md §3).

A *root* as the harness keeps it is ``<root>/<project>/<session>/<transcript>``; any other folder is
searched for ``*.jsonl`` and ``*.jsonl.zstd``: a log without a header has its folder's name as
session id, or where there are several such its file's stem. The harness fails a whole root for one
bad file; here every session that can be opened is, and what the harness refuses is a
:class:`Problem`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from .folders import Found, logs, newest, peers, stem
from .jsonl import open_log
from .names import (
    Encoding,
    Transcript,
    is_log,
    is_project,
    project_name,
    session_id,
    transcript,
)
from .rowcheck import safe_integer

__all__ = ["Found", "Peeks", "Problem", "Scan", "scan"]


class Problem(Struct, frozen=True):
    """``fatal``: the harness refuses the session, or with ``session`` None its whole root.

    Codes: ``unreadable`` (no access, a directory or device where a file should be) ``bad-name``
    ``flat-file`` ``mixed-encoding`` ``duplicate-id`` ``header-missing`` ``header-id``
    ``header-cwd`` ``header-version``; ``no-transcript`` and ``stray-file`` (a log in a place
    where the harness keeps none) are never fatal.
    """

    code: str
    message: str
    path: Path
    session: str | None = None
    fatal: bool = True


class Scan(Struct, frozen=True):
    """``harness``: the root has the harness's layout. ``sessions`` have distinct ids and are sorted
    by path."""

    root: Path
    harness: bool
    sessions: tuple[Found, ...]
    problems: tuple[Problem, ...]


class Peek(Struct, frozen=True):
    """A file's header, as it was when the file had this inode, size and time of change."""

    sign: tuple[int, int, int]
    header: dict[str, Any] | None
    session: str | None


Peeks: TypeAlias = dict[Path, Peek]
"""What earlier scans saw, of files that may not have changed since."""


def scan(root: Path, peeks: Peeks | None = None) -> Scan:
    """Find the sessions below ``root``: a root, one of its projects or session directories, any
    folder of logs, or one file. Reads the first line of each, but for those that ``peeks`` knows.
    Never raises for what is there."""
    finder = _Finder({} if peeks is None else peeks)
    try:
        mode = root.stat().st_mode
        entries = sorted(root.iterdir()) if stat.S_ISDIR(mode) else []
    except OSError as error:
        finder.unreadable(root, error)
        return Scan(root, False, (), tuple(finder.problems))
    projects = [entry for entry in entries if is_project(entry.name) and entry.is_dir()]
    if is_project(root.name) and not projects and entries:
        projects = [root]
    harness = bool(projects) or is_project(root.parent.name)
    if not stat.S_ISDIR(mode):
        harness = False
        finder.file(root)
    elif projects:
        finder.root(root, projects)
        if projects != [root]:
            finder.strays(entry for entry in entries if entry not in projects)
    elif harness:
        finder.session(root)
    else:
        finder.folder(root)
    return Scan(root, harness, tuple(finder.distinct()), tuple(finder.problems))


class _Finder:
    def __init__(self, peeks: Peeks) -> None:
        self._peeks = peeks
        self.problems: list[Problem] = []
        self._found: list[Found] = []
        #: Paths whose header does not lead back to them.
        self._astray: set[Path] = set()
        #: Paths that could not be read: none of them keeps a good log out.
        self._unread: set[Path] = set()

    def strays(self, entries: Iterable[Path]) -> None:
        """Logs that stand beside the layout, here or in folders below."""
        for entry in entries:
            below = os.walk(entry) if entry.is_dir() else ()
            for path in (entry, *(Path(at, name) for at, _, names in below for name in names)):
                if is_log(path.name) and not path.is_dir():
                    self._stray(path)

    def _stray(self, path: Path) -> None:
        message = f"{path}: a log outside of the harness's layout is not read"
        self.problems.append(Problem("stray-file", message, path, fatal=False))

    def unreadable(self, path: Path, error: OSError) -> None:
        message = f"{path}: {error.strerror or error}"
        self.problems.append(Problem("unreadable", message, path))

    # --- the harness's layout ---------------------------------------------------------------------

    def root(self, root: Path, projects: Iterable[Path]) -> None:
        folders: list[tuple[Path, dict[Transcript, Path]]] = []
        for project in projects:
            for entry in self._entries(project):
                if entry.is_dir():
                    folders.append((entry, self._transcripts(entry)))
                elif is_log(entry.name):
                    message = f"{entry}: a log outside of a session directory is not read"
                    self.problems.append(Problem("flat-file", message, entry))
        encodings = [kind.encoding for _, kinds in folders for kind in kinds]
        raw, zstd = encodings.count("raw"), encodings.count("zstd")
        if raw and zstd:
            message = f"{root}: {raw} raw and {zstd} zstd logs in one root"
            self.problems.append(Problem("mixed-encoding", message, root))
        for folder, kinds in folders:
            self._session(folder, kinds, "zstd" if zstd > raw else "raw")

    def session(self, folder: Path) -> None:
        self._session(folder, self._transcripts(folder), "raw")

    def _session(self, folder: Path, kinds: dict[Transcript, Path], rooted: Encoding) -> None:
        named = session_id(folder.name)
        if not kinds:
            message = f"{folder}: no transcript"
            self.problems.append(Problem("no-transcript", message, folder, named, fatal=False))
            return
        if named is None:
            message = f"{folder}: the harness gives no session this name"
            self.problems.append(Problem("bad-name", message, folder))
        best, found = newest(kinds, rooted)
        log = self._peek(found.path)
        session = (log.session if log else None) or named or folder.name
        found = replace(found, session=session)
        self._found.append(found)
        for code, text in _astray(log, folder, named, best):
            self._astray.add(found.path)
            message = f"{found.path}: {text}"
            self.problems.append(Problem(code, message, found.path, session))

    def _transcripts(self, folder: Path) -> dict[Transcript, Path]:
        kinds: dict[Transcript, Path] = {}
        for entry in self._entries(folder):
            kind = transcript(entry.name)
            if kind is not None:
                kinds[kind] = entry
            elif is_log(entry.name):
                self._stray(entry)
        return kinds

    def _entries(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except OSError as error:
            self.unreadable(folder, error)
            return []

    # --- any other folder -------------------------------------------------------------------------

    def folder(self, root: Path) -> None:
        def refused(error: OSError) -> None:
            self.unreadable(Path(error.filename or root), error)

        for folder, below, names in os.walk(root, onerror=refused):
            below.sort()
            self._found += self._named(logs(Path(folder), names))

    def file(self, path: Path) -> None:
        """One file, which has the id that it has as one of its folder."""
        encoding: Encoding = "zstd" if path.name.endswith(".zstd") else "raw"
        self._found += self._named([Found("", path, encoding)], beside=path)

    def _named(self, found_logs: Iterable[Found], beside: Path | None = None) -> Iterator[Found]:
        """The logs of one folder with their ids; ``beside``: they are this one alone."""
        nameless = []
        for found in found_logs:
            log = self._peek(found.path)
            if log is not None and log.session:
                yield replace(found, session=log.session)
            else:
                nameless.append(found)
        readable = sum(found.path not in self._unread for found in nameless)
        several = readable > 1 or (readable == 1 and beside is not None and peers(beside))
        for found in nameless:
            folder = found.path.absolute().parent.name
            if not folder or (several and found.path not in self._unread):
                folder = stem(found.path)
            yield replace(found, session=folder)

    # --- both -------------------------------------------------------------------------------------

    def _peek(self, path: Path) -> Peek | None:
        """The header that the file has; None, and a problem, if it is no readable file."""
        try:
            found = path.stat()
        except OSError as error:
            self.unreadable(path, error)
            self._unread.add(path)
            return None
        if not stat.S_ISREG(found.st_mode):
            self._unreadable(path, f"{path}: not a file")
            return None
        known = self._peeks.get(path)
        now = found.st_ino, found.st_size, found.st_mtime_ns
        if known is not None and known.sign == now:
            return known
        log = open_log(path)
        next(log.lines, None)
        log.lines.close()
        for damage in log.damage:
            if damage.code == "unreadable":
                self._unreadable(path, damage.message)
                return None
        self._peeks[path] = Peek(now, log.header, log.session)
        return self._peeks[path]

    def _unreadable(self, path: Path, message: str) -> None:
        self._peeks.pop(path, None)
        self.problems.append(Problem("unreadable", message, path))
        self._unread.add(path)

    def distinct(self) -> Iterator[Found]:
        """One file per session id: the first that can be read and leads back to its path, else the
        first that can be read."""
        chosen: dict[str, Found] = {}
        for found in sorted(
            self._found,
            key=lambda found: (
                found.path in self._unread,
                found.path in self._astray,
                found.path,
            ),
        ):
            first = chosen.setdefault(found.session, found)
            if first is not found:
                message = f"{found.path}: session {found.session!r} is read from {first.path}"
                self.problems.append(Problem("duplicate-id", message, found.path, found.session))
        return iter(sorted(chosen.values(), key=lambda found: found.path))


def _astray(
    log: Peek | None, folder: Path, named: str | None, kind: Transcript
) -> Iterator[tuple[str, str]]:
    """Why a header does not lead back to the path it stands at."""
    if log is None:
        return
    if log.header is None:
        yield "header-missing", "the first line is no session header"
        return
    if named is not None and log.session != named:
        yield "header-id", f"the header's id is {log.session!r}, the directory's {named!r}"
    cwd = log.header.get("cwd")
    project = project_name(cwd if isinstance(cwd, str) else None)
    if project != folder.parent.name:
        yield "header-cwd", f"the header's cwd belongs to {project}"
    version = safe_integer(log.header.get("version"))
    if version != kind.generation:
        yield "header-version", f"the header's version is {log.header.get('version')!r}"
