"""Resident sessions: keys, eviction, restore, and whose partition is whose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.session import Session
from pipeline.batch import fold_batch
from pipeline.errors import StoreDamaged
from pipeline.ports import InRecord, Segment
from pipeline.simulate import simulate
from pipeline.state import States, split_state_key, state_key, weight
from pipeline.store import MemoryStore

NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5) | st.sampled_from(
    ["\x1f", "a\x1f", "\x1fa", "a\x1fb", "a\x1f\x1f"]
)


@given(NAME, st.sampled_from(["", "s0", "t12"]))
def test_a_state_key_names_one_session_and_segment(session: str, segment: str) -> None:
    assert split_state_key(state_key(session, segment)) == (session, segment)


@given(NAME, NAME, st.sampled_from(["", "s0"]), st.sampled_from(["", "s0"]))
def test_no_two_share_a_state_key(a: str, b: str, x: str, y: str) -> None:
    assert (state_key(a, x) == state_key(b, y)) == ((a, x) == (b, y))


def test_a_plain_head_has_the_session_as_its_key() -> None:
    assert state_key("s-1", "") == b"s-1"
    assert state_key("s-1", "t0") == b"s-1\x1ft0"


def folded(seed: int) -> tuple[dict[str, Session], list[Segment]]:
    session = simulate(seed, events=30, features=())
    records = [InRecord("e", 0, 0, 0, session.id.encode(), line) for line in session.lines]
    result = fold_batch(records, {})
    return result.states, result.segments


def test_what_was_merged_is_there_and_elsewhere_is_not() -> None:
    states = States(MemoryStore())
    staged, saved = folded(1)
    states.merge(2, staged, saved, 1)
    assert states.get(2, "sim-00000001") is staged["sim-00000001"]
    assert states.of(2).get("sim-00000001") is staged["sim-00000001"]
    assert states.get(1, "sim-00000001") is None


def weighed(*seeds: int) -> int:
    return sum(
        weight(sum(len(value) for _, _, value in folded(seed)[1] if value)) for seed in seeds
    )


def test_an_evicted_session_comes_back_equal() -> None:
    states = States(MemoryStore(), capacity=weighed(3, 4))
    for seed in range(1, 5):
        states.merge(0, *folded(seed), 1)
    first = states.get(0, "sim-00000001")
    assert first is not None
    assert first is not folded(1)[0]["sim-00000001"]
    assert first.overview() == folded(1)[0]["sim-00000001"].overview()


def test_the_least_recently_used_goes_first() -> None:
    states = States(MemoryStore(), capacity=weighed(1, 2, 3) - 1)
    kept = folded(1)
    states.merge(0, *kept, 1)
    states.merge(0, *folded(2), 1)
    states.get(0, "sim-00000001")
    states.merge(0, *folded(3), 1)
    assert states.get(0, "sim-00000001") is kept[0]["sim-00000001"]


def test_residents_weigh_what_their_snapshots_say_however_they_came_and_went() -> None:
    states = States(MemoryStore(), capacity=weighed(1, 2))
    states.merge(0, *folded(1), 1)
    states.merge(0, *folded(2), 2)
    states.merge(0, *folded(2), 3)
    assert (states.residents, states.weight) == (2, weighed(1, 2))
    states.merge(0, *folded(3), 4)
    assert states.weight <= weighed(1, 2)
    states.get(0, "sim-00000001")
    states.get(0, "sim-00000001")
    assert states.weight <= weighed(1, 2)
    states.drop(0)
    assert (states.residents, states.weight) == (0, 0)


def test_a_session_above_the_bound_stays_as_long_as_it_is_the_last() -> None:
    states = States(MemoryStore(), capacity=1)
    states.merge(0, *folded(1), 1)
    assert states.residents == 1
    states.merge(0, *folded(2), 2)
    assert states.residents == 1
    assert states.get(0, "sim-00000001") is not None


def test_what_the_topic_says_takes_the_place_of_a_resident() -> None:
    states = States(MemoryStore())
    states.merge(0, *folded(1), 1)
    kept = folded(2)
    states.merge(0, *kept, 2)
    newer = simulate(1, events=60, features=())
    records = [InRecord("e", 0, 0, 0, newer.id.encode(), line) for line in newer.lines]
    result = fold_batch(records, {})
    states.apply(
        0,
        [
            InRecord("state", 0, n, 0, state_key(session, name), value)
            for n, (session, name, value) in enumerate(result.segments)
        ],
        9,
    )
    found = states.get(0, "sim-00000001")
    assert found is not None
    assert found.next_seq == result.states["sim-00000001"].next_seq
    assert states.get(0, "sim-00000002") is kept[0]["sim-00000002"]
    assert states.open(0) == 9


def test_a_dropped_partition_is_forgotten_and_the_others_stay() -> None:
    states = States(MemoryStore())
    states.merge(0, *folded(1), 1)
    states.merge(1, *folded(2), 1)
    states.drop(0)
    assert states.get(0, "sim-00000001") is None
    assert states.get(1, "sim-00000002") is not None


def test_restore_takes_the_last_value_of_each_key() -> None:
    (_, saved), (_, other) = folded(1), folded(2)
    records = [
        InRecord("state", 0, n, 0, state_key(session, name), value)
        for n, (session, name, value) in enumerate(
            [("gone", "", b"{}"), ("sim-00000001", "", b"old"), *saved, ("gone", "", None), *other]
        )
    ]
    states = States(MemoryStore())
    states.merge(0, *folded(3), 1)
    states.wipe(0)
    states.apply(0, records, len(records))
    assert states.sessions(0) == 2
    assert states.get(0, "sim-00000003") is None
    assert states.get(0, "gone") is None
    one = states.get(0, "sim-00000001")
    assert one is not None
    assert one.next_seq == folded(1)[0]["sim-00000001"].next_seq


def test_a_snapshot_that_cannot_be_read_names_its_partition() -> None:
    states = States(MemoryStore())
    states.apply(3, [InRecord("state", 3, 0, 0, b"s", b"no snapshot")], 1)
    with pytest.raises(StoreDamaged, match="cannot be read") as damaged:
        states.get(3, "s")
    assert damaged.value.partition == 3
