"""All the state of one session, room by room. The rooms do not know one another; ``transcript.py``
and ``session.py`` introduce them."""

from __future__ import annotations

from immutables import Map
from msgspec import Struct

from .commands import Commands
from .compaction import Compactions
from .events import Event, Header, Usage
from .inbox import Inbox
from .order import Order
from .out import Out
from .retries import Retries
from .steps import Step, Steps
from .surface import Surface
from .tool import Boundary
from .tools import Tools
from .totals import NO_USAGE, Totals, exchange
from .turns import Turn, Turns


class Segments(Struct, frozen=True):
    """What the last snapshot of a session holds besides its head: small segments inside the head,
    and the names of those saved by themselves. Kept for whoever saves (schemas/snapshot.py)."""

    inline: Map[str, bytes] = Map()
    apart: Map[str, None] = Map()
    pieces: Map[int, frozenset[str]] = Map()  #: sealed text saved apart, by segment of steps
    parts: Map[str, int] = Map()  #: further records of those too long for one


class Parked(Struct, frozen=True, array_like=True, gc=False):
    """A session that is put aside (streams.md §2, *Parking*), by places in its input: offsets.

    ``since``: the record that parked it; ``tail``: the last one put aside. What stands in the way
    is the record at ``at``, for ``reason``; its ``seq`` None if it said none. ``at`` None: nothing
    does, and a replay may go on."""

    since: int
    tail: int
    at: int | None
    seq: int | None = None
    reason: str | None = None


class Rooms:
    """One session's state. A copy (``fork``) costs the same however long the session is, and
    changing it never changes the original: what is shared is immutable."""

    def __init__(self, session: str | None, epoch: int = 0) -> None:
        self.session = session
        self.epoch = epoch
        self.header: Header | None = None
        self.as_of_seq: int | None = None
        self.last_time: int | None = None
        self.shapes = 0
        self.quality: dict[str, int] = {}
        self.title: str | None = None
        self.provider: str | None = None
        self.model: str | None = None
        self.context_window: int | None = None
        self.prompt_tokens: int | None = None
        self.last_end: str | None = None  # reason of the last turn/end
        self.seed_cut: int | None = None  # seedLength not reached yet
        self.inherited_until: int | None = None
        self.parked: Parked | None = None
        self.cleared = -1  # no line without a seq stands in the way again up to this place
        self.segments = Segments()
        self.order = Order()
        self.surface = Surface()
        self.turns = Turns()
        self.steps = Steps()
        self.tools = Tools()
        self.retries = Retries()
        self.compactions = Compactions()
        self.commands = Commands()
        self.inbox = Inbox()
        self.totals = Totals()

    def _copy_into(self, twin: Rooms) -> None:
        twin.__dict__.update(self.__dict__)
        twin.quality = self.quality.copy()
        twin.order = self.order.fork()
        twin.surface = self.surface.fork()
        twin.turns = self.turns.fork()
        twin.steps = self.steps.fork()
        twin.tools = self.tools.fork()
        twin.retries = self.retries.fork()
        twin.compactions = self.compactions.fork()
        twin.commands = self.commands.fork()
        twin.inbox = self.inbox.fork()
        twin.totals = self.totals.fork()

    def note(self, fact: str, times: int = 1) -> None:
        """A quality fact (outputs.md, *Quality facts*)."""
        if times:
            self.quality[fact] = self.quality.get(fact, 0) + times

    # --- what several kinds of events need ----------------------------------------------------

    def step_of(self, turn: int | None, step: int | None, event: Event) -> tuple[Turn, Step]:
        """The records of that turn and step, made when there are none. In a closed turn a new one
        is a pocket: closed from the start."""
        record = self.turns.record(turn)
        found = self.steps.get(turn, step)
        if found is None:
            found = self.steps.open(record, step, event.seq)
            if not record.open:
                found.closed, found.closed_at = True, (event.seq, event.time)
        return record, found

    def boundary(self, turn: int | None, step: int | None, event: Event) -> Boundary | None:
        """What closed that step or turn before this event; None while it is open. A forgotten
        boundary is the event itself (§5.7)."""
        found = self.steps.peek(turn, step)
        if self.turns.is_closed(turn) and not (found and found.reopened):
            return event.seq, event.time
        return found.closed_at if found and found.closed else None

    def accepts_chunks(self, turn: int | None, step: int | None) -> bool:
        """Whether a late chunk still counts: in a closed turn only if its step was reopened."""
        if not self.turns.is_closed(turn):
            return True
        found = self.steps.peek(turn, step)
        return bool(found and found.reopened)

    def account(
        self, turn: Turn, step: Step, sample: Usage | None, *, attempt: bool = False
    ) -> None:
        """A usage sample: the last one of (turn, step, attempt) counts (§6). An attempt's own
        record still belongs to the attempt that a retry has ended."""
        if sample is None:
            return
        if step.retried and not attempt:
            step.sample, step.retried = None, False
        totals, old = self.totals, step.sample or NO_USAGE
        own = old if step.sample_generation == totals.generation else NO_USAGE
        totals.usage = exchange(totals.usage, own, sample)
        # a turn that was opened again has no figures of what an earlier sample gave
        turn.usage = exchange(turn.usage or NO_USAGE, old if turn.usage else NO_USAGE, sample)
        step.sample, step.sample_generation = sample, totals.generation
        self.prompt_tokens = sample.uncached_input + sample.cache_read + sample.cache_write

    def count_row(self, step: Step, visible: bool, anchor: int) -> None:
        """Keep the count of visible assistant rows of the own part."""
        generation = self.totals.generation
        counted = step.counted == generation
        counts = visible and anchor >= self.totals.cut
        if counts != counted:
            self.totals.count("assistant", 1 if counts else -1)
            step.counted = generation if counts else -1

    def cut(self, seq: int) -> None:
        """A fork's own part starts at ``seq``: totals, title and inbox start anew (§6)."""
        self.totals = self.totals.restarted(seq)
        self.title = None
        self.inbox = Inbox()
        self.inherited_until = seq

    def note_dropped(self, out: Out) -> None:
        self.note("dispatch_dropped", out.dropped_dispatches)
        out.dropped_dispatches = 0
