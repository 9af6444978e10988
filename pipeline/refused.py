"""Which refusals are known: what was dead-lettered once is not dead-lettered by every run.

A line without a seq has no place of its own in the log, so that no state says whether it was sent.
Its dead letter does, and it says which files and lines an ingest itself could not send. They are
read when one is first asked for: most logs never need them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from xxhash import xxh3_64_intdigest

from schemas.deadletter import DeadLetter, Header

Letters = Callable[[], Iterable[DeadLetter]]
FILE, BYTES = "file", "bytes"  #: headers of a letter that was never a record


class Refused:
    """``letters`` gives the dead letters there are; it is called once at most."""

    def __init__(self, letters: Letters) -> None:
        self._letters: Letters | None = letters
        self._lines: Counter[tuple[str, int, int]] = Counter()
        self._places: set[tuple[str, bytes, int | None]] = set()

    def underway(self, session: str, epoch: int, digests: Iterable[int]) -> None:
        """Lines without a seq that were sent and are not folded yet."""
        self._lines.update((session, epoch, digest) for digest in digests)

    def sent(self, session: str, epoch: int, line: bytes) -> bool:
        """Whether the line is on the topic already. Each that is there answers once."""
        self._load()
        key = session, epoch, xxh3_64_intdigest(line)
        there = self._lines[key] > 0
        self._lines[key] -= there
        return there

    def told(self, reason: str, file: bytes, offset: int | None) -> bool:
        """Whether there is a letter of that place in a file."""
        self._load()
        return (reason, file, offset) in self._places

    def _load(self) -> None:
        letters, self._letters = self._letters, None
        for letter in letters() if letters is not None else ():
            headers = {entry.key: entry.value for entry in letter.headers}
            file = headers.get(FILE)
            if letter.partition < 0 and file is not None:
                self._places.add((letter.reason, file, _offset(headers.get(BYTES))))
            elif letter.session is not None and letter.value is not None:
                digest = xxh3_64_intdigest(letter.value)
                self._lines[letter.session, _epoch(headers), digest] += 1


def headers_of(file: bytes, offset: int | None, end: int | None) -> tuple[Header, ...]:
    """The headers of a letter: the file, and the bytes in it if they are known."""
    named = Header(FILE, file)
    if offset is None or end is None:
        return (named,)
    return named, Header(BYTES, b"%d-%d" % (offset, end))


def _offset(span: bytes | None) -> int | None:
    start = (span or b"").partition(b"-")[0]
    return int(start) if start.isdigit() else None


def _epoch(headers: dict[str, bytes | None]) -> int:
    said = headers.get("epoch") or b"0"
    return int(said) if said.isdigit() else -1
