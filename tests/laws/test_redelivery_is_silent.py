"""Law 3: re-sent lines that took a seq, and headers, change no state and publish nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.events import Header, Line
from operators.session import Out, Session
from tests.laws.folding import SESSION, Saved, one_batch, read
from tests.strategies import any_logs


@given(any_logs, st.data())
def test_redelivery_is_silent(log: list[bytes], data: st.DataObject) -> None:
    state = Session(SESSION)
    took: list[Line] = []
    for line in read(log):
        if takes(state, line):
            took.append(line)
        state.take(line, Out())
    first = data.draw(st.integers(0, len(took)), label="first")
    last = data.draw(st.integers(first, len(took)), label="last")
    before = Saved().save(state.fork())  # whole: nothing was saved yet
    after, changes = one_batch(state, took[first:last])
    assert changes == []
    assert Saved().save(after) == before


def takes(state: Session, line: Line) -> bool:
    """Whether the line takes a seq here (a packed row: all of its seqs, so that it is what the
    state's digests know), or is a header that is not the first."""
    if isinstance(line, Header):
        return True
    return line.seq is not None and line.seq >= state.next_seq
