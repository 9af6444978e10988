"""One line into one session's state: its place in the order, the surface's verdict, then the rooms.

This is the only place where the rooms meet; what each kind of event does to the rows is
``transcript.py``.
"""

from __future__ import annotations

import msgspec

from .changes import (
    GapData,
    SessionOverview,
    TranscriptRow,
)
from .events import (
    SURFACE_BODIES,
    Append,
    AssistantChunk,
    Event,
    Fault,
    Header,
    Line,
    Run,
    Unknown,
)
from .order import Order, Place
from .out import Out, RowPlace
from .overview import overview
from .readers.handlers import READ, read
from .rooms import Rooms
from .sources import Refusal, check_sources
from .surface_changes import publish_append, publish_plan
from .transcript import HANDLERS

_SURFACE = frozenset(SURFACE_BODIES)
_AGAIN = (Place.AGAIN, Place.CONFLICT, Place.OVERLAP)  #: as at-least-once delivery brings them


class Session(Rooms):
    """The state of one session. ``strict`` refuses what the harness itself would refuse: gaps,
    duplicates, a first seq other than ``first_seq``, unknown required types; a refused line then
    changes nothing. What comes over a stream may come again: there (``parks``) a duplicate stays
    silent, and what is refused parks the session (``parking.py``)."""

    def __init__(
        self,
        session: str | None,
        epoch: int = 0,
        strict: bool = False,
        first_seq: int = 0,
    ) -> None:
        super().__init__(session, epoch)
        self.strict = strict
        self.parks = False
        self.first_seq = first_seq

    def fork(self) -> Session:
        """A copy to fold into; O(1) in the session's length. The original never changes."""
        twin = Session.__new__(Session)
        self._copy_into(twin)
        return twin

    def park_at_faults(self, parks: bool) -> None:
        """Whether the session is folded strictly on a stream. Nothing that a snapshot keeps: who
        folds on says so anew."""
        self.strict = self.parks = parks

    @property
    def next_seq(self) -> int:
        return self.order.next_seq

    def overview(self) -> SessionOverview:
        return overview(self)

    # --- one line -----------------------------------------------------------------------------

    def take(self, line: Line, out: Out) -> None:
        """Fold one line into this state; what it changes goes to ``out``. Never raises.

        Each event passes here: what nearly none needs is asked once and done elsewhere."""
        if not isinstance(line, Event):
            return self._take_other(line, out)
        event, seq = line, line.seq
        order = self.order
        before = order.fork() if self.strict else order
        if seq == order.next_seq and order.start is not None:
            order.next_seq = seq + event.count
            order.recent.append((seq, event.digest))
        else:
            placed = self._place_event(event, out)
            if placed is None:
                return None
            event, seq = placed, placed.seq
        if self.seed_cut is not None and seq >= self.seed_cut:
            self.cut(self.seed_cut)
            self.seed_cut = None
        body = event.body
        kind = body.__class__
        if kind in _SURFACE or event.marker is not None or event.sources is not None or self.strict:
            refusal = self._judge(event, kind, out)
            if refusal is not None:
                return self._refuse(refusal, event, before, out)
        out.changed = True
        self.as_of_seq = order.next_seq - 1
        time = event.time
        if time is not None:
            self.last_time = time if event.count == 1 else _last_time(event)
        self.shapes |= event.shapes
        if event.quality:
            for fact in event.quality:
                self.note(fact)
        HANDLERS[kind](self, event, body, out)
        if kind in READ:
            read(self, event, out)
        return None

    def _judge(self, event: Event, kind: type, out: Out) -> Refusal | None:
        """What the event does to the surface, or why it is refused (§4)."""
        if kind not in _SURFACE:
            return self._refuse_log_only(event)
        if isinstance(event.marker, Append):
            refusal = None if event.sources is None else check_sources(event)
            if refusal is None:
                publish_append(self, event, out)
            return refusal
        plan = self.surface.plan(event, self.order)
        if isinstance(plan, Refusal):
            return plan
        publish_plan(self, event, plan, out)
        return None

    def _take_other(self, line: Header | Fault, out: Out) -> None:
        if isinstance(line, Header):
            self._take_header(line, out)
        else:
            self._take_fault(line, out)

    def _take_header(self, header: Header, out: Out) -> None:
        """The first header of an epoch counts, later ones change nothing (§3)."""
        if self.header is not None:
            return
        self.header = header
        if header.seed_length is not None:
            if self.order.next_seq <= header.seed_length:
                self.seed_cut = header.seed_length
            self.inherited_until = header.seed_length
        for fact in header.quality:
            self.note(fact)
        out.changed = True

    def _take_fault(self, fault: Fault, out: Out) -> None:
        """A line that is no event: it takes its seq, if it has one."""
        if fault.seq is not None:
            placed = self._place(fault.seq, 1, fault.digest, out)
            if placed not in (Place.NEXT, Place.GAP):
                return
            if not self.strict:
                gap = self.order.take(fault.seq, 1, fault.digest)
                if gap is not None:
                    self._take_gap(gap, fault, out)
        if not self.strict:
            for fact in (*fault.quality, "fault"):
                self.note(fact)
        out.changed = True
        out.refuse(fault.reason, fault.message, fault.seq)

    # --- order --------------------------------------------------------------------------------

    def _place_event(self, event: Event, out: Out) -> Event | None:
        """The event, or what of it is new, its seqs taken; None when it changes nothing more."""
        placed = self._place(event.seq, event.count, event.digest, out)
        new: Event | None = event
        if placed is Place.OVERLAP:
            new = _new_members(event, self.order.next_seq)
        elif placed not in (Place.NEXT, Place.GAP):
            return None
        if new is not None:  # the line is remembered as it is, whatever of it is new
            gap = self.order.take(event.seq, event.count, event.digest)
            if gap is not None:
                self._take_gap(gap, new, out)
        return new

    def _place(self, seq: int, count: int, digest: int, out: Out) -> Place:
        """Where a line stands; what is not folded is dealt with here."""
        placed = self.order.place(seq, count, digest)
        late = placed is Place.LATE and (self.parks or not self.strict)
        if late:
            if not self.strict:
                self.note("fault")
            out.changed = True
            out.refuse("late", f"seq {seq} comes after its gap was given up", seq)
        elif self.strict and not (self.parks and placed in _AGAIN):
            if seq != (expected := self.expected):
                out.changed = True
                out.refuse("seq-not-contiguous", f"seq {seq} where {expected} is next", seq)
                return Place.AGAIN
        elif placed is Place.CONFLICT:
            self.note("seq_conflict")
            out.changed = True
        return placed

    @property
    def expected(self) -> int:
        """The seq that a strict fold takes next."""
        return self.first_seq if self.order.start is None else self.order.next_seq

    def give_up(self, line: Event | Fault, out: Out) -> None:
        """Do without what is missing before a line, as a fold that is not strict does (§3)."""
        if line.seq is not None and line.seq > self.expected:
            out.changed = True
            gap = self.order.give_up(line.seq)
            if gap is not None:
                self._take_gap(gap, line, out)

    def give_up_line(self, line: Event | Fault, out: Out) -> None:
        """Take a line's seqs as those of a faulted event (§2): it makes no row, counts nowhere."""
        count = line.count if isinstance(line, Event) else 1
        facts: tuple[str, ...] = (*line.quality, "fault")
        if line.seq is not None:
            placed = self.order.place(line.seq, count, line.digest)
            if placed is Place.LATE:
                facts = ("fault",)
            else:
                self.order.take(line.seq, count, line.digest)
        for fact in facts:
            self.note(fact)
        out.changed = True

    def _take_gap(self, gap: tuple[int, int], line: Event | Fault, out: Out) -> None:
        assert line.seq is not None
        self.note("gap")
        place = self.turns.place(None, None)
        first, last = gap
        out.row(
            RowPlace("gap", line.seq, first, 0, line.seq, False, *place, None),
            GapData(first, last),
        )

    def _refuse(self, refusal: Refusal, event: Event, before: Order, out: Out) -> None:
        """The surface and the transcript stay as they were; the seq is taken (§2), but by a strict
        fold, which stops ``before`` the line."""
        out.changed = True
        out.refuse(refusal.reason, refusal.message, event.seq)
        if self.strict:
            self.order = before
            return
        for fact in (*event.quality, "fault"):
            self.note(fact)

    def _refuse_log_only(self, event: Event) -> Refusal | None:
        """A log-only event may touch the surface by nothing it carries (§4)."""
        if event.marker is not None:
            text = f"{event.type} is log-only and carries surfaceOp"
            return Refusal("surfaceop-on-log-only", text)
        if event.sources is not None:
            text = f"{event.type} is log-only and carries sourceEventSeqs"
            return Refusal("sources-on-log-only", text)
        if self.strict and isinstance(event.body, Unknown) and not event.body.ignorable:
            return Refusal("unknown-required-event", f"{event.type} is required and not known")
        return None

    # --- what a reader of a file sees ---------------------------------------------------------

    def open_rows(self) -> list[TranscriptRow]:
        """The running assistant rows with their open text: the last published record of each
        joined with its partials (streams.md §5)."""
        out = Out()
        out.session, out.epoch = self.session, self.epoch
        for running in self.steps.running():
            out.row(running.place(running.rev), running.data("running"))
        return out.rows()


def _last_time(event: Event) -> int | None:
    chunk = event.body.chunk if isinstance(event.body, AssistantChunk) else None
    return chunk.times[-1] if isinstance(chunk, Run) else event.time


def _new_members(event: Event, next_seq: int) -> Event | None:
    """The part of a packed row that was not folded yet."""
    body = event.body
    if not isinstance(body, AssistantChunk) or not isinstance(body.chunk, Run):
        return None
    old = next_seq - event.seq
    run = msgspec.structs.replace(
        body.chunk, texts=body.chunk.texts[old:], times=body.chunk.times[old:]
    )
    return msgspec.structs.replace(
        event,
        seq=next_seq,
        time=run.times[0],
        body=msgspec.structs.replace(body, chunk=run),
        count=event.count - old,
    )
