"""Where the sending of one log stands: which of a file's lines the events topic still needs."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from operators.events import Header
from schemas.inbound import read_line
from schemas.jsonl import LogLine
from schemas.snapshot_place import header_digest


class Already(Struct, frozen=True):
    """What the events topic has of one session: its highest epoch, the seq after the highest event
    in it, the `header_digest` of that epoch's header and xxh3-64 of the first line that reaches
    there (None: not known). ``lines``: how many of the file's lines that makes, 0 if only seqs are
    known. ``unnumbered``: xxh3-64 of the lines without a seq that no worker has folded yet."""

    epoch: int = 0
    next_seq: int = 0
    header: int | None = None
    last: int | None = None
    lines: int = 0
    unnumbered: tuple[int, ...] = ()


def _never(_: bytes) -> bool:
    return False


class Cursor:
    """Walks the lines of one file against what is known of it.

    ``replaced``: the file is another log than the one that was sent, and none of its lines was
    wanted yet. ``lines``: whole lines walked. ``reached``: the seq after the highest walked.
    ``sent``: whether the topic has a line without a seq, asked in their order where seqs alone are
    known. ``rest``: the lines are those after the known ones, and no others.
    """

    def __init__(
        self,
        known: Already | None,
        sent: Callable[[bytes], bool] = _never,
        *,
        rest: bool = False,
    ) -> None:
        self._known = known or Already()
        self._sent = sent if self._known.lines == 0 else _never
        self.epoch = self._known.epoch
        self.replaced = False
        self.lines = self._known.lines if rest else 0
        self.reached = self._known.next_seq if rest else 0
        self._header = self._known.header
        self._last: bytes | None = None

    def wants(self, line: LogLine) -> bool:
        """Whether the line must be sent. A line without a seq is sent from where the known seqs
        end, unless it is there already."""
        self.lines = max(self.lines, line.number)
        known = self._known
        if line.count == 0:
            read = read_line(line.raw)
            if not isinstance(read, Header):  # no worker takes it for one
                return not self._sent(line.raw)
            digest = header_digest(read)
            self.replaced = self._header not in (None, digest)
            new, self._header = self._header is None, digest
            return new
        if line.seq is None:
            if line.number <= known.lines or self._sent(line.raw):
                return False
            return self.reached >= known.next_seq
        end = line.seq + line.count
        if end > self.reached:
            self.reached = end
            self._last = line.raw
            if end == known.next_seq and known.last is not None:
                self.replaced = known.last != xxh3_64_intdigest(line.raw)
        return end > known.next_seq

    @property
    def shrank(self) -> bool:
        """All was walked: are there fewer events than were sent?"""
        return self.lines > 0 and self.reached < self._known.next_seq

    def already(self) -> Already:
        """What the topic has once the wanted lines are sent."""
        last = self._known.last if self._last is None else xxh3_64_intdigest(self._last)
        next_seq = max(self.reached, self._known.next_seq)
        return Already(self.epoch, next_seq, self._header, last, self.lines)
