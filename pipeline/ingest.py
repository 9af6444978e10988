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

from msgspec.structs import replace

from schemas.counting import with_seqs
from schemas.deadletter import DeadLetter, bound_dead_letter, encode_dead_letter
from schemas.directory import Found, Peeks, Problem, scan
from schemas.encoder import utf8
from schemas.growing import holds
from schemas.jsonl import Damage, LogFile, LogLine, Place, open_log

from . import limits
from .cursor import Already, Cursor
from .deadletter import MAX_LETTER_BYTES
from .errors import Poison
from .lines import LineSink
from .ports import Clock, OutRecord
from .progress import Progress
from .refused import Letters, Refused, headers_of
from .watching import Sign, Watch, sign

__all__ = ["Already", "Ingest", "Progress"]

#: Records between two flushes: what may be underway.
FLUSH_RECORDS = 10_000
#: Records between two calls of the progress callback.
PROGRESS_RECORDS = 1_000
#: What a broker counts beside key and value of a record of ours that is alone in its batch.
FRAME_BYTES = 128

_UNREADABLE = frozenset({"unreadable", "frame-magic", "frame-corrupt"})
_DEAD = _UNREADABLE | {"too-large"}


def _silent(_: object) -> None:
    """Nobody listens."""


class Ingest:
    """Sends what is new below some roots, as often as asked.

    ``already`` is asked once per session. ``note`` hears, once each, what was found that is no dead
    letter: torn tails, and whatever a harness would refuse. ``progress`` is called every so often,
    always with the same running counts. ``max_record_bytes``: what the events topic takes at most.
    ``letters``: the dead letters there are, of which none is made again.
    """

    def __init__(
        self,
        sink: LineSink,
        events_topic: str,
        already: Callable[[str], Already | None],
        *,
        letters: Letters = tuple,
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
        self._refused = Refused(letters)
        self._read: dict[str, tuple[Found, Already | None]] = {}
        self._sessions: dict[str, str] = {}  # by path
        self._signs: dict[Path, Sign] = {}
        self._places: dict[Path, Place] = {}
        self._peeks: Peeks = {}

    def once(self, roots: Iterable[Path]) -> Progress:
        """One pass over all files that changed since the last; returns when all is acknowledged."""
        for root in roots:
            found = scan(root, self._peeks)
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
        """Pass after pass, ``interval`` seconds apart, until ``stop()``. A pass looks at names and
        sizes; of files that have grown it reads what is new, and only if there are others than
        before does it look at all of them."""
        watch = Watch(roots)
        while not stop():
            seen = watch.look()
            if seen.others or (seen.grown and not self._more(seen.grown)):
                self.once(roots)
            clock.sleep(interval)
        return self.counts

    def _more(self, paths: Iterable[str]) -> bool:
        """Send what these files have more than before; False if one is not as it was up to there:
        it may be another session now."""
        for path in paths:
            session = self._sessions.get(path)
            if session is None:
                continue  # none that is read: an older generation, a second file of one id
            found, _ = self._read[session]
            place = self._places.get(found.path)
            if place is None or not holds(found.path, place):
                return False
            self._session(found)
        self._sink.flush()
        self._progress(self.counts)
        return True

    # --- one session ------------------------------------------------------------------------------

    def _session(self, found: Found) -> None:
        before, known = self._read.get(found.session, (None, None))
        if len(found.session) > limits.MAX_SESSION_CHARS:
            self._unnamed(found)
            return
        if before is None:
            self.counts.sessions += 1
            known = self._already(found.session)
            if known is not None:
                self._refused.underway(found.session, known.epoch, known.unnumbered)
        elif before.path.parent != found.path.parent and before.path.exists():
            message = f"{found.path}: session {found.session!r} is read from {before.path}"
            self._say(Problem("duplicate-id", message, found.path))
            return
        now = sign(found.path)
        if before == found and now is not None and self._signs.get(found.path) == now:
            return
        damage, known = self._file(found, known)
        self._read[found.session] = (found, known)
        self._sessions[str(found.path)] = found.session
        if now is not None:
            self._signs[found.path] = now
        if before is None and any(entry.code in _UNREADABLE for entry in damage):
            self.counts.unreadable += 1
        for entry in damage:
            self._damage(found, entry)
        self._progress(self.counts)

    def _file(self, found: Found, known: Already | None) -> tuple[list[Damage], Already | None]:
        """Send what is new in one file; what is wrong with it, and what the topic has then."""
        if not found.path.is_file():  # a pipe would be waited for
            return [Damage("unreadable", f"{found.path}: not a file", lost=True)], known
        log = open_log(
            found.path, max_line_bytes=self._limit, after=self._places.pop(found.path, None)
        )
        cursor = self._send(found, log, known)
        lost = any(entry.code in _UNREADABLE for entry in log.damage)
        if known is not None and (cursor.replaced or (cursor.shrank and not lost)):
            self.counts.epochs += 1
            log = open_log(found.path, max_line_bytes=self._limit)
            cursor = self._send(found, log, Already(known.epoch + 1))
        if log.place is not None and cursor.reached:
            self._places[found.path] = log.place
        return log.damage, cursor.already() if cursor.lines else known

    def _send(self, found: Found, log: LogFile, known: Already | None) -> Cursor:
        key = found.session.encode()
        partition = self._sink.partition(key)
        epoch = known.epoch if known is not None else 0
        lines = _numbered(log, found.path, self._limit)
        cursor = Cursor(
            known, lambda line: self._refused.sent(found.session, epoch, line), rest=log.resumed
        )
        for line in lines:
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
        reason = "too-large" if damage.code == "too-large" else "unreadable"
        file = os.fsencode(path)
        if self._refused.told(reason, file, None if damage.end is None else damage.offset):
            return
        key = None if session is None else utf8(session)
        letter = DeadLetter(
            reason=reason,
            message=f"{path}: {damage.message}",
            topic=self._topic,
            partition=-1,
            offset=-1,
            timestamp=-1,
            session=session,
            fault_seq=None,
            key=key,
            value=None,
            headers=headers_of(file, damage.offset, damage.end),
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
    if log.resumed or not rows or rows[0].seq is not None:
        return lines
    again = open_log(path, max_line_bytes=limit)
    if any(line.seq is not None for line in again.lines):
        return lines
    log.place = None
    return with_seqs(lines)
