"""One partition under proof: folded up to a cut, held against its topics, and again at later cuts
for what was being written meanwhile (streams.md §5).

A cut is what the group has committed. What is on an output topic when its end is asked for
afterwards comes of events below that cut, or of some that were folded since. So a session that
differs stays open, and is folded on event by event to a next cut. It is proven if the topics were
the fold's at some point between the two: the surface as far as it went, and each last record that
differed as one that the fold gives in between. It differs if it has no events any more, or if a
record stays that the fold does not give.
"""

from __future__ import annotations

from collections.abc import Iterator

from operators.events import Header
from pipeline.batch import BatchResult, ReadRecord, read
from pipeline.errors import Fatal
from pipeline.ports import InRecord
from pipeline.restore import place_of
from pipeline.state import States

from .letters import Judged, Letters
from .records import LASTS, absent, chained, of, seq_of, session_of
from .scope import Found, Scope
from .scratch import BROKEN, KNOWN, WINDOW, Scratch
from .states import ScratchStates

BATCH = 10_000  #: records folded at once: what changes twice in them is written once
BATCH_BYTES = 16 * 1024 * 1024
RESIDENT = 64 * 1024 * 1024  #: bytes of sessions kept decoded
QUIET = 2
"""Rounds that a difference must outlive without an event of its session, and one more that a record
may stay which the fold does not give: an offset may be seen a moment after what it stands for."""


class PartitionProof:
    """One use: `run`. ``scratch`` is empty of other partitions."""

    def __init__(self, scope: Scope, scratch: Scratch, letters: Letters, partition: int) -> None:
        self._scope = scope
        self._scratch = scratch
        self._letters = letters
        self._partition = partition
        self._states = States(ScratchStates(scratch), RESIDENT)
        self._begin, end = scope.reader.bounds(scope.names.of("events"), partition)
        self._at = {"events": self._begin}
        self._end = end
        self._surface_expired = False
        self._open: dict[bytes, int] = {}
        self._wanted: dict[tuple[str, bytes], bytes | None] = {}
        self._strange: dict[tuple[str, bytes], tuple[bytes | None, int]] = {}

    def run(self) -> Found:
        """Fold, compare, and go on while sessions are open and rounds left."""
        self._fold(collect=False)
        self._read_topics()
        self._open = dict.fromkeys(self._differing(), 0)
        for _ in range(self._scope.rounds):
            if not any(self._undecided()):
                break
            self._scope.pause()
            short = self._want()
            touched = self._fold(collect=True)
            self._drop_proven(short)
            self._read_topics()
            now = set(self._differing())
            self._open = {
                session: 0 if session in touched else quiet + 1
                for session, quiet in self._open.items()
                if session in now
            }
        return self._found()

    def _want(self) -> set[bytes]:
        """What the fold must give on its way to the next cut for the open sessions to be proven;
        returns those of which it has given more than the surface has."""
        self._wanted = {
            (last.role, last.key): last.topic
            for last in self._scratch.broken_lasts()
            if session_of(last.key, last.role) in self._open
        }
        chains = ((session, self._scratch.chain(session)) for session in self._open)
        return {session for session, chain in chains if chain.topic_count < chain.fold_count}

    def _drop_proven(self, short: set[bytes]) -> None:
        """Sessions whose topics were the fold's between two cuts are open no more."""
        before, self._strange = self._strange, {}
        for at, mark in self._wanted.items():
            known, rounds = before.get(at, (mark, 0))
            self._strange[at] = (mark, rounds + 1 if known == mark else 1)
        left = {session_of(key, role) for role, key in self._wanted} | short
        for session in [session for session in self._open if session not in left]:
            chain = self._scratch.chain(session)
            if chain.fold_count >= chain.topic_count and not chain.flags & BROKEN:
                del self._open[session]

    def _undecided(self) -> Iterator[bytes]:
        strange = self._strangers()
        for session, quiet in self._open.items():
            decided = quiet >= QUIET or session in strange
            if not decided and not self._scratch.chain(session).flags & BROKEN:
                yield session

    def _strangers(self) -> dict[bytes, set[tuple[str, bytes]]]:
        """By session, keys whose last record stays and is none that the fold gives."""
        found: dict[bytes, set[tuple[str, bytes]]] = {}
        for (role, key), (_, rounds) in self._strange.items():
            if rounds > QUIET:
                found.setdefault(session_of(key, role), set()).add((role, key))
        return found

    def _found(self) -> Found:
        scope, partition = self._scope, self._partition
        end = scope.reader.bounds(scope.names.of("events"), partition)[1]
        judged = Judged(self._begin, self._at["events"], end)
        found = Found(judged, dict(self._at), max(0, end - judged.cut))
        found.undecided = list(self._undecided())
        undecided = set(found.undecided)
        found.unprovable = [s for s, c in self._scratch.chains() if c.flags & WINDOW]
        strange = self._strangers()
        found.moving = {
            s: strange.get(s, set()) for s, quiet in self._open.items() if quiet < QUIET
        }
        for session in self._open:
            if session not in undecided:
                kind = found.unprovable if self._expired(session) else found.differing
                kind.append(session)
        return found

    def _expired(self, session: bytes) -> bool:
        """Its first events are gone, or the first of its surface."""
        chain = self._scratch.chain(session)
        if self._begin > 0 and not chain.flags & KNOWN:
            return True
        return self._surface_expired and chain.topic_count < chain.fold_count

    def _differing(self) -> Iterator[bytes]:
        """Sessions that could be proven and are not as the fold gives them now."""
        self._scratch.settle()
        found = set(self._scratch.broken_chains())
        found.update(session_of(last.key, last.role) for last in self._scratch.broken_lasts())
        return (s for s in found if not self._scratch.chain(s).flags & WINDOW)

    # --- the fold ---------------------------------------------------------------------------------

    def _fold(self, *, collect: bool) -> set[bytes]:
        """Go on up to what is committed now; with ``collect``, the sessions that got events."""
        scope, start = self._scope, self._at["events"]
        committed = scope.reader.committed(scope.names.application, scope.names.of("events"))
        stop = committed.get(self._partition)
        if stop is None:  # the group forgot it: its workers will go on from where the states stand
            stop = place_of(scope.reader, scope.names.of("state"), self._partition)
        stop = max(start, start if stop is None else stop)
        if stop > self._end:
            self._end = scope.reader.bounds(scope.names.of("events"), self._partition)[1]
        if stop > self._end:
            raise Fatal(
                f"group {scope.names.application} has committed offset {stop} of "
                f"{scope.names.of('events')}[{self._partition}], which ends at {self._end}",
                "the topic was made anew under the same name: see `foldstream doctor`",
            )
        touched: set[bytes] = set()
        for batch in _batches(scope.records("events", self._partition, start, stop)):
            self._take(batch)
            if collect:
                touched.update(record.key or b"" for record in batch)
        self._at["events"] = stop
        return touched

    def _take(self, batch: list[InRecord]) -> None:
        lines = read(batch)
        if self._begin > 0:
            self._find_windows(lines)
        for record in batch:
            chain = self._scratch.chain(record.key or b"")
            chain.events_count += 1
            chain.events = chained(chain.events, of(record))
        for some in self._steps(lines):
            for result in self._scope.fold(some, self._states, self._partition):
                self._gather(result)

    def _steps(self, lines: list[ReadRecord]) -> Iterator[list[ReadRecord]]:
        """Those of open sessions one by one, as any of them may have ended a worker's batch."""
        rest = []
        for item in lines:
            if item.record.key in self._open:
                yield [item]
            else:
                rest.append(item)
        yield rest

    def _gather(self, result: BatchResult) -> None:
        scratch = self._scratch
        for session in result.states:
            scratch.chain(session.encode()).flags |= KNOWN
        for record in result.outputs:
            role, key = record.role, record.key or b""
            if role == "surface":
                chain = scratch.chain(key)
                chain.fold_count += 1
                chain.fold = chained(chain.fold, of(record))
                chain.met()
            elif role in LASTS:
                gone = role == "transcript" and absent(record.value)
                value = None if gone else of(record)
                scratch.expect(role, key, value, seq_of(record.headers))
                if (role, key) in self._wanted and self._wanted[role, key] == value:
                    del self._wanted[role, key]
            elif role == "deadletter":
                self._letters.expect(record)

    def _find_windows(self, lines: list[ReadRecord]) -> None:
        """Sessions whose first record left is not their first. Without its header nobody can tell
        whether one has expired."""
        for item in lines:
            if item.session is not None:
                chain = self._scratch.chain(item.session.encode())
                first = not chain.events_count and not chain.flags & (KNOWN | WINDOW)
                if first and not (isinstance(item.line, Header) and item.epoch <= 0):
                    chain.flags |= WINDOW
                chain.flags |= KNOWN

    # --- the topics -------------------------------------------------------------------------------

    def _read_topics(self) -> None:
        """All that stands on them now; one of the fold's committed batches is there wholly."""
        for record in self._new("surface"):
            chain = self._scratch.chain(record.key or b"")
            chain.topic_count += 1
            chain.topic = chained(chain.topic, of(record))
            chain.met()
        for role in LASTS:
            for record in self._new(role):
                gone = role == "transcript" and absent(record.value)
                value = None if gone else of(record)
                seq = seq_of(record.headers)
                self._scratch.find(role, record.key or b"", value, seq, record.offset)

    def _new(self, role: str) -> Iterator[InRecord]:
        begin, end = self._scope.reader.bounds(self._scope.names.of(role), self._partition)
        if role == "surface":
            self._surface_expired |= begin > 0
        start = self._at.get(role, begin)
        yield from self._scope.records(role, self._partition, start, end)
        self._at[role] = end


def _batches(records: Iterator[InRecord]) -> Iterator[list[InRecord]]:
    """At most `BATCH` records and, but for a last one, `BATCH_BYTES`."""
    batch: list[InRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value or b"")
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
