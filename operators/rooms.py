"""All the state of one session, room by room. The rooms do not know one another; ``transcript.py``
and ``session.py`` introduce them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from immutables import Map
from msgspec import Raw, Struct

from .commands import Commands
from .compaction import Compactions
from .events import Event, Header, Usage
from .inbox import Inbox
from .order import Order
from .out import Out
from .readers.rooms import Readers
from .retries import Retries
from .steps import Step, Steps
from .surface import Surface
from .tool import Boundary
from .tools import Tools
from .totals import NO_USAGE, Totals, exchange
from .turns import Turn, Turns


class Segments(Struct, frozen=True):
    """What the last snapshot of a session holds besides its head: small segments inside the head,
    sorted by name, and the names of those saved by themselves. ``encoded`` is what the next
    snapshot need not encode again. Kept for whoever saves (schemas/snapshot.py)."""

    inline: Mapping[str, Raw] = {}
    apart: Map[str, None] = Map()
    pieces: Map[int, frozenset[str]] = Map()  #: sealed text saved apart, by segment of steps
    parts: Map[str, int] = Map()  #: further records of those too long for one
    encoded: object = None


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


class Room(Protocol):
    def fork(self) -> Self: ...


R = TypeVar("R", bound=Room)


class Shared(Generic[R]):
    """A room that few events enter: after a fork both sessions share it, until either asks for it
    and gets a copy of its own. An attribute of the instance, once it is there, comes before this
    one of the class."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, rooms: None, owner: type) -> Shared[R]: ...
    @overload
    def __get__(self, rooms: Rooms, owner: type) -> R: ...
    def __get__(self, rooms: Rooms | None, owner: type) -> Shared[R] | R:
        return self if rooms is None else self.own(rooms)

    def own(self, rooms: Rooms) -> R:
        """The room, to be changed."""
        room: R | None = rooms.__dict__.get(self._name)
        if room is None:
            room = rooms.__dict__[self._name] = rooms.shared.pop(self._name).fork()
        return room

    def peek(self, rooms: Rooms) -> R:
        """The room, only to be read."""
        room: R | None = rooms.__dict__.get(self._name)
        return rooms.shared[self._name] if room is None else room


class Rooms:
    """One session's state. A copy (``fork``) costs the same however long the session is, and
    changing it never changes the original: what is shared is immutable, or copied before it is
    changed."""

    surface = Shared[Surface]()
    tools = Shared[Tools]()
    retries = Shared[Retries]()
    compactions = Shared[Compactions]()
    commands = Shared[Commands]()
    inbox = Shared[Inbox]()
    readers = Shared[Readers]()

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
        self.turns = Turns()
        self.steps = Steps()
        self.totals = Totals()
        self.surface = Surface()
        self.tools = Tools()
        self.retries = Retries()
        self.compactions = Compactions()
        self.commands = Commands()
        self.inbox = Inbox()
        self.readers = Readers()
        self.shared: dict[str, Any] = {}  # rooms by name, those that another session may hold

    def _copy_into(self, twin: Rooms) -> None:
        own, shared = self.__dict__, self.shared
        for name in _SHARED:
            if name in own:
                shared[name] = own.pop(name)
        twin.__dict__.update(own)
        twin.shared = shared.copy()
        twin.quality = self.quality.copy()
        twin.order = self.order.fork()
        twin.turns = self.turns.fork()
        twin.steps = self.steps.fork()
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
        self.readers.cut()
        self.inherited_until = seq

    def note_dropped(self, out: Out) -> None:
        self.note("dispatch_dropped", out.dropped_dispatches)
        out.dropped_dispatches = 0


_SHARED = tuple(name for name, room in vars(Rooms).items() if isinstance(room, Shared))
