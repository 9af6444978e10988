"""A session's state as bytes: a head and segments, versioned (streams.md §1, topic ``state``).

The head (segment ``""``) is JSON and holds everything small; it is saved with every batch. Longer
things are cut into segments of neighbouring seqs: small ones ride inside the head until it would
grow past ``INLINE`` bytes, then the largest are saved apart. A segment is saved again only when
something in it changed, so what a batch saves does not grow with the session.

Opaque JSON is kept to the byte (``opaque.py``), long records are cut (``snapshot_split.py``).
Indexes are not saved; ``load`` builds them from the records.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from immutables import Map
from msgspec import Raw

from operators.rooms import Rooms, Segments
from operators.session import Session
from operators.steps import Step
from operators.tools import Announcement

from .snapshot_head import VERSION, Head, head_of, session_of
from .snapshot_parts import load_steps, load_surface, pieces_of, save_steps, save_surface
from .snapshot_readers import index_readers
from .snapshot_split import join, split
from .snapshot_tables import MARKS, TABLES

__all__ = ["HEAD", "SnapshotError", "load", "names", "save"]

HEAD = ""
INLINE = 4096  #: bytes of segments inside the head; beyond it the largest are saved apart

#: What decoding and joining damaged parts can raise.
_UNREADABLE = (
    *(LookupError, ValueError, TypeError, ArithmeticError),
    *(msgspec.MsgspecError, struct.error),
)

_encode = msgspec.json.Encoder().encode


class SnapshotError(ValueError):
    """A snapshot that cannot be read; the state has to be folded again from the events."""


_head_decoder = msgspec.json.Decoder(Head)


# --- saving ---------------------------------------------------------------------------------------


def save(session: Session) -> dict[str, bytes | None]:
    """What changed since the last save, by segment name; None is a segment that is gone.

    The head is always there. Marks the session saved, so it must be the staged copy whose batch is
    about to be delivered: a failed batch drops it, and the original still knows what it owes."""
    session.steps.rest()
    before = session.segments
    changed, pieces = _changed_segments(session)
    inline, apart, records = _placed(before, changed)
    cut, parts = split(records, before.parts)
    head, encoded = head_of(session, inline, (len(apart), _further(parts)))
    first, parts = split({HEAD: head}, parts)
    session.segments = Segments(inline, apart, pieces, parts, encoded)
    return {**cut, **first} if cut else first


_Records: TypeAlias = dict[str, bytes | None]


def _placed(
    before: Segments, changed: _Records
) -> tuple[Mapping[str, Raw], Map[str, None], _Records]:
    """Where the changed segments go: those in the head, those apart, and what to save of these."""
    apart, records = before.apart, _Records()
    if not changed:
        return before.inline, apart, records
    inline = dict(before.inline)
    for name, value in changed.items():
        if name in apart:
            records[name] = value
            if value is None:
                apart = apart.delete(name)
        elif name[0] == "x" and value is not None:  # a sealed piece never changes
            records[name] = value
            apart = apart.set(name, None)
        elif value is not None:
            inline[name] = Raw(value)
        else:
            inline.pop(name, None)
    size = sum(map(len, inline.values()))
    if size > INLINE:
        for name in sorted(inline, key=lambda held: (-len(inline[held]), held)):
            if size <= INLINE // 2:
                break
            value = records[name] = bytes(inline.pop(name))
            size -= len(value)
            apart = apart.set(name, None)
    if inline.keys() - before.inline.keys():
        inline = dict(sorted(inline.items()))
    return inline, apart, records


def _further(parts: Mapping[str, int]) -> int:
    """How many records there are besides the first ones, the head's own aside."""
    return sum(count for name, count in parts.items() if name != HEAD)


def names(session: Session) -> frozenset[str]:
    """The names of all records of its last snapshot but the head."""
    segments = session.segments
    further = {f"{name}/{n}" for name, more in segments.parts.items() for n in range(1, more + 1)}
    return frozenset(segments.apart) | further


def _changed_segments(session: Session) -> tuple[_Records, Map[int, frozenset[str]]]:
    """Encoded segments that changed, and the pieces there are now; clears the marks."""
    changed = _Records()
    for room, marks, letters in MARKS:
        if not any(marks(room.peek(session))):
            continue
        for letter in letters:
            kind = TABLES[letter]
            table = kind.own(session)
            for number in table.dirty:
                rows = table.segment(number)
                changed[f"{letter}{number}"] = kind.write(rows) if rows else None
            table.dirty.clear()
    if Rooms.surface.peek(session).dirty:
        for number in session.surface.dirty:
            nodes = session.surface.segments.get(number)
            changed[f"s{number}"] = _encode(save_surface(nodes)) if nodes else None
        session.surface.dirty.clear()
    return changed, _changed_steps(session, changed)


def _changed_steps(session: Session, changed: _Records) -> Map[int, frozenset[str]]:
    table, pieces = session.steps.table, session.segments.pieces
    for number in table.dirty:
        rows = table.segment(number)
        changed[f"p{number}"] = save_steps(rows) if rows else None
        wanted = {name: text for step in rows for name, text in pieces_of(step)}
        held = pieces.get(number, _NONE)
        if held != wanted.keys():
            for name in sorted(held - wanted.keys()):
                changed[name] = None
            for name in sorted(wanted.keys() - held):
                changed[name] = wanted[name].encode("utf-8", "surrogatepass")
            pieces = pieces.set(number, frozenset(wanted))
    table.dirty.clear()
    return pieces


_NONE = frozenset[str]()


# --- loading --------------------------------------------------------------------------------------


def load(session_id: str, segments: Mapping[str, bytes]) -> Session:
    """The session whose last saved segments these are.

    Raises :class:`SnapshotError` when they are of a newer version, torn or incomplete."""
    try:
        return _load(session_id, segments)
    except SnapshotError:
        raise
    except _UNREADABLE as error:
        raise SnapshotError(
            f"snapshot of session {session_id!r} cannot be read: {error}"
        ) from error


def _load(session_id: str, records: Mapping[str, bytes]) -> Session:
    segments, parts = join(records)
    version = msgspec.json.decode(segments[HEAD], type=_Version).version
    if version > VERSION:
        raise SnapshotError(
            f"snapshot of session {session_id!r} is version {version}, this program reads up to "
            f"{VERSION}: run the newer program, or delete the state to fold it again"
        )
    head = _head_decoder.decode(segments[HEAD])
    apart = [name for name in segments if name != HEAD]
    found, counted = (len(apart), _further(parts)), (head.apart, head.further)
    if found != counted:
        raise SnapshotError(
            f"snapshot of session {session_id!r} has {found[0]} segments and {found[1]} further "
            f"parts where its head counts {counted[0]} and {counted[1]}"
        )
    session = session_of(head)
    inline = {name: bytes(value) for name, value in sorted(head.inline.items())}
    for name, value in sorted({**inline, **segments}.items()):
        if name != HEAD and name[0] != "x":
            _load_segment(session, name, value, segments)
    _index(session)
    kept = Segments()
    session.segments = Segments(
        {name: Raw(value) for name, value in inline.items()},  # its own, not a piece of the head
        kept.apart.update(dict.fromkeys(apart)),
        kept.pieces.update(_pieces(apart)),
        parts,
    )
    return session


def _pieces(apart: list[str]) -> dict[int, frozenset[str]]:
    """The names of sealed pieces by the segment of their step."""
    held: dict[int, set[str]] = {}
    for name in apart:
        if name[0] == "x":
            held.setdefault(int(name[1:].split(".")[0]), set()).add(name)
    return {number: frozenset(names) for number, names in held.items()}


class _Version(msgspec.Struct):
    version: int


def _load_segment(session: Session, name: str, value: bytes, all_: Mapping[str, bytes]) -> None:
    letter, number = name[0], int(name[1:])
    if letter == "s":
        load_surface(session.surface, number, value)
    elif letter == "p":
        for step in load_steps(value, all_):
            session.steps.table.rows = session.steps.table.rows.set(step.key, step)
    else:
        kind = TABLES[letter]
        table = kind.own(session)
        table.rows = table.rows.update((row.key, row) for row in kind.read(value))


def _index(session: Session) -> None:
    """Everything that can be looked up, from the records, in log order."""
    _index_steps(session)
    tools = session.tools
    for key in sorted(tools.table):
        tool = tools.table[key]
        tools.by_id = tools.by_id.set(tool.call_id, (*tools.by_id.get(tool.call_id, ()), key))
        if tool.call_seq is not None and not tool.logged:
            held = tools.unpaired.get(tool.call_id, ())
            tools.unpaired = tools.unpaired.set(tool.call_id, (*held, key))
    tools.nested.index()
    for key in sorted(session.retries.table):
        chain = session.retries.table[key]
        session.retries.by_id = session.retries.by_id.set(chain.retry_id, key)
    session.compactions.index()
    session.commands.index()
    index_readers(session)


def _index_steps(session: Session) -> None:
    tools, steps = session.tools, session.steps
    said: list[tuple[int, str, Step]] = []
    for key in sorted(steps.table):
        step = steps.table[key]
        steps.index = steps.index.set((step.turn, step.step), key)
        session.turns.records[step.turn].steps.append(key)
        said += [(seq, call_id, step) for call_id, seq in step.announces]
    for seq, call_id, step in sorted(said, key=lambda entry: entry[0]):
        held = tools.announced.get(call_id, ())
        said_here = Announcement(seq, step.turn, step.step)
        tools.announced = tools.announced.set(call_id, (*held, said_here))
