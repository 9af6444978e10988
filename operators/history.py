"""History pages and classification, pure (projection.md §4 last paragraph, §8).

Whoever holds a log's index (:class:`LogIndex`, or the same two sequences out of a database) walks
it backwards: an *events* page is one contiguous raw range, chosen by a budget of messages; a *rows*
page is the rows anchored in that range, chosen by a budget of bytes besides. Both cost what the
page holds plus a binary search, never the log's length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec
from msgspec import Raw, Struct

from .changes import SessionOverview, TranscriptRow
from .events import Append, AssistantMessage, Event, Sources, UserMessage

MAX_MESSAGES = 50  #: default budget of an events page
MAX_BYTES = 256 * 1024  #: default budget of a rows page, in bytes of JSON
BODY_LIMIT = 16 * 1024  #: a body with more bytes of JSON is replaced by a reference
PREVIEW = 512  #: code points of a replaced body that stay
MAX_CLASSIFIED = 1 << 27  #: positions; a gap may name seqs up to 2^53, a string must fit in memory

_seq = attrgetter("seq")
_anchor = attrgetter("anchor_seq")
_last = attrgetter("last")


class Message(Struct, frozen=True):
    """A message that spends budget: its seq, and the lowest seq a page that ends with it reaches
    down to (the smaller of its own seq and its smallest source).
    """

    seq: int
    cut: int


class Span(Struct, frozen=True):
    """Consecutive seqs that the log holds, both ends inclusive."""

    first: int
    last: int


class Page(Struct, frozen=True):
    """One events page, named as in ``outputs.md``. ``before`` is exclusive, None the end."""

    before: int | None
    first: int | None
    last: int | None
    count: int
    append_messages: int
    has_more: bool


class RowsPage(Struct, frozen=True):
    """Rows anchored at ``first`` ≤ seq < ``before``, sorted. ``bodies[i]`` is ``rows[i]`` as JSON
    with its large bodies replaced. The next older page is the one before ``first``. The tail page
    (``before`` None) carries the overview whose ``as_of_seq`` the rows are at.
    """

    before: int | None
    first: int
    rows: tuple[TranscriptRow, ...]
    bodies: tuple[Raw, ...]
    has_more: bool
    overview: SessionOverview | None = None


def budgeted(event: Event) -> Message | None:
    """The message of an event that spends budget: an append-origin user or assistant message.
    Replacement copies, tool results, system and developer messages spend none.
    """
    if type(event.body) not in (UserMessage, AssistantMessage) or type(event.marker) is not Append:
        return None
    sources = event.sources
    if type(sources) is Sources and sources.count and sources.lowest < event.seq:
        return Message(event.seq, sources.lowest)
    return Message(event.seq, event.seq)


@dataclass(slots=True)
class LogIndex:
    """What paging needs of a log: the seqs it holds and the messages that spend budget, ascending.

    Grows at its end only; the caller leaves out redeliveries, as the fold does.
    """

    spans: list[Span] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Note an event; of a packed row that overlaps what is there, the new members count."""
        self.occupy(event.seq, event.count)
        message = budgeted(event)
        if message is not None:
            self.messages.append(message)

    def occupy(self, seq: int, count: int = 1) -> None:
        """Note seqs of the raw log; a faulted event takes its seq too and spends no budget."""
        last = seq + count - 1
        if self.spans and seq <= self.spans[-1].last + 1:
            tail = self.spans[-1]
            if last > tail.last:
                self.spans[-1] = Span(tail.first, last)
        else:
            self.spans.append(Span(seq, last))


def events_page(index: LogIndex, before: int | None = None, limit: int = MAX_MESSAGES) -> Page:
    """The newest events with seq < ``before`` that cover ``limit`` messages (projection.md §8)."""
    if limit < 1:
        raise ValueError("a page covers at least one message")
    messages = index.messages
    end = len(messages) if before is None else bisect_left(messages, before, key=_seq)
    cut = messages[end - limit].cut if end >= limit else 0
    first, last, count = _held(index.spans, cut, before)
    spent = 0
    if first is not None:
        spent = end - bisect_left(messages, cut, hi=end, key=_seq)
    return Page(before, first, last, count, spent, cut > 0)


def _held(
    spans: Sequence[Span], low: int, before: int | None
) -> tuple[int | None, int | None, int]:
    """First, last and number of the seqs held in ``[low, before)``."""
    first = last = None
    count = 0
    at = len(spans) if before is None else bisect_left(spans, before, key=attrgetter("first"))
    for span in reversed(spans[bisect_left(spans, low, hi=at, key=_last) : at]):
        top = span.last if before is None else min(span.last, before - 1)
        first = max(span.first, low)
        last = top if last is None else last
        count += top - first + 1
    return first, last, count


def events_pages(
    index: LogIndex, before: int | None = None, limit: int = MAX_MESSAGES
) -> Iterator[Page]:
    """Pages from the newest (or from ``before``) backwards, until one has nothing before it."""
    page = events_page(index, before, limit)
    yield page
    while page.has_more and page.first is not None:
        page = events_page(index, page.first, limit)
        yield page


def rows_page(
    rows: Sequence[TranscriptRow],
    page: Page,
    max_bytes: int = MAX_BYTES,
    overview: SessionOverview | None = None,
) -> RowsPage:
    """The rows of an events page: ``rows`` sorted by anchor, the newest first within the budget.

    Rows with one anchor seq stay together (a cursor is a seq), so a page is shorter than its range
    where the budget ends, but always holds the newest group; it never is empty for the budget's
    sake.
    """
    before = page.before
    low = page.first if page.has_more and page.first is not None else 0
    end = len(rows) if before is None else bisect_left(rows, before, key=_anchor)
    taken = end
    bodies: list[Raw] = []
    spent = 0
    while taken and rows[taken - 1].anchor_seq >= low:
        start = taken - 1
        while start and rows[start - 1].anchor_seq == rows[taken - 1].anchor_seq:
            start -= 1
        group = [bounded(row) for row in rows[start:taken]]
        spent += sum(map(len, map(bytes, group)))
        if bodies and spent > max_bytes:
            low = rows[taken].anchor_seq
            break
        bodies[:0] = group
        taken = start
    more = page.has_more or taken > 0
    tail = overview if before is None else None
    return RowsPage(before, low, tuple(rows[taken:end]), tuple(bodies), more, tail)


def bounded(row: TranscriptRow, limit: int = BODY_LIMIT) -> Raw:
    """A row as JSON; each field of its data over ``limit`` bytes becomes ``{ref, bytes, preview}``.

    ``ref`` is the row's key, a slash and the field's path: what a gateway serves the whole by.
    """
    whole = msgspec.json.encode(row)
    if len(whole) <= limit or row.data is None:
        return Raw(whole)
    record = {name: getattr(row, name) for name in row.__struct_fields__}
    record["data"] = _shorten(row.data, row.key, limit)
    return Raw(msgspec.json.encode(record))


def _shorten(data: Struct, ref: str, limit: int) -> dict[str, object]:
    """The fields of a row's data, large ones replaced. Opaque JSON is not parsed, so the preview
    of a ``json`` field is JSON text, that of a string field its text.
    """
    fields: dict[str, object] = {}
    for name in data.__struct_fields__:
        value = getattr(data, name)
        path = f"{ref}/{name}"
        if isinstance(value, Struct):  # a joined command's marker: its fields are the bodies
            fields[name] = _shorten(value, path, limit)
            continue
        body = msgspec.json.encode(value)
        if len(body) <= limit:
            fields[name] = Raw(body)
            continue
        text = value if isinstance(value, str) else body.decode("utf-8", "replace")
        fields[name] = {"ref": path, "bytes": len(body), "preview": text[:PREVIEW]}
    return fields


def classify(
    first: int, next_seq: int, current: Iterable[int], shadowed: Iterable[int]
) -> str | None:
    """One character per seq from ``first`` to before ``next_seq``: ``C`` a node now, ``S`` was one,
    ``-`` log-only, faulted or unseen. None where that would be more than 2^27 characters.
    """
    if next_seq - first > MAX_CLASSIFIED:
        return None
    marks = bytearray(b"-") * max(next_seq - first, 0)
    for seq in shadowed:
        marks[seq - first] = 83  # S
    for seq in current:
        marks[seq - first] = 67  # C
    return marks.decode("ascii")
