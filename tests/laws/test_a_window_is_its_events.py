"""``--from-seq`` and ``--to-seq`` (outputs.md §2): the result is that of a file holding only those
events; a packed row that an edge cuts is cut there."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pipeline.documents import fold_lines
from tests.laws.packed import comparable, unpacked
from tests.strategies import simulated, soups


@given(simulated(most=80).map(lambda session: session.lines) | soups(gaps=False), st.data())
def test_a_window_is_its_events(log: list[bytes], data: st.DataObject) -> None:
    low = data.draw(st.integers(0, 60), label="from")
    high = data.draw(st.integers(low, 90), label="to")
    window = json.loads(fold_lines(log, from_seq=low, to_seq=high))
    whole = json.loads(fold_lines([line for line in unpacked(log) if inside(line, low, high)]))
    assert comparable(window) == comparable(whole)


def inside(line: bytes, low: int, high: int) -> bool:
    record = json.loads(line)
    return bool(record["type"] == "session" or low <= record["seq"] <= high)
