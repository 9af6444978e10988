"""Law 1: folding at once, event by event, and rebuilding from what was published agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.changes import SurfaceChange
from operators.events import Line
from tests.laws.folding import at_once, bytes_of, in_batches, one_by_one, read
from tests.laws.reader import Reader, encoded
from tests.strategies import any_logs, splits


@given(any_logs, st.data())
def test_replay_is_live(log: list[bytes], data: st.DataObject) -> None:
    lines = read(log)
    agree(lines)
    agree(lines[: data.draw(st.integers(0, len(lines)), label="prefix")])
    _, published = in_batches(data.draw(splits(lines), label="batches"))
    assert encoded(Reader().apply(published).rows()) == encoded(at_once(lines).rows)


def agree(lines: list[Line]) -> None:
    whole = at_once(lines)
    state, published = one_by_one(lines)
    live = Reader().apply(published)
    assert encoded(live.rows()) == encoded(whole.rows)
    surface = [change for change in published if isinstance(change, SurfaceChange)]
    assert bytes_of(surface) == bytes_of(whole.surface)
    assert bytes_of([state.overview()]) == bytes_of([whole.overview])
    if live.overview is not None:
        assert bytes_of([live.overview]) == bytes_of([whole.overview])
