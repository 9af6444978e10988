"""Law 5: fold(all) = fold(restore(snapshot(prefix)) + tail), for every prefix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.session import Session
from tests.laws.folding import (
    SESSION,
    Saved,
    at_once,
    bytes_of,
    in_batches,
    one_batch,
    one_by_one,
    read,
)
from tests.laws.reader import Reader, encoded
from tests.strategies import any_logs, splits


@given(any_logs, st.data())
def test_snapshot_then_tail(log: list[bytes], data: st.DataObject) -> None:
    lines = read(log)
    cut = data.draw(st.integers(0, len(lines)), label="prefix")
    state, saved, reader = Session(SESSION), Saved(), Reader()
    for batch in data.draw(splits(lines[:cut]), label="batches"):
        state, changes = one_batch(state, batch)
        saved.save(state)
        reader.apply(changes)
    saved.save(state)
    restored = saved.load()
    original, expected = one_by_one(lines[cut:], state)
    resumed, published = one_by_one(lines[cut:], restored)
    assert bytes_of(published) == bytes_of(expected)
    assert bytes_of(resumed.open_rows()) == bytes_of(original.open_rows())
    whole = at_once(lines)
    assert encoded(reader.apply(published).rows()) == encoded(whole.rows)
    assert bytes_of([resumed.overview()]) == bytes_of([whole.overview])


@given(any_logs, st.data())
def test_every_batch_may_be_the_last_before_a_restart(
    log: list[bytes], data: st.DataObject
) -> None:
    lines = read(log)
    saved, published = Saved(), []
    saved.save(Session(SESSION))
    batches = data.draw(splits(lines), label="batches")
    for batch in batches:
        state, changes = one_batch(saved.load(), batch)
        saved.save(state)
        published += changes
    _, expected = in_batches(batches)
    assert bytes_of(published) == bytes_of(expected)
