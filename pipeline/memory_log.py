"""One partition in memory: records, transaction markers, and what is known of its producers.

A marker counts for everything that its producer id has open here, whichever transaction wrote it:
so one that was never written makes the *next* commit of that producer publish what was to be
aborted, as on a real broker.
"""

from __future__ import annotations

from msgspec import Struct

from .ports import InRecord


class Refusal(Exception):  # noqa: N818 - what a broker answers, by Kafka's name for it
    """A request is answered with an error; ``code`` as in Kafka's protocol."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Span(Struct, eq=False):
    """What one producer id wrote here between two of its markers."""

    first: int
    outcome: str = "open"  #: open, committed or aborted


class Slot(Struct, frozen=True, gc=False):
    """One offset: a record, or a transaction marker (``record`` None)."""

    record: InRecord | None
    span: Span | None


class Written(Struct):
    """Of one producer id: its newest epoch, the next sequence number, and its last batch as
    (first sequence, first offset), to tell one sent again from one that is new."""

    epoch: int
    next_sequence: int = 0
    last: tuple[int, int] = (-1, -1)


class Log:
    """Offsets are places in ``slots``."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.open: dict[int, Span] = {}
        self._written: dict[int, Written] = {}

    @property
    def end(self) -> int:
        """The offset after the last one written, whatever becomes of it."""
        return len(self.slots)

    @property
    def stable(self) -> int:
        """The last stable offset: everything below it is decided."""
        return min((span.first for span in self.open.values()), default=len(self.slots))

    def append(self, record: InRecord, writer: int | None = None) -> None:
        """``record`` stands at `end`; ``writer``: the producer id of its open transaction."""
        span = None
        if writer is not None:
            span = self.open.get(writer)
            if span is None:
                span = self.open[writer] = Span(len(self.slots))
        self.slots.append(Slot(record, span))

    def admit(self, writer: int, epoch: int, sequence: int, count: int) -> int | None:
        """Whether a batch of an idempotent producer is taken: None, or the offset at which it
        already stands. `Refusal` of an epoch that has passed, or of a hole before it."""
        known = self._written.get(writer)
        if known is None or epoch > known.epoch:
            if sequence != 0:
                raise Refusal("OUT_OF_ORDER_SEQUENCE_NUMBER")
            known = self._written[writer] = Written(epoch)
        if epoch < known.epoch:
            raise Refusal("INVALID_PRODUCER_EPOCH")
        if sequence == known.last[0]:
            return known.last[1]
        if sequence != known.next_sequence:
            raise Refusal("OUT_OF_ORDER_SEQUENCE_NUMBER")
        known.next_sequence += count
        known.last = (sequence, self.end)
        return None

    def is_open(self, writer: int, epoch: int) -> bool:
        """Whether ``writer`` has a transaction open here and ``epoch`` is its newest: then nobody
        asks the coordinator about its batches."""
        known = self._written.get(writer)
        return known is not None and known.epoch == epoch and writer in self.open

    def mark(self, writer: int, epoch: int, outcome: str) -> None:
        """A transaction marker. It fences older epochs here, as a batch does."""
        span = self.open.pop(writer, None)
        if span is not None:
            span.outcome = outcome
        known = self._written.get(writer)
        if known is None or epoch > known.epoch:
            self._written[writer] = Written(epoch)
        self.slots.append(Slot(None, span))

    def fetch(self, start: int, limit: int) -> tuple[list[InRecord], int]:
        """At most ``limit`` committed records from ``start``, and the position after them; it
        moves over markers and aborted records too."""
        found: list[InRecord] = []
        position, stable, slots = start, self.stable, self.slots
        while position < stable and len(found) < limit:
            slot = slots[position]
            position += 1
            if slot.record is not None and (slot.span is None or slot.span.outcome != "aborted"):
                found.append(slot.record)
        return found, position

    def fetch_all(self, start: int, limit: int) -> tuple[list[InRecord], int]:
        """The same of every record, whatever becomes of it."""
        slots = self.slots[start : start + limit]
        return [slot.record for slot in slots if slot.record is not None], start + len(slots)
