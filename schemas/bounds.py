"""Changes too large for a topic, made to fit without losing what a reader needs (streams.md §2).

Sizes are those of the encoded value, in bytes. The same change and limit always give the same
result, so every runner publishes the same bytes.

* A row: its largest texts are cut to their first 4096 code points (opaque JSON becomes a JSON
  string of them), the largest first and only as many as needed, each listed in ``truncated`` by
  its path in ``data`` (``content``, ``sub_calls[2].content``) with its whole length. Texts are not
  enough when a list has too many members: then the list keeps those first ones that fit.
* A surface change: ``message`` becomes a JSON string, which no model message is, of its first 4096
  code points; the whole stands in the events at ``seq``. If that is not enough, ``shadowed`` and
  ``targets`` are left out and ``partial`` says that the change alone does not tell them.
* A partial: ``text`` is cut; the next frame's offset shows the gap and the reader takes the row.
* An overview: its texts and the names of its counts are cut, counts of one name added up; if that
  is not enough, the counts by end reason are one, ``turns_other``, and then the instructions and
  the routes are those first ones that fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, overload

import msgspec
from msgspec import Raw, Struct, structs

from operators.changes import (
    Change,
    PartialText,
    SessionOverview,
    SurfaceChange,
    TranscriptRow,
    Truncated,
)

from .encoder import utf8
from .outbound import encode

CODE_POINTS = 4096


def encode_within(change: Change, max_bytes: int) -> bytes:
    """:func:`~schemas.outbound.encode`, of the bounded change when the whole is too large."""
    value = encode(change)
    return value if len(value) <= max_bytes else encode(bound(change, max_bytes))


def bound(change: Change, max_bytes: int) -> Change:
    """The change itself if it encodes to at most ``max_bytes``, else its bounded form."""
    if len(encode(change)) <= max_bytes:
        return change
    match change:
        case TranscriptRow():
            return _row(change, max_bytes)
        case SurfaceChange():
            return _surface(change, max_bytes)
        case PartialText():
            return structs.replace(change, text=_cut(change.text))
        case SessionOverview():
            return _overview(change, max_bytes)
        case _:
            return change


def bound_row(row: TranscriptRow, max_row_bytes: int) -> TranscriptRow:
    """:func:`bound` of a row."""
    return row if len(encode(row)) <= max_row_bytes else _row(row, max_row_bytes)


# --- rows -----------------------------------------------------------------------------------------


def _row(row: TranscriptRow, limit: int) -> TranscriptRow:
    # Texts that a cut makes smaller, the largest first (the sort is stable: then in record order).
    texts = [(path, _size(text)) for path, text in _texts(row.data) if _shrinks(text)]
    texts.sort(key=lambda text: -text[1])
    needed = _least(len(texts), lambda n: _fits(_with_cuts(row, texts[:n]), limit))
    bounded = _with_cuts(row, texts[:needed])
    return bounded if _fits(bounded, limit) else _fewer_members(bounded, limit)


def _with_cuts(row: TranscriptRow, texts: list[tuple[str, int]]) -> TranscriptRow:
    sizes = dict(texts)
    order = [path for path, _ in _texts(row.data) if path in sizes]
    return structs.replace(
        row,
        data=_cut_at(row.data, sizes) if texts else row.data,
        truncated=row.truncated + tuple(Truncated(path, sizes[path]) for path in order),
    )


def _fewer_members(row: TranscriptRow, limit: int) -> TranscriptRow:
    """The row with its lists (sub-calls, attempts) shortened at the end, as little as will do."""
    for name, members in _members(row.data):
        whole = len(encode(row)) - len(encode(_shorter(row, name, 0)))
        listed = [t for t in row.truncated if not t.field.startswith(f"{name}[")]
        long = structs.replace(row, truncated=(*listed, Truncated(name, whole)))
        row = _shorter(long, name, _most(len(members), partial(_keeps, long, name, limit)))
    return row


def _keeps(row: TranscriptRow, name: str, limit: int, count: int) -> bool:
    return _fits(_shorter(row, name, count), limit)


def _shorter(row: TranscriptRow, name: str, count: int) -> TranscriptRow:
    assert row.data is not None
    return structs.replace(
        row, data=structs.replace(row.data, **{name: getattr(row.data, name)[:count]})
    )


def _most(top: int, fits: Callable[[int], bool]) -> int:
    """The greatest n in 0 … top that fits, 0 if none does."""
    return top - _least(top, lambda dropped: fits(top - dropped))


def _least(top: int, enough: Callable[[int], bool]) -> int:
    """The least n in 0 … top with which it is enough, top if none is."""
    return min(top, bisect_left(range(top + 1), True, key=enough))


def _fits(change: Change, limit: int) -> bool:
    return len(encode(change)) <= limit


def _texts(value: Struct | None, path: str = "") -> Iterator[tuple[str, str | Raw]]:
    """Every text in ``value``, strings and opaque JSON, with its path, in record order."""
    for name in value.__struct_fields__ if value is not None else ():
        member, here = getattr(value, name), f"{path}{name}"
        if isinstance(member, (str, Raw)):
            yield here, member
        elif isinstance(member, Struct):
            yield from _texts(member, f"{here}.")
        elif isinstance(member, tuple) and member and isinstance(member[0], Struct):
            for index, item in enumerate(member):
                yield from _texts(item, f"{here}[{index}].")


def _cut_at(value: Any, paths: Collection[str], path: str = "") -> Any:
    """``value`` with the texts at ``paths`` cut. One frame a level: nested calls go 256 deep."""
    cut: dict[str, Any] = {}
    for name in value.__struct_fields__:
        member, here = getattr(value, name), f"{path}{name}"
        if isinstance(member, (str, Raw)):
            if here in paths:
                cut[name] = _cut(member)
        elif isinstance(member, Struct):
            cut[name] = _cut_at(member, paths, f"{here}.")
        elif isinstance(member, tuple) and member and isinstance(member[0], Struct):
            items = []
            for index, item in enumerate(member):
                items.append(_cut_at(item, paths, f"{here}[{index}]."))
            cut[name] = tuple(items)
    return structs.replace(value, **cut)


def _members(data: Any) -> list[tuple[str, tuple[Any, ...]]]:
    names = data.__struct_fields__ if isinstance(data, Struct) else ()
    lists = [(name, getattr(data, name)) for name in names]
    return [(name, value) for name, value in lists if isinstance(value, tuple) and value]


# --- the other records ----------------------------------------------------------------------------


def _surface(change: SurfaceChange, limit: int) -> SurfaceChange:
    if change.message is not None and _shrinks(change.message):
        change = structs.replace(change, message=_cut(change.message))
    if _fits(change, limit):
        return change
    return structs.replace(change, shadowed=(), targets=(), partial=True)


def _overview(overview: SessionOverview, limit: int) -> SessionOverview:
    counts: Counter[str] = Counter()
    for name, count in overview.counts.items():
        counts[_cut(name)] += count
    texts = {path for path, text in _texts(overview) if path != "session" and _shrinks(text)}
    overview = structs.replace(_cut_at(overview, texts), counts=dict(counts))
    if _fits(overview, limit):
        return overview
    merged: Counter[str] = Counter()
    for name, count in counts.items():
        merged["turns_other" if name.startswith("turns_") else name] += count
    overview = structs.replace(overview, counts=dict(merged))
    for name in ("instructions", "billed"):
        count = _most(len(getattr(overview, name)), partial(_fits_with, overview, name, limit))
        overview = _with_first(overview, name, count)
    return overview


def _with_first(overview: SessionOverview, name: str, count: int) -> SessionOverview:
    return structs.replace(overview, **{name: getattr(overview, name)[:count]})


def _fits_with(overview: SessionOverview, name: str, limit: int, count: int) -> bool:
    return _fits(_with_first(overview, name, count), limit)


# --- one text -------------------------------------------------------------------------------------


def _size(text: str | Raw) -> int:
    """Bytes of the text as it travels."""
    return len(utf8(text)) if isinstance(text, str) else len(bytes(text))


def _shrinks(text: str | Raw) -> bool:
    return _size(text) > CODE_POINTS and _size(_cut(text)) < _size(text)


@overload
def _cut(text: str) -> str: ...
@overload
def _cut(text: Raw) -> Raw: ...
def _cut(text: str | Raw) -> str | Raw:
    """The first code points of a string; of opaque JSON, a JSON string of them."""
    if isinstance(text, str):
        return text[:CODE_POINTS]
    # Four bytes hold any code point; a last one that was cut in two is not among the first.
    start = bytes(memoryview(text)[: 4 * CODE_POINTS]).decode(errors="ignore")
    return Raw(msgspec.json.encode(start[:CODE_POINTS]))
