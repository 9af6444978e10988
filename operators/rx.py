"""RxPY operators over the folds; the only room here that knows Rx.

Two families. *Batch level*, for pipelines: one item is one `Batch`, and `map_parts` maps its parts;
state never lives in an operator. *Event level*, for graphs of one's own: `fold_session` and what
selects from it. They lift the folds of ``session.py`` and add nothing (a law in the tests).

An operator of the event level holds its session's state per subscription: two subscribers fold
twice, unless the graph is shared (``ops.share()``). ::

    lines.pipe(fold_transcript("my-session")).subscribe(print)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias, TypeVar, cast

import reactivex
from msgspec import Struct
from reactivex import GroupedObservable, Observable
from reactivex import operators as ops

from .changes import Change, PartialText, SurfaceChange, TranscriptRow
from .events import Line
from .session import Session, step

K = TypeVar("K")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

_Folded: TypeAlias = tuple[Session, tuple[Change, ...]]

# --- batch level ----------------------------------------------------------------------------------


class Batch(Struct, Generic[C, A], frozen=True):
    """Parts that travel as one; ``cause`` is where they came from, carried along untouched."""

    cause: C
    parts: Mapping[int, A]


def map_parts(
    function: Callable[[int, A], B],
) -> Callable[[Observable[Batch[C, A]]], Observable[Batch[C, B]]]:
    """Apply ``function(number, part)`` to each part. It must not raise for what data may hold: an
    exception ends the stream."""

    def apply(batch: Batch[C, A]) -> Batch[C, B]:
        return Batch(batch.cause, {n: function(n, part) for n, part in batch.parts.items()})

    return ops.map(apply)


# --- event level ----------------------------------------------------------------------------------


def fold_session(
    session: str | None = None, *, epoch: int = 0, strict: bool = False
) -> Callable[[Observable[Line]], Observable[Change]]:
    """Lines of one session in, its changes out, in publishing order."""

    def lift(lines: Observable[Line]) -> Observable[Change]:
        def advance(folded: _Folded, line: Line) -> _Folded:
            return step(folded[0], line)

        start: _Folded = (Session(session, epoch, strict), ())
        return lines.pipe(ops.scan(advance, start), ops.concat_map(_changes))

    return lift


def fold_surface(
    session: str | None = None, *, strict: bool = False
) -> Callable[[Observable[Line]], Observable[SurfaceChange]]:
    """What the model is sent, step by step (projection.md §4)."""

    def lift(lines: Observable[Line]) -> Observable[SurfaceChange]:
        return lines.pipe(fold_session(session, strict=strict), _only(SurfaceChange))

    return lift


def fold_transcript(
    session: str | None = None, *, partials: bool = True, strict: bool = False
) -> Callable[[Observable[Line]], Observable[TranscriptRow | PartialText]]:
    """The rows a person reads as keyed upserts, and the text between them as it streams (§5);
    without ``partials`` the rows alone."""

    def lift(lines: Observable[Line]) -> Observable[TranscriptRow | PartialText]:
        changes = lines.pipe(fold_session(session, strict=strict))
        wanted = (TranscriptRow, PartialText) if partials else (TranscriptRow,)
        return changes.pipe(_only(*wanted))

    return lift


def pair_tool_calls(
    session: str | None = None, *, strict: bool = False
) -> Callable[[Observable[Line]], Observable[TranscriptRow]]:
    """Tool rows alone: each call with its result, nested calls and announcement (§5.2)."""
    return _rows(session, strict, ("tool",))


def correlate_compactions(
    session: str | None = None, *, strict: bool = False
) -> Callable[[Observable[Line]], Observable[TranscriptRow]]:
    """Commands and compaction markers: each command joined to the marker that is proven to be its
    own, and the markers that no command owns (§§5.3, 5.4)."""
    return _rows(session, strict, ("command", "compaction"))


def per_session(
    key: Callable[[A], K], graph: Callable[[K], Callable[[Observable[A]], Observable[B]]]
) -> Callable[[Observable[A]], Observable[B]]:
    """One ``graph(key)`` per session, their outputs merged in the order they arise.

    A session's part is kept for as long as the subscription: for a notebook or a live view, not
    for a pipeline (there, batches and a state store)."""

    def one(group: GroupedObservable[K, A]) -> Observable[B]:
        return group.pipe(graph(group.key))

    def lift(source: Observable[A]) -> Observable[B]:
        return source.pipe(ops.group_by(key), ops.flat_map(one))

    return lift


def _changes(folded: _Folded) -> Observable[Change]:
    return reactivex.from_iterable(folded[1])


def _rows(
    session: str | None, strict: bool, kinds: tuple[str, ...]
) -> Callable[[Observable[Line]], Observable[TranscriptRow]]:
    def wanted(row: TranscriptRow) -> bool:
        return row.kind in kinds

    def lift(lines: Observable[Line]) -> Observable[TranscriptRow]:
        rows = lines.pipe(fold_session(session, strict=strict), _only(TranscriptRow))
        return rows.pipe(ops.filter(wanted))

    return lift


def _only(*types: type[B]) -> Callable[[Observable[Change]], Observable[B]]:
    """Changes of the given types; the cast is what the filter proves."""

    def lift(changes: Observable[Change]) -> Observable[B]:
        return cast(Observable[B], changes.pipe(ops.filter(lambda it: isinstance(it, types))))

    return lift
