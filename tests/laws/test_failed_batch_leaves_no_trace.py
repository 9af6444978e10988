"""Law 6: a batch whose delivery failed leaves the state as it was; a retry gives the same bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.session import Session
from pipeline.batch import fold_batch
from tests.laws.piping import records
from tests.strategies import any_logs, splits


@given(any_logs, st.data())
def test_failed_batch_leaves_no_trace(log: list[bytes], data: st.DataObject) -> None:
    """Every batch fails a few times before it lands; beside it one run in which none fails."""
    batches = data.draw(splits(records(log)), label="batches")
    states: dict[str, Session] = {}
    smooth: dict[str, Session] = {}
    for batch in batches:
        for _ in range(data.draw(st.integers(0, 2), label="failures")):
            fold_batch(batch, states)
        part = data.draw(st.integers(0, len(batch)), label="failed part")
        fold_batch(batch[:part], states)
        result, expected = fold_batch(batch, states), fold_batch(batch, smooth)
        assert result.outputs == expected.outputs
        states.update(result.states)
        smooth.update(expected.states)
