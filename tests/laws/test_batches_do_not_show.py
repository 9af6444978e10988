"""Law 2: any split of the input into batches gives the same final rows, nodes and overview."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.changes import SurfaceChange
from tests.laws.folding import at_once, bytes_of, in_batches, read
from tests.laws.reader import Reader, encoded
from tests.strategies import any_logs, splits


@given(any_logs, st.data())
def test_batches_do_not_show(log: list[bytes], data: st.DataObject) -> None:
    lines = read(log)
    whole = at_once(lines)
    state, published = in_batches(data.draw(splits(lines), label="batches"))
    live = Reader().apply(published)
    assert encoded(live.rows()) == encoded(whole.rows)
    surface = [change for change in published if isinstance(change, SurfaceChange)]
    assert bytes_of(surface) == bytes_of(whole.surface)
    assert bytes_of([state.overview()]) == bytes_of([whole.overview])
    assert live.overview is None or live.overview == whole.overview
