"""The head of a snapshot: everything of a session that is small and saved with every batch."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from msgspec import Raw

from operators.events import NULL, Header, Usage
from operators.rooms import Parked
from operators.session import Session
from operators.totals import NO_USAGE, Clock
from operators.turns import Turn

VERSION = 2  #: the newest that is read
_PLAIN = 1  #: without parking: programs that know nothing of it must not fold on what is parked


class _Header(msgspec.Struct, frozen=True, omit_defaults=True):
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


class _Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """``operators.totals.Totals``; usage as its fields in order."""

    generation: int = 0
    cut: int = 0
    counts: dict[str, int] = {}
    usage: _Usage | None = None
    compaction_usage: _Usage | None = None
    model_ms: int = 0
    tool_ms: int = 0
    open_step: Clock | None = None
    pending: dict[str, int | None] = {}


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """What says nothing is left out. Fields are only ever added, with a default; anything else is a
    new version. A snapshot is written as the oldest version that says all of it."""

    version: int
    session: str | None
    next_seq: int
    epoch: int = 0
    start: int | None = None
    gaps: list[tuple[int, int]] = []
    digest_seqs: list[tuple[int, int]] = []
    digests: bytes = b""
    header: _Header | None = None
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
    inline: dict[str, Raw] = {}
    parked: Parked | None = None
    cleared: int = -1


#: Fields that stand under the same name in the session.
_SAME = (
    *("as_of_seq", "last_time", "shapes", "quality", "title", "provider", "model"),
    *("context_window", "prompt_tokens", "last_end", "seed_cut", "inherited_until"),
    *("parked", "cleared"),
)


def head_of(session: Session, further: int) -> Head:
    """``further``: records of the snapshot that go on with a longer one."""
    order, turns, inbox = session.order, session.turns, session.inbox
    digests = [digest for _, digest in order.recent]
    plain = session.parked is None and session.cleared < 0
    return Head(
        _PLAIN if plain else VERSION,
        session.session,
        order.next_seq,
        epoch=session.epoch,
        start=order.start,
        gaps=order.gaps,
        digest_seqs=_runs([seq for seq, _ in order.recent]),
        digests=struct.pack(f"<{len(digests)}Q", *digests),
        header=_save_header(session.header),
        generation=session.surface.generation,
        open_turn=turns.open_turn,
        open_step=turns.open_step,
        closed=turns.closed,
        turns=[msgspec.structs.replace(turn, steps=[]) for turn in turns],
        next_turn_inbox=inbox.next_turn,
        next_step_inbox=inbox.next_step,
        claims=sorted(inbox.claims),
        totals=_save_totals(session),
        apart=len(session.segments.apart),
        further=further,
        inline={name: Raw(value) for name, value in sorted(session.segments.inline.items())},
        **{name: getattr(session, name) for name in _SAME},
    )


def _save_header(header: Header | None) -> _Header | None:
    if header is None:
        return None
    return _Header(*(getattr(header, name) for name in _Header.__struct_fields__))


def _save_totals(session: Session) -> _Totals:
    totals = session.totals
    return _Totals(
        totals.generation,
        totals.cut,
        totals.counts,
        _save_usage(totals.usage),
        _save_usage(totals.compaction_usage),
        totals.model_ms,
        totals.tool_ms,
        totals.open_step if totals.open_step.is_open else None,
        dict(totals.pending),
    )


def _save_usage(usage: Usage) -> _Usage | None:
    return None if usage == NO_USAGE else msgspec.structs.astuple(usage)


def _load_usage(saved: _Usage | None) -> Usage:
    return NO_USAGE if saved is None else Usage(*saved)


def _runs(seqs: list[int]) -> list[tuple[int, int]]:
    """Seqs as (first, count) of neighbours, in order."""
    runs: list[tuple[int, int]] = []
    for seq in seqs:
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
    _load_totals(session, head.totals)
    return session


def _load_digests(head: Head) -> Iterator[tuple[int, int]]:
    count = sum(count for _, count in head.digest_seqs)
    digests = struct.unpack(f"<{count}Q", head.digests)  # refuses another count
    seqs = [seq for first, run in head.digest_seqs for seq in range(first, first + run)]
    return zip(seqs, digests, strict=True)


def _load_totals(session: Session, saved: _Totals) -> None:
    totals = session.totals
    totals.generation, totals.cut, totals.counts = saved.generation, saved.cut, saved.counts
    totals.usage = _load_usage(saved.usage)
    totals.compaction_usage = _load_usage(saved.compaction_usage)
    totals.model_ms, totals.tool_ms = saved.model_ms, saved.tool_ms
    totals.open_step = saved.open_step or Clock()
    totals.pending = totals.pending.update(saved.pending)
