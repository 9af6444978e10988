"""Law 9: pages walked backwards, with what was published since the first one applied by key, are
the whole history, no row twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.changes import SurfaceChange, TranscriptRow
from operators.events import Event, Fault, Line
from operators.history import LogIndex, RowsPage, events_page, events_pages, rows_page
from operators.session import Session
from tests.laws.folding import SESSION, at_once, one_by_one, read
from tests.laws.reader import Reader, encoded
from tests.strategies import any_logs


def index_of(lines: list[Line]) -> LogIndex:
    """The index of the lines that took a seq, as the fold does: redeliveries and late ones not."""
    index, next_seq = LogIndex(), 0
    for line in lines:
        if isinstance(line, Event) and line.seq + line.count > next_seq:
            index.add(line)
            next_seq = line.seq + line.count
        elif isinstance(line, Fault) and line.seq is not None and line.seq >= next_seq:
            index.occupy(line.seq)
            next_seq = line.seq + 1
    return index


@given(any_logs, st.integers(1, 4))
def test_events_pages_tile(log: list[bytes], limit: int) -> None:
    """Every seq of the log is on exactly one page, and each page keeps to its budget."""
    index = index_of(read(log))
    held = [seq for span in index.spans for seq in range(span.first, span.last + 1)]
    seen: list[int] = []
    for page in events_pages(index, None, limit):
        if page.first is None or page.last is None:
            assert page.count == 0
            continue
        part = [seq for seq in held if page.first <= seq <= page.last]
        assert page.count == len(part)
        spent = [m for m in index.messages if page.first <= m.seq <= page.last]
        assert page.append_messages == len(spent)
        seen[:0] = part
    assert seen == held


@given(any_logs, st.integers(1, 4), st.integers(1, 3000), st.data())
def test_pages_tile(log: list[bytes], limit: int, max_bytes: int, data: st.DataObject) -> None:
    lines = read(log)
    cut = data.draw(st.integers(0, len(lines)), label="first page at")
    state, published = one_by_one(lines[:cut], Session(SESSION))
    reader = Reader().apply(published)
    rows = sorted(reader.rows(), key=lambda row: row.anchor_seq)
    pages = walk(reader.rows(), index_of(lines[:cut]), limit, max_bytes)
    keys = [row.key for page in pages for row in page.rows]
    assert len(keys) == len(set(keys))
    assert sorted(keys) == sorted(row.key for row in rows)
    # A client that loads the pages and applies what is published from the first one on.
    client = Reader()
    client.by_key = {row.key: row for page in pages for row in page.rows}
    _, since = one_by_one(lines[cut:], state)
    client.apply(change for change in since if not isinstance(change, SurfaceChange))
    assert encoded(client.rows()) == encoded(at_once(lines).rows)


def walk(rows: list[TranscriptRow], index: LogIndex, limit: int, max_bytes: int) -> list[RowsPage]:
    """The rows pages from the newest backwards, as a gateway serves them."""
    pages: list[RowsPage] = []
    before = None
    while True:
        page = rows_page(rows, events_page(index, before, limit), max_bytes)
        pages.append(page)
        if not page.has_more:
            return pages
        assert before is None or page.first < before
        before = page.first
