"""Prove the topics: what stands on them equals a fresh fold of ``sessions.events`` (streams.md §5).

Per session the sequence on ``surface``; per key the last record on ``transcript`` and ``overview``,
where a key whose last record is deleted counts as absent; the dead letters as a set. Key, value
and headers byte for byte; up to the offsets that the workers have committed, while they go on
committing: a session that was being written is folded on to a later cut, and must have been the
fold's at a point in between. One whose first records have expired cannot be proven: it is counted
and named.

**The digest of a topic** is what two clusters compare: equal bytes give equal digests, whatever the
offsets, timestamps, partitions and the order between sessions. It is a sum modulo 2^128, so that
order does not matter, of XXH3-128 digests over key, value, headers: on ``events`` and ``surface``
one per session over its records in order; on ``transcript`` and ``overview`` one per key over its
last record, unless deleted; on ``deadletter`` one per letter without its coordinates. ``events`` is
read up to the cut and the others to their ends: compare them when the workers are at rest.

Works partition by partition in a temporary file, so memory stays flat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct, field, structs

from . import limits
from .batch import Redact, never
from .errors import Fatal
from .ports import Reader
from .proof.letters import Judged, Letters
from .proof.locate import locate
from .proof.partition import PartitionProof
from .proof.records import Mismatch, summed
from .proof.scope import Scope, Told
from .proof.scratch import KNOWN, Scratch
from .topics import Names

ROUNDS = 20  #: of further cuts, per partition
PAUSE_S = 0.2  #: between two; a commit is on all topics well within it
MOST_DIFFERENCES = 100
MOST_NAMES = 1_000

_DIGITS = 2**128


class TopicSum(Struct, frozen=True):
    """What a topic holds: records (of ``transcript`` and ``overview`` keys that are there), and the
    digest as 32 hexadecimal digits."""

    topic: str
    count: int
    digest: str


class Verdict(Struct, frozen=True, kw_only=True):
    """``differing``, ``undecided_count`` and ``unprovable_count`` count sessions; ``differences``
    has the first of each session that differs and every dead letter that does, ``undecided`` and
    ``unprovable`` name sessions, all up to a bound. ``behind``: input records beyond the cut, not
    folded yet."""

    sessions: int = 0
    events: int = 0
    surface: int = 0
    rows: int = 0
    dead_letters: int = 0
    behind: int = 0
    differing: int = 0
    differences: tuple[Mismatch, ...] = ()
    undecided_count: int = 0
    undecided: tuple[str, ...] = ()
    unprovable_count: int = 0
    unprovable: tuple[str, ...] = ()
    topics: Mapping[str, TopicSum] = field(default_factory=dict)

    @property
    def mismatch(self) -> Mismatch | None:
        """The first difference."""
        return self.differences[0] if self.differences else None

    @property
    def ok(self) -> bool:
        """Nothing differs, and everything that can be proven was decided."""
        return not self.differing and not self.undecided_count


def verify(  # noqa: PLR0913 - by name, but the first four
    reader: Reader,
    names: Names,
    max_row_bytes: int = limits.MAX_ROW_BYTES,
    told: Told = lambda *_: None,
    *,
    strict: Callable[[str], bool] = never,
    redact: Redact | None = None,
    session: str | None = None,
    rounds: int = ROUNDS,
    pause: Callable[[], None] = lambda: time.sleep(PAUSE_S),
) -> Verdict:
    """Compare everything, or what concerns ``session``. Workers may go on meanwhile. ``strict`` and
    ``redact`` as they were given. `Fatal` when a topic is missing, or the temporary file cannot be
    written."""
    for role in ("events", "surface", "transcript", "overview", "deadletter"):
        if reader.partitions(names.of(role)) == 0:
            raise Fatal(f"topic {names.of(role)} is missing", "run `foldstream topics create`")
    scope = Scope(
        reader=reader,
        names=names,
        max_row_bytes=max_row_bytes,
        strict=strict,
        redact=redact,
        session=None if session is None else session.encode("utf-8", "surrogatepass"),
        rounds=rounds,
        pause=pause,
        told=told,
    )
    with Scratch() as scratch:
        proof = _Proof(scope, scratch)
        for partition in range(reader.partitions(names.of("events"))):
            proof.partition(partition)
        proof.dead_letters()
        return proof.verdict()


class _Sum(Struct):
    count: int = 0
    total: int = 0

    def add(self, count: int, summand: int) -> None:
        self.count += count
        self.total += summand


class _Proof:
    """One verification under way."""

    def __init__(self, scope: Scope, scratch: Scratch) -> None:
        self._scope = scope
        self._scratch = scratch
        names = scope.names
        self._letters = Letters(scratch, names.of("events"), names.of("deadletter"))
        self._judged: dict[int, Judged] = {}
        self._sums = {role: _Sum() for role in ("events", "surface", "transcript", "overview")}
        self._differences: list[Mismatch] = []
        self._sessions = self._differing = self._behind = 0

    def partition(self, partition: int) -> None:
        scope, scratch = self._scope, self._scratch
        scratch.clear()
        found = PartitionProof(scope, scratch, self._letters, partition).run()
        self._judged[partition] = found.judged
        self._behind += found.behind
        self._differing += len(found.differing)
        scratch.name("unprovable", found.unprovable)
        scratch.name("undecided", found.undecided)
        self._add_up()
        left = MOST_DIFFERENCES - len(self._differences)
        self._differences += locate(scope, scratch, partition, found, left)

    def _add_up(self) -> None:
        scratch = self._scratch
        scratch.settle()
        for session, chain in scratch.chains():
            self._sessions += bool(chain.flags & KNOWN)
            if chain.events_count:
                one = summed(session, chain.events_count, chain.events)
                self._sums["events"].add(chain.events_count, one)
            if chain.topic_count:
                one = summed(session, chain.topic_count, chain.topic)
                self._sums["surface"].add(chain.topic_count, one)
        for role, digest in scratch.topic_lasts():
            self._sums[role].add(1, int.from_bytes(digest))

    def dead_letters(self) -> None:
        """All partitions at once: dead letters are spread modulo their topic's number."""
        scope, expired = self._scope, False
        topic, events = scope.names.of("deadletter"), scope.names.of("events")
        places = {
            at: scope.reader.bounds(topic, at) for at in range(scope.reader.partitions(topic))
        }
        for at, judged in self._judged.items():  # now, as a letter is written after its record
            end = scope.reader.bounds(events, at)[1]
            self._judged[at] = structs.replace(judged, end=end)
        for partition, (begin, end) in places.items():
            expired |= begin > 0
            for record in scope.records("deadletter", partition, begin, end):
                self._differ(self._letters.meet(record, self._judged))
        if not expired:
            for mismatch in self._letters.missing():
                self._differ(mismatch)

    def _differ(self, mismatch: Mismatch | None) -> None:
        if mismatch is not None:
            self._differing += 1
            if len(self._differences) < MOST_DIFFERENCES:
                self._differences.append(mismatch)

    def verdict(self) -> Verdict:
        undecided, unprovable = (
            self._scratch.names(kind, MOST_NAMES) for kind in ("undecided", "unprovable")
        )
        self._sums["deadletter"] = _Sum(self._letters.count, self._letters.sum)
        sums = self._sums
        return Verdict(
            sessions=self._sessions,
            events=sums["events"].count,
            surface=sums["surface"].count,
            rows=sums["transcript"].count,
            dead_letters=self._letters.expected,
            behind=self._behind,
            differing=self._differing,
            differences=tuple(self._differences),
            undecided_count=undecided[0],
            undecided=_texts(undecided[1]),
            unprovable_count=unprovable[0],
            unprovable=_texts(unprovable[1]),
            topics={
                role: TopicSum(self._scope.names.of(role), one.count, f"{one.total % _DIGITS:032x}")
                for role, one in sums.items()
            },
        )


def _texts(sessions: list[bytes]) -> tuple[str, ...]:
    return tuple(session.decode(errors="backslashreplace") for session in sessions)
