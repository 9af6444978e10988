"""What a proof is about, and what a partition of it came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from pipeline import limits
from pipeline.batch import BatchResult, ReadRecord, Redact, advance, render
from pipeline.ports import InRecord, Reader
from pipeline.state import States
from pipeline.topics import Names

from .letters import Judged
from .records import session_of

Told: TypeAlias = Callable[[str, int, int], None]
"""Progress: the topic being read, records done, records to read (as far as offsets tell)."""


class Scope(Struct, frozen=True, kw_only=True):
    """What is proven and how. ``session``: that one alone. ``rounds``: most further cuts for
    sessions that are being written; ``pause`` waits between two of them. ``strict``: whether a
    session parks at its first fault, ``redact``: what is taken out, as the workers were told."""

    reader: Reader
    names: Names
    max_row_bytes: int
    strict: Callable[[str], bool]
    redact: Redact | None
    session: bytes | None
    rounds: int
    pause: Callable[[], None]
    told: Told

    def records(self, role: str, partition: int, start: int, stop: int) -> Iterator[InRecord]:
        """Committed records in scope, with progress."""
        topic = self.names.of(role)
        seen = start
        for count, record in enumerate(self.reader.read(topic, partition, start, stop), 1):
            if count % 1000 == 0:
                self.told(topic, record.offset - start, stop - start)
            seen = record.offset
            if self.session is None or session_of(record.key, role) == self.session:
                yield record
        if seen > start:
            self.told(topic, stop - start, stop - start)

    def fold(
        self, lines: list[ReadRecord], states: States, partition: int
    ) -> Iterator[BatchResult]:
        """The lines folded onto ``states``, as a worker folds them."""
        while lines:
            known = states.of(partition)
            folded = advance(lines, known, limits.BATCH_WEIGHT, self.strict)
            result = render(folded, self.max_row_bytes, self.redact)
            states.merge(partition, result.states, result.segments, 0)
            yield result
            lines = lines[folded.taken :]


class Found(Struct):
    """What one partition came to: sessions that differ, that stay undecided, that cannot be
    proven. ``moving``: sessions that differ although they are being written, with the keys whose
    last record no fold gives; what else of theirs seems to differ may come of that."""

    judged: Judged
    ends: dict[str, int]
    behind: int = 0
    differing: list[bytes] = []
    undecided: list[bytes] = []
    unprovable: list[bytes] = []
    moving: dict[bytes, set[tuple[str, bytes]]] = {}
