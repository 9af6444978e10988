"""Session directories onto the events topic: each line of each session once (streams.md §3).

A session's records have its id as key and the header ``epoch``. What the topic already has is asked
of the topic (`Already`). A file whose header, or whose last line that was sent, is another one now
(a higher generation, another log), or that has fewer events than were sent, starts a new epoch. A
torn tail is noted and sent when it is whole; a line that is too long, a file that cannot be read
and one whose session id is too long for a key are dead letters made here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from schemas.counting import with_seqs
from schemas.deadletter import DeadLetter, Header, bound_dead_letter, encode_dead_letter
from schemas.directory import Found, Problem, scan
from schemas.encoder import utf8
from schemas.jsonl import Damage, LogFile, LogLine, open_log
from schemas.names import is_log

from . import limits
from .cursor import Already, Cursor
from .deadletter import MAX_LETTER_BYTES
from .errors import Poison
from .lines import LineSink
from .ports import Clock, OutRecord

__all__ = ["Already", "Ingest", "Progress"]

#: Records between two flushes: what may be underway.
FLUSH_RECORDS = 10_000
#: Records between two calls of the progress callback.
PROGRESS_RECORDS = 1_000
#: What a broker counts beside key and value of a record of ours that is alone in its batch.
FRAME_BYTES = 128

_UNREADABLE = frozenset({"unreadable", "frame-magic", "frame-corrupt"})
_DEAD = _UNREADABLE | {"too-large"}

Sign: TypeAlias = tuple[int, int, int]
"""Size, time of change in ns, inode: while these stand, a file is not read again."""


def _silent(_: object) -> None:
    """Nobody listens."""


class Progress(Struct):
    """Counts so far: ``sessions`` seen, ``unreadable`` of them (wholly or from some byte on), lines
    ``sent`` and their ``bytes``, lines ``known`` to be there already, ``dead_letters`` made,
    ``epochs`` begun anew."""

    sessions: int = 0
    unreadable: int = 0
    sent: int = 0
    bytes: int = 0
    known: int = 0
    dead_letters: int = 0
    epochs: int = 0


class Ingest:
    """Sends what is new below some roots, as often as asked.

    ``already`` is asked once per session. ``note`` hears, once each, what was found that is no dead
    letter: torn tails, and whatever a harness would refuse. ``progress`` is called every so often,
    always with the same running counts. ``max_record_bytes``: what the events topic takes at most.
    """

    def __init__(
        self,
        sink: LineSink,
        events_topic: str,
        already: Callable[[str], Already | None],
        *,
        progress: Callable[[Progress], None] = _silent,
        note: Callable[[str], None] = _silent,
        max_line_bytes: int = limits.MAX_LINE_BYTES,
        max_record_bytes: int = limits.MAX_INPUT_RECORD_BYTES,
    ) -> None:
        self.counts = Progress()
        self._sink = sink
        self._topic = events_topic
        self._already = already
        self._progress = progress
        self._note = note
        self._limit = max_line_bytes
        self._most = max_record_bytes
        self._said: set[tuple[Path, str, int | None]] = set()
        self._read: dict[str, tuple[Found, Already | None]] = {}
        self._signs: dict[Path, Sign] = {}

    def once(self, roots: Iterable[Path]) -> Progress:
        """One pass over all files that changed since the last; returns when all is acknowledged."""
        for root in roots:
            found = scan(root)
            files = {entry.path for entry in found.sessions}
            for problem in found.problems:
                if problem.path not in files or problem.code not in _DEAD:
                    self._problem(problem)
            for entry in found.sessions:
                # The id as the fold reads it: half a surrogate pair is U+FFFD.
                self._session(replace(entry, session=utf8(entry.session).decode()))
        self._sink.flush()
        self._progress(self.counts)
        return self.counts

    def follow(
        self, roots: Sequence[Path], clock: Clock, stop: Callable[[], bool], interval: float = 1.0
    ) -> Progress:
        """Pass after pass, ``interval`` seconds apart, until ``stop()``. While nothing changes, a
        pass looks at names and sizes alone."""
        last: dict[Path, Sign] | None = None
        while not stop():
            now = dict(chain.from_iterable(map(_signs, roots)))
            if now != last:
                self.once(roots)
                last = now
            clock.sleep(interval)
        return self.counts

    # --- one session ------------------------------------------------------------------------------

    def _session(self, found: Found) -> None:
        before, known = self._read.get(found.session, (None, None))
        if len(found.session) > limits.MAX_SESSION_CHARS:
            self._unnamed(found)
            return
        if before is None:
            self.counts.sessions += 1
            known = self._already(found.session)
        elif before.path.parent != found.path.parent and before.path.exists():
            message = f"{found.path}: session {found.session!r} is read from {before.path}"
            self._say(Problem("duplicate-id", message, found.path))
            return
        sign = _sign(found.path)
        if before == found and sign is not None and self._signs.get(found.path) == sign:
            return
        damage, now = self._file(found, known)
        self._read[found.session] = (found, now)
        if sign is not None:
            self._signs[found.path] = sign
        if before is None and any(entry.code in _UNREADABLE for entry in damage):
            self.counts.unreadable += 1
        for entry in damage:
            self._damage(found, entry)
        self._progress(self.counts)

    def _file(self, found: Found, known: Already | None) -> tuple[list[Damage], Already | None]:
        """Send what is new in one file; what is wrong with it, and what the topic has then."""
        if not found.path.is_file():  # a pipe would be waited for
            return [Damage("unreadable", f"{found.path}: not a file", lost=True)], known
        log = open_log(found.path, max_line_bytes=self._limit)
        cursor = self._send(found, log, Cursor(known))
        lost = any(entry.code in _UNREADABLE for entry in log.damage)
        if known is not None and (cursor.replaced or (cursor.shrank and not lost)):
            self.counts.epochs += 1
            log = open_log(found.path, max_line_bytes=self._limit)
            cursor = self._send(found, log, Cursor(Already(known.epoch + 1)))
        return log.damage, cursor.already() if cursor.lines else known

    def _send(self, found: Found, log: LogFile, cursor: Cursor) -> Cursor:
        key = found.session.encode()
        partition = self._sink.partition(key)
        for line in _numbered(log, found.path, self._limit):
            wanted = cursor.wants(line)
            if cursor.replaced:
                break
            if not wanted:
                self.counts.known += 1
                continue
            headers = [("epoch", b"%d" % cursor.epoch)]
            if not self._taken(OutRecord("events", partition, key, line.raw, headers)):
                self._damage(found, _oversize(line, self._most))
                continue
            self.counts.sent += 1
            self.counts.bytes += len(line.raw)
            if self.counts.sent % FLUSH_RECORDS == 0:
                self._sink.flush()
            if self.counts.sent % PROGRESS_RECORDS == 0:
                self._progress(self.counts)
        return cursor

    def _taken(self, record: OutRecord) -> bool:
        """Whether the topic takes a record of this size; if so it is sent."""
        if len(record.key or b"") + len(record.value or b"") + FRAME_BYTES > self._most:
            return False
        try:
            self._sink.send(record)
        except Poison:  # above the client's own limit
            return False
        return True

    # --- what is wrong ----------------------------------------------------------------------------

    def _problem(self, problem: Problem) -> None:
        if problem.code not in _DEAD:
            self._say(problem)
        elif self._first(problem.path, problem.code, None):
            self._dead_letter(problem.path, Damage("unreadable", problem.message), problem.session)

    def _damage(self, found: Found, damage: Damage) -> None:
        if damage.code not in _DEAD:
            message = f"{found.path}: {damage.message}"
            self._say(Problem(damage.code, message, found.path, found.session))
        elif self._first(found.path, damage.code, damage.offset):
            self._dead_letter(found.path, damage, found.session)

    def _unnamed(self, found: Found) -> None:
        """A session that no worker would take."""
        if self._first(found.path, "session", None):
            self.counts.sessions += 1
            self.counts.unreadable += 1
            size, most = len(found.session), limits.MAX_SESSION_CHARS
            message = f"the session id has {size} characters; more than {most} are not taken"
            self._dead_letter(found.path, Damage("unreadable", message, 1), None)

    def _say(self, problem: Problem) -> None:
        if self._first(problem.path, problem.code, None):
            self._note(problem.message)

    def _first(self, path: Path, code: str, offset: int | None) -> bool:
        """Whether this was not said before: files are looked at again and again."""
        entry = (path, code, offset)
        new = entry not in self._said
        self._said.add(entry)
        return new

    def _dead_letter(self, path: Path, damage: Damage, session: str | None) -> None:
        """A line or a file that never was a record: the coordinates are file and byte range."""
        key = None if session is None else utf8(session)
        place = [Header("file", os.fsencode(path))]
        if damage.offset is not None and damage.end is not None:
            place.append(Header("bytes", b"%d-%d" % (damage.offset, damage.end)))
        letter = DeadLetter(
            reason="too-large" if damage.code == "too-large" else "unreadable",
            message=f"{path}: {damage.message}",
            topic=self._topic,
            partition=-1,
            offset=-1,
            timestamp=-1,
            session=session,
            fault_seq=None,
            key=key,
            value=None,
            headers=tuple(place),
        )
        value = encode_dead_letter(bound_dead_letter(letter, MAX_LETTER_BYTES))
        partition = self._sink.partition(key or b"")
        self._sink.send(OutRecord("deadletter", partition, key, value, []))
        self.counts.dead_letters += 1


def _oversize(line: LogLine, most: int) -> Damage:
    end = line.offset + len(line.raw)
    message = f"line {line.number}: {len(line.raw)} bytes; the events topic takes {most} a record"
    return Damage("too-large", message, line.number, line.offset, False, end, lost=True)


def _numbered(log: LogFile, path: Path, limit: int) -> Iterator[LogLine]:
    """The lines, with seqs counted if the file is a fixture in which no row has one (§1.7)."""
    head = list(islice(log.lines, 2))
    lines = chain(head, log.lines)
    rows = [line for line in head if line.count]
    if not rows or rows[0].seq is not None:
        return lines
    again = open_log(path, max_line_bytes=limit)
    return lines if any(line.seq is not None for line in again.lines) else with_seqs(lines)


def _signs(root: Path) -> Iterator[tuple[Path, Sign]]:
    """Every log below ``root`` (or itself) as it is now."""
    paths = (
        Path(folder, name) for folder, _, names in os.walk(root) for name in names if is_log(name)
    )
    for path in chain([root] if root.is_file() else (), paths):
        sign = _sign(path)
        if sign is not None:
            yield path, sign


def _sign(path: Path) -> Sign | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
