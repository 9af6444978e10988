"""The surface marker (``surfaceOp``) and the source list (``sourceEventSeqs``) of an envelope.

projection.md §2: either spelling of a replace, never a mix; seqs by value; ranges kept as ranges.
What is present and wrong is a value (:class:`BadMarker`, :class:`BadSources`): which fault of an
event comes first is the fold's to say (§4).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from operators.events import (
    APPEND,
    BadMarker,
    BadSources,
    Marker,
    Replace,
    Shape,
    SourceList,
    Sources,
)

from .jsontree import Node
from .typed import Seq, Wire, integer


class ReplaceOp(Wire, forbid_unknown_fields=True):
    op: Literal["replace"]
    start: Seq | UnsetType = UNSET
    end: Seq | UnsetType = UNSET
    startSeq: Seq | UnsetType = UNSET  # noqa: N815
    endSeq: Seq | UnsetType = UNSET  # noqa: N815


SurfaceOp: TypeAlias = Literal["append"] | ReplaceOp | UnsetType

# Not `tuple[Seq, Seq]`: msgspec (0.20 to 0.23) crashes in the garbage collector on a decoder for a
# list of "bounded integer or fixed tuple".
SourceSeqs: TypeAlias = list[Seq | list[Seq]] | UnsetType

_START: Final = Shape.REPLACE_START.value
_START_SEQ: Final = Shape.REPLACE_START_SEQ.value
_RANGES: Final = Shape.SOURCES_RANGES.value
NO_SOURCES: Final = Sources((), 0, 0, -1)
_INVALID: Final = BadMarker("surfaceop-invalid", 'surfaceOp is neither "append" nor a replace')
_INVALID_REPLACE: Final = BadMarker(
    "surfaceop-invalid-replace",
    'surfaceOp must hold op "replace" and two seqs, start and end or startSeq and endSeq',
)
_NO_ARRAY: Final = BadSources("sources-not-array", "sourceEventSeqs is not an array")
_ELEMENT: Final = BadSources(
    "sources-element", "sourceEventSeqs holds an element that is neither a seq nor [first, last]"
)
_DUPLICATE: Final = BadSources("sources-duplicate", "sourceEventSeqs covers a seq twice")


def marker_of(op: SurfaceOp) -> tuple[Marker, int]:
    """The marker of a well-typed ``surfaceOp``, and the shape bit of a replace's spelling."""
    if op is UNSET:
        return None, 0
    if op == "append":
        return APPEND, 0
    if op.startSeq is UNSET and op.endSeq is UNSET:
        if op.start is not UNSET and op.end is not UNSET:
            return Replace(op.start, op.end), _START
    elif op.start is UNSET and op.end is UNSET and not (op.startSeq is UNSET or op.endSeq is UNSET):
        return Replace(op.startSeq, op.endSeq), _START_SEQ
    return _INVALID_REPLACE, 0


def read_marker(node: Node | None) -> SurfaceOp | BadMarker:
    """A ``surfaceOp`` of any kind, as one that is well typed or as what is wrong with it."""
    if node is None:
        return UNSET
    op = node.value
    if op == "append" and type(op) is str:
        return "append"
    if type(op) is not dict:
        return _INVALID
    if type(op.get("op")) is str and op["op"] == "replace":
        seqs = {key: _seq(value) for key, value in op.items() if key != "op"}
        for start, end in (("start", "end"), ("startSeq", "endSeq")):
            if seqs.keys() == {start, end} and None not in seqs.values():
                return ReplaceOp("replace", **seqs)  # type: ignore[arg-type]
    return _INVALID_REPLACE


def sources_of(seqs: SourceSeqs) -> tuple[SourceList, int]:
    """The source list of a well-typed ``sourceEventSeqs``, and its shape bit; O(k log k).

    A list that is one run of consecutive seqs (an answer's chunks) becomes one range.
    """
    if seqs is UNSET:
        return None, 0
    if not seqs:
        return NO_SOURCES, 0
    count = len(seqs)
    plain: list[int] = seqs  # type: ignore[assignment]  # until an element proves to be a range
    first = plain[0]
    if count == 1 and type(first) is int:
        return Sources(((first, first),), 1, first, first), 0
    try:
        if plain[-1] - first == count - 1 and plain == list(range(first, first + count)):
            return Sources(((first, plain[-1]),), count, first, plain[-1]), 0
        if len(set(plain)) != count:
            return _DUPLICATE, 0
    except TypeError:  # a range is a list: it has no difference and no hash
        return _ranges(seqs)
    pairs = tuple(zip(plain, plain, strict=True))
    return Sources(pairs, count, min(plain), max(plain)), 0


def _ranges(seqs: list[Seq | list[Seq]]) -> tuple[SourceList, int]:
    ranges = []
    for element in seqs:
        if isinstance(element, int):
            ranges.append((element, element))
        elif len(element) == 2 and element[0] <= element[1]:
            ranges.append((element[0], element[1]))
        else:
            return _ELEMENT, 0
    ordered = sorted(ranges)
    if any(left[1] >= right[0] for left, right in pairwise(ordered)):
        return _DUPLICATE, 0
    count = sum(last - first + 1 for first, last in ranges)
    return Sources(tuple(ranges), count, ordered[0][0], ordered[-1][1]), _RANGES


def read_sources(node: Node | None) -> SourceSeqs | BadSources:
    """A ``sourceEventSeqs`` of any kind, as one that is well typed or as what is wrong with it."""
    if node is None:
        return UNSET
    if type(node.value) is not list:
        return _NO_ARRAY
    seqs: list[int | list[int]] = []
    for element in node.value:
        if type(element) is list:
            pair = [_seq(value) for value in element]
            if len(pair) != 2 or pair[0] is None or pair[1] is None or pair[0] > pair[1]:
                return _ELEMENT
            seqs.append([pair[0], pair[1]])
        else:
            seq = _seq(element)
            if seq is None:
                return _ELEMENT
            seqs.append(seq)
    return seqs


def _seq(value: Any) -> int | None:
    seq = integer(value)
    return seq if seq is not None and seq >= 0 else None
