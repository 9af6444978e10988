"""Law 4: how the sessions of a partition are interleaved does not matter."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.piping import records, run, settled
from tests.strategies import any_logs, splits


@given(st.lists(any_logs, min_size=2, max_size=3), st.data())
def test_sessions_commute(logs: list[list[bytes]], data: st.DataObject) -> None:
    inputs = [records(log, f"s-{number}") for number, log in enumerate(logs)]
    apart = {}
    for number, log in enumerate(inputs):
        _, apart[number] = run([log])
    order = [number for number, log in enumerate(inputs) for _ in log]
    Random(data.draw(st.integers(0, 2**20), label="interleaving")).shuffle(order)
    ends = [iter(log) for log in inputs]
    mixed = [next(ends[number]) for number in order]
    _, together = run(data.draw(splits(mixed), label="batches"))
    surface: dict[bytes, list[bytes]] = {}
    last: dict[tuple[str, bytes], bytes | None] = {}
    dead: list[bytes] = []
    for topics in apart.values():
        surface |= topics.surface
        last |= topics.last
        dead += topics.dead
    assert together.surface == surface
    assert settled(together.last) == settled(last)
    assert sorted(together.dead) == sorted(dead)
