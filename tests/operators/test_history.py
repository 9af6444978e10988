"""Pages against the rule read literally, rows within their budget, classification."""

from collections.abc import Sequence
from typing import Any, overload

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from operators import history
from operators.changes import (
    CommandData,
    CompactionData,
    GapData,
    MessageData,
    ToolData,
    TranscriptRow,
)
from operators.events import (
    APPEND,
    AssistantMessage,
    Body,
    Event,
    LogOnly,
    Marker,
    Replace,
    Source,
    Sources,
    SystemMessage,
    UserMessage,
)
from operators.history import LogIndex, Page

USER = UserMessage(Raw(b"{}"), None, Raw(b"[]"), Source())
SYSTEM = SystemMessage(None, None, Raw(b"{}"), None, Raw(b"[]"), Source(), empty=False)


def assistant() -> AssistantMessage:
    fields: dict[str, Any] = dict.fromkeys(AssistantMessage.__struct_fields__)
    fields |= {"message": Raw(b"{}"), "content": Raw(b"[]"), "calls": (), "empty": False}
    return AssistantMessage(**fields)


def event(
    seq: int,
    body: Body = USER,
    marker: Marker = APPEND,
    sources: Sequence[int] = (),
    count: int = 1,
) -> Event:
    cited = None
    if sources:
        ranges = tuple((n, n) for n in sources)
        cited = Sources(ranges, len(sources), min(sources), max(sources))
    return Event(seq, 0, "t", body, marker, cited, count=count)


def index_of(events: Sequence[Event]) -> LogIndex:
    index = LogIndex()
    for item in events:
        index.add(item)
    return index


def literal_page(events: list[Event], before: int | None, limit: int) -> Page:
    """The rule as the specification words it, over the whole log each time."""
    held = [
        seq
        for item in events
        for seq in range(item.seq, item.seq + item.count)
        if before is None or seq < before
    ]
    spending = [
        item
        for item in events
        if isinstance(item.body, UserMessage | AssistantMessage)
        and item.marker == APPEND
        and (before is None or item.seq < before)
    ]
    cut = 0
    if len(spending) >= limit:
        filling = spending[-limit]
        cited = (
            [a for a, _ in filling.sources.ranges] if isinstance(filling.sources, Sources) else []
        )
        cut = min([filling.seq, *cited])
    page = [seq for seq in held if seq >= cut]
    spent = sum(1 for item in spending if item.seq >= cut)
    if not page:
        return Page(before, None, None, 0, 0, cut > 0)
    return Page(before, page[0], page[-1], len(page), spent, cut > 0)


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = []
    seq = draw(st.sampled_from([0, 0, 0, 7]))
    for _ in range(draw(st.integers(0, 25))):
        seq += draw(st.sampled_from([0, 0, 0, 0, 3]))  # a gap now and then
        bodies: list[Body] = [USER, assistant(), LogOnly(), SYSTEM]
        markers: list[Marker] = [APPEND, APPEND, Replace(0, 0)]
        body, marker = draw(st.sampled_from(bodies)), draw(st.sampled_from(markers))
        if isinstance(body, LogOnly):
            events.append(event(seq, body, None, count=draw(st.sampled_from([1, 1, 4]))))
        else:
            cited = draw(st.lists(st.integers(0, seq - 1), max_size=2)) if seq else []
            events.append(event(seq, body, marker, cited))
        seq += events[-1].count
    return events


@given(logs(), st.integers(1, 5), st.none() | st.integers(0, 60))
def test_a_page_is_the_rule_read_literally(
    events: list[Event], limit: int, before: int | None
) -> None:
    assert history.events_page(index_of(events), before, limit) == literal_page(
        events, before, limit
    )


@given(logs(), st.integers(1, 5))
def test_pages_walked_backwards_hold_every_event_once(events: list[Event], limit: int) -> None:
    pages = list(history.events_pages(index_of(events), limit=limit))
    held = [n for item in events for n in range(item.seq, item.seq + item.count)]
    seen: list[int] = []
    for page in reversed(pages):
        if page.first is not None and page.last is not None:
            seen += [n for n in held if page.first <= n <= page.last]
    assert seen == held
    assert sum(page.count for page in pages) == len(held)
    assert [page.has_more for page in pages[:-1]] == [True] * (len(pages) - 1)


def test_the_message_that_fills_the_page_takes_its_sources_with_it() -> None:
    chunks = event(2, LogOnly(), None, count=5)
    log = [event(0), event(1), chunks, event(7, assistant(), APPEND, [2, 6]), event(8)]
    index = index_of(log)
    assert history.events_page(index, limit=2) == Page(None, 2, 8, 7, 2, has_more=True)
    # Its sources reach into an earlier page's messages: they come along, budget or not.
    index = index_of([event(0), event(1), event(2), event(3, assistant(), APPEND, [1])])
    assert history.events_page(index, limit=1) == Page(None, 1, 3, 3, 3, has_more=True)
    # Reaching event 0 ends the walk.
    index = index_of([event(0), event(1), event(2, assistant(), APPEND, [0])])
    assert history.events_page(index, limit=1) == Page(None, 0, 2, 3, 3, has_more=False)


def test_before_the_first_event_and_in_an_empty_log_there_is_an_empty_page() -> None:
    nothing = Page(0, None, None, 0, 0, has_more=False)
    assert history.events_page(index_of([event(0)]), before=0) == nothing
    assert list(history.events_pages(LogIndex())) == [Page(None, None, None, 0, 0, has_more=False)]


def test_a_faulted_event_takes_its_place_and_spends_nothing() -> None:
    index = index_of([event(0)])
    index.occupy(1)
    index.add(event(2))
    assert history.events_page(index, limit=5) == Page(None, 0, 2, 3, 2, has_more=False)


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        history.events_page(LogIndex(), limit=0)


class Counting(Sequence[Any]):
    """A sequence that counts what is read of it."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items, self.read = items, 0

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        self.read += len(range(*at.indices(len(self.items)))) if isinstance(at, slice) else 1
        return self.items[at]


def row(seq: int, rank: int = 0, text: str = "x") -> TranscriptRow:
    content = Raw(msgspec.json.encode([{"type": "text", "text": text}]))
    data = MessageData(None, content, Raw(b"{}"))
    key = f"user:{seq}.{rank}"
    visible = "transcript"
    return TranscriptRow(
        "s", 0, seq, key, "user", seq, rank, seq, visible, None, None, 0, False, (), data
    )


@pytest.mark.parametrize("length", [100, 20_000])
def test_work_is_that_of_the_page_not_of_the_log(length: int) -> None:
    events = [event(n) for n in range(length)]
    index = index_of(events)
    index.messages = counted = Counting(index.messages)  # type: ignore[assignment]
    rows = Counting([row(n) for n in range(length)])
    page = history.events_page(index, before=length // 2, limit=10)
    got = history.rows_page(rows, page)
    assert len(got.rows) == 10
    assert counted.read <= 2 * length.bit_length() + 2
    assert rows.read <= length.bit_length() + 10 * 5


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 4), st.integers(1, 2_000))
def test_row_pages_tile_and_keep_their_budget(
    anchors: list[int], limit: int, max_bytes: int
) -> None:
    rows = sorted(
        (row(seq, rank) for rank, seq in enumerate(anchors)),
        key=lambda r: (r.anchor_seq, r.anchor_rank, r.key),
    )
    index = index_of([event(n) for n in range(31)])
    back: list[TranscriptRow] = []
    before = None
    while True:
        page = history.rows_page(rows, history.events_page(index, before, limit), max_bytes)
        groups = {r.anchor_seq for r in page.rows}
        assert sum(len(bytes(b)) for b in page.bodies) <= max_bytes or len(groups) == 1
        back = [*page.rows, *back]
        if not page.has_more:
            break
        before = page.first
    assert back == rows


def test_the_tail_page_alone_carries_the_overview() -> None:
    overview: Any = object()
    rows = [row(0), row(1)]
    index = index_of([event(0), event(1)])
    tail = history.rows_page(rows, history.events_page(index, limit=1), overview=overview)
    assert (tail.overview, tail.rows, tail.has_more) == (overview, (rows[1],), True)
    older = history.events_page(index, tail.first, limit=1)
    assert history.rows_page(rows, older, overview=overview).overview is None


def test_a_gap_row_before_the_first_event_held_is_on_the_last_page() -> None:
    gap = msgspec.structs.replace(row(3), kind="gap", data=GapData(3, 9))
    index = index_of([event(10), event(11)])
    page = history.rows_page([gap, row(10)], history.events_page(index))
    assert page.rows == (gap, row(10))


def test_large_bodies_become_references_with_their_first_code_points() -> None:
    small = row(1, text="é" * 100)
    assert bytes(history.bounded(small)) == msgspec.json.encode(small)
    large = row(1, text="é" * 20_000)
    got = msgspec.json.decode(history.bounded(large))
    assert isinstance(large.data, MessageData)
    whole = bytes(large.data.content)
    assert got["data"]["content"] == {
        "ref": "user:1.0/content",
        "bytes": len(whole),
        "preview": whole.decode()[:512],
    }
    assert got["data"]["source"] == {}
    assert got["key"] == large.key


def test_string_bodies_and_a_joined_markers_summary_are_cut_field_by_field() -> None:
    tool = msgspec.structs.replace(
        row(1), kind="tool", data=ToolData("c", "n", "🙂" * 9_000, "ok", meta=Raw(b'"\\ud800"'))
    )
    got = history.bounded(tool)
    assert b'"\\ud800"' in bytes(got)  # opaque JSON travels unread, lone halves included
    arguments = msgspec.json.decode(bytes(got).replace(b"\\ud800", b""), type=dict[str, Raw])[
        "data"
    ]
    assert msgspec.json.decode(arguments)["arguments"]["preview"] == "🙂" * 512
    marker = CompactionData("k", "manual", "landed", summary="s" * 20_000)
    command = msgspec.structs.replace(
        row(1), kind="command", data=CommandData("c", "compact", "", "success", compaction=marker)
    )
    data = msgspec.json.decode(history.bounded(command))["data"]
    assert data["compaction"]["summary"]["ref"] == "user:1.0/compaction/summary"
    assert data["compaction"]["status"] == "landed"


def test_classification_marks_every_position_and_refuses_the_absurd() -> None:
    assert history.classify(3, 9, current=[3, 7], shadowed=[4, 5]) == "CSS-C-"
    assert history.classify(0, 0, [], []) == ""
    assert history.classify(0, 2**53, [2**53 - 1], []) is None
