"""The head of a snapshot: everything of a session that is small and saved with every batch."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
from immutables import Map
from msgspec import Raw
from msgspec.structs import replace

from operators.events import NULL, Header, Usage
from operators.readers.rooms import STATISTICS
from operators.readers.statistics import Clock
from operators.rooms import Parked, Rooms
from operators.session import Session
from operators.totals import NO_USAGE
from operators.turns import Turn

from .snapshot_readers import encode_readers, load_readers
from .typed import MISSING

#: The newest version that is read, and the one that is written. Version 2 came with parking, 3 with
#: the readers, which a program that does not know them would lose.
VERSION = 3


class SavedHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the overview shows of the log's header."""

    session: str | None = None
    version: int | None = None
    created_at: int | None = None
    cwd: str | None = None
    parent: str | None = None
    origin: str | None = None
    depth: int | None = None
    seed_length: int | None = None


_Usage: TypeAlias = tuple[int, int, int, int, int, bool]


class _Clock(msgspec.Struct, frozen=True, array_like=True):
    turn: int | None = None
    step: int | None = None
    started: int | None = None
    is_open: bool = False


class _Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """``operators.totals.Totals``; usage as its fields in order. The last four were written before
    version 3: since then the readers have them."""

    generation: int = 0
    cut: int = 0
    counts: dict[str, int] = {}
    usage: _Usage | None = None
    compaction_usage: _Usage | None = None
    model_ms: int = 0
    tool_ms: int = 0
    open_step: _Clock | None = None
    pending: dict[str, int | None] = {}


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """What says nothing is left out. Fields are only ever added, with a default; anything else is a
    new version."""

    version: int
    session: str | None
    next_seq: int
    epoch: int = 0
    start: int | None = None
    gaps: list[tuple[int, int]] = []
    digest_seqs: list[tuple[int, int]] = []
    digests: bytes = b""
    header: SavedHeader | None = None
    as_of_seq: int | None = None
    last_time: int | None = None
    shapes: int = 0
    quality: dict[str, int] = {}
    title: str | None = None
    provider: str | None = None
    model: str | None = None
    context_window: int | None = None
    prompt_tokens: int | None = None
    last_end: str | None = None
    seed_cut: int | None = None
    inherited_until: int | None = None
    generation: int = 0
    open_turn: int | None = None
    open_step: int | None = None
    closed: list[tuple[int, int]] = []
    turns: list[Turn] = []
    next_turn_inbox: tuple[str | None, ...] = ()
    next_step_inbox: tuple[str | None, ...] = ()
    claims: list[str] = []
    totals: _Totals = _Totals()
    apart: int = 0
    further: int = 0
    inline: Mapping[str, Raw] = {}
    parked: Parked | None = None
    cleared: int = -1
    readers: Raw = MISSING


_encode = msgspec.json.Encoder().encode

#: Fields that stand under the same name in the session.
_SAME = (
    *("as_of_seq", "last_time", "shapes", "quality", "title", "provider", "model"),
    *("context_window", "prompt_tokens", "last_end", "seed_cut", "inherited_until"),
    *("parked", "cleared"),
)


def head_of(
    session: Session, inline: Mapping[str, Raw], besides: tuple[int, int]
) -> tuple[bytes, object]:
    """The head's bytes, and what the next one need not encode again (`Segments.encoded`).
    ``inline``: the segments inside it; ``besides``: how many segments are saved apart, and how many
    records go on with a longer one."""
    order, turns, inbox = session.order, session.turns, Rooms.inbox.peek(session)
    before = session.segments.encoded
    encoded = _encoded(session, before if isinstance(before, _Encoded) else _NOTHING)
    fields: tuple[Any, ...] = (  # in their order: by name they cost twice as much
        VERSION,
        session.session,
        *(order.next_seq, session.epoch, order.start, order.gaps),
        *(encoded.runs, encoded.digests, encoded.header),
        *(session.as_of_seq, session.last_time, session.shapes, session.quality),
        *(session.title, session.provider, session.model, session.context_window),
        *(session.prompt_tokens, session.last_end, session.seed_cut, session.inherited_until),
        Rooms.surface.peek(session).generation,
        *(turns.open_turn, turns.open_step, turns.closed),
        [replace(turn, steps=[]) for turn in turns],
        *(inbox.next_turn, inbox.next_step, sorted(inbox.claims)),
        _save_totals(session),
        *besides,
        inline,
        *(session.parked, session.cleared, encode_readers(Rooms.readers.peek(session))),
    )
    return _encode(Head(*fields)), encoded


class _Encoded(msgspec.Struct, frozen=True):
    """Parts of a head as they were saved last: the header (of the line ``line``), and the digests
    of the lines up to ``last``, an entry of `Order.recent`."""

    line: Header | None = None
    header: SavedHeader | None = None
    last: tuple[int, int] | None = None
    runs: list[tuple[int, int]] = []
    digests: bytes = b""


_NOTHING = _Encoded()
_header_fields = attrgetter(*SavedHeader.__struct_fields__)


def _encoded(session: Session, before: _Encoded) -> _Encoded:
    """The parts as they are now, made of those ``before``."""
    line, header = session.header, before.header
    if line is not before.line:
        header = None if line is None else SavedHeader(*_header_fields(line))
    recent = session.order.recent
    if not recent:
        return _Encoded(line, header)
    if before.last is recent[-1]:
        return before if line is before.line else replace(before, line=line, header=header)
    fresh: list[tuple[int, int]] = []
    for entry in reversed(recent):
        if entry is before.last:
            break
        fresh.append(entry)
    fresh.reverse()
    known = len(recent) - len(fresh)
    digests = struct.pack(f"<{len(fresh)}Q", *(digest for _, digest in fresh))
    return _Encoded(
        line,
        header,
        recent[-1],
        _runs(before, known, fresh),
        before.digests[-8 * known :] + digests if known else digests,
    )


def _save_totals(session: Session) -> _Totals:
    totals = session.totals
    return _Totals(
        totals.generation,
        totals.cut,
        totals.counts,
        _save_usage(totals.usage),
        _save_usage(totals.compaction_usage),
    )


def _save_usage(usage: Usage) -> _Usage | None:
    return None if usage == NO_USAGE else msgspec.structs.astuple(usage)


def _load_usage(saved: _Usage | None) -> Usage:
    return NO_USAGE if saved is None else Usage(*saved)


def _runs(before: _Encoded, known: int, fresh: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The last ``known`` seqs of those ``before`` and the seqs of ``fresh`` lines, in order, as
    (first, count) of neighbours."""
    runs = before.runs.copy()
    gone = len(before.digests) // 8 - known
    while gone:
        first, count = runs[0]
        if count > gone:
            runs[0] = (first + gone, count - gone)
            break
        del runs[0]
        gone -= count
    for seq, _ in fresh:
        if runs and runs[-1][0] + runs[-1][1] == seq:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((seq, 1))
    return runs


def session_of(head: Head) -> Session:
    """A session with what the head holds; the segments are still to come."""
    session = Session(head.session, head.epoch)
    for name in _SAME:
        setattr(session, name, getattr(head, name))
    if head.header is not None:
        fields = msgspec.structs.asdict(head.header)
        session.header = Header(raw=NULL, **fields)
    order, turns, inbox = session.order, session.turns, session.inbox
    order.next_seq, order.start, order.gaps = head.next_seq, head.start, head.gaps
    order.recent.extend(_load_digests(head))
    session.surface.generation = head.generation
    turns.open_turn, turns.open_step, turns.closed = head.open_turn, head.open_step, head.closed
    turns.records = {turn.number: turn for turn in head.turns}
    inbox.next_turn, inbox.next_step = head.next_turn_inbox, head.next_step_inbox
    inbox.claims = inbox.claims.update(dict.fromkeys(head.claims))
    _load_totals(session, head)
    return session


def _load_digests(head: Head) -> Iterator[tuple[int, int]]:
    count = sum(count for _, count in head.digest_seqs)
    digests = struct.unpack(f"<{count}Q", head.digests)  # refuses another count
    seqs = [seq for first, run in head.digest_seqs for seq in range(first, first + run)]
    return zip(seqs, digests, strict=True)


def _load_totals(session: Session, head: Head) -> None:
    totals, saved = session.totals, head.totals
    totals.generation, totals.cut, totals.counts = saved.generation, saved.cut, saved.counts
    totals.usage = _load_usage(saved.usage)
    totals.compaction_usage = _load_usage(saved.compaction_usage)
    if not len(head.readers):
        _load_times(session, saved)
    load_readers(session, head.readers)


def _load_times(session: Session, saved: _Totals) -> None:
    """Times as programs without readers kept them."""
    statistics, clock = session.readers.enter(STATISTICS), saved.open_step
    statistics.times.llm_ms, statistics.times.tool_ms = saved.model_ms, saved.tool_ms
    if clock is not None and clock.is_open:
        statistics.clock = Clock(True, clock.turn, clock.step, clock.started)
    statistics.pending = Map(saved.pending)
