"""projection.md §5: `rev` is the seq of the last event that changed the row; an event that changes
nothing publishes nothing. Running assistant rows aside: §5.1 says when they are published."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from operators.changes import AssistantData, TranscriptRow
from operators.session import Session, step
from tests.laws.folding import SESSION, read
from tests.laws.reader import Reader
from tests.strategies import any_logs


@given(any_logs)
def test_what_changes_nothing_is_silent(log: list[bytes]) -> None:
    state, reader = Session(SESSION), Reader()
    for line in read(log):
        state, changes = step(state, line)
        rows = [change for change in changes if isinstance(change, TranscriptRow)]
        assert len({row.key for row in rows}) == len(rows)
        for row in rows:
            assert row.seq == row.rev
            held = reader.by_key.get(row.key)
            if held is None:
                assert not row.deleted, "a row nobody heard of is deleted"
            else:
                assert row.rev >= held.rev
                assert streams(row) or changed(held, row), row
        reader.apply(changes)


def streams(row: TranscriptRow) -> bool:
    return isinstance(row.data, AssistantData) and row.data.status == "running"


def changed(held: TranscriptRow, row: TranscriptRow) -> bool:
    return replace(held, rev=0, seq=0) != replace(row, rev=0, seq=0)
