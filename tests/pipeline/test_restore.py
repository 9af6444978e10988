"""The states of a partition brought to what the state topic says, whatever befell the topic."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import Struct

from pipeline.commit import Folded
from pipeline.errors import Fatal, Retriable, StoreDamaged
from pipeline.identity import EVENTS_ID, NEXT
from pipeline.loop import Policy, Worker
from pipeline.memory_ends import MemoryReader
from pipeline.observe import Observer
from pipeline.outside import Ends
from pipeline.ports import Cursor, Headers, InRecord, Reader, StateStore
from pipeline.restore import Restore, Start, begin, check_committed, require_states
from pipeline.simulate import fleet
from pipeline.state import States
from pipeline.store.memory import MemoryStore
from pipeline.topics import Names
from pipeline.wiring import wire
from tests.pipeline.world import World, interleaved

TOPIC = Names().of("state")
LINES = interleaved(fleet(5, 6, events=30))


def state(offset: int, session: str, value: bytes | None = b"v", headers: Headers = ()) -> InRecord:
    return InRecord(TOPIC, 0, offset, 0, session.encode(), value, headers)


class Slices:
    """A cursor that gives what it is told, one slice each: records and the position after them."""

    def __init__(self, end: int, slices: Sequence[tuple[Sequence[InRecord], int]]) -> None:
        self.position = 0
        self.closed = 0
        self._end = end
        self._slices = list(slices)

    @property
    def done(self) -> bool:
        return self.position >= self._end

    def take(self, timeout_s: float) -> Sequence[InRecord]:
        assert timeout_s >= 0
        records, self.position = self._slices.pop(0) if self._slices else ((), self.position)
        return records

    def close(self) -> None:
        self.closed += 1


class Log(Struct):
    """A reader over partitions with these bounds; every read gives ``records``."""

    ends: Mapping[str, tuple[int, int]]
    records: Sequence[InRecord] = ()
    asked: list[tuple[str, int, int]] = []

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self.ends[topic]

    def cursor(self, topic: str, partition: int, start: int, end: int) -> Cursor:
        self.asked.append((topic, start, end))
        cursor = Slices(end, [])
        cursor.position = start
        return cursor

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterable[InRecord]:
        return iter([r for r in self.records if r.topic == topic and r.offset >= start])


def outside(reader: Reader, events_id: str = "") -> Ends:
    """Ends of which only the reader is asked."""
    nobody: Any = None
    return Ends(nobody, nobody, reader, Names(), events_id)


def log(records: Sequence[InRecord] = (), **ends: tuple[int, int]) -> Reader:
    names = Names()
    return Log({names.of(role): bounds for role, bounds in ends.items()}, records)  # type: ignore[return-value]


def held(position: int, *sessions: str) -> States:
    store = MemoryStore()
    store.write(0, [(session, "", b"v") for session in sessions], position)
    return States(store)


START = Start(0, 7, 0.0)


# --- slices ---------------------------------------------------------------------------------------


def test_slices_are_applied_as_they_come_until_the_end_is_reached() -> None:
    cursor = Slices(9, [([state(0, "a")], 1), ([], 1), ([state(4, "b"), state(5, "a", None)], 6)])
    states, restore = States(MemoryStore()), Restore(START, cursor, 0, 9)
    assert not restore.advance(states, 0.1)
    assert (restore.done, restore.records, states.sessions(0)) == (1, 1, 1)
    assert not restore.advance(states, -1.0)
    assert not restore.advance(states, 0.1)
    assert (restore.done, restore.records, restore.size) == (6, 3, 5)
    assert states.open(0) == 6
    cursor._slices = [([], 9)]
    assert restore.advance(states, 0.1)
    assert states.sessions(0) == 1


def test_markers_at_the_end_are_not_waited_for_as_records() -> None:
    """Nothing but the cursor's position says that all is read."""
    restore = Restore(START, Slices(3, [([state(0, "a")], 1), ([], 3)]), 0, 3)
    states = States(MemoryStore())
    assert not restore.advance(states, 0.1)
    assert restore.advance(states, 0.1)
    assert restore.records == 1


def test_an_empty_topic_is_restored_at_once_and_its_cursor_is_not_asked() -> None:
    restore = begin(log(state=(0, 0)), TOPIC, States(MemoryStore()), START)
    assert restore.advance(States(MemoryStore()), 0.0)
    assert restore.total == 0


# --- where to begin -------------------------------------------------------------------------------


@pytest.mark.parametrize(("position", "first", "read"), [(None, 0, 50), (20, 0, 30), (50, 0, 0)])
def test_only_what_the_store_lacks_is_read(position: int | None, first: int, read: int) -> None:
    states = States(MemoryStore()) if position is None else held(position, "a")
    restore = begin(log(state=(first, 50)), TOPIC, states, START)
    assert (restore.first, restore.total) == (position or 0, read)
    assert states.sessions(0) == (position is not None)


def test_a_store_that_has_what_the_topic_dropped_is_enough() -> None:
    assert begin(log(state=(30, 50)), TOPIC, held(40, "a"), START).total == 10


@pytest.mark.parametrize("position", [None, 20])
def test_states_deleted_below_the_topics_beginning_are_not_done_without(
    position: int | None,
) -> None:
    states = States(MemoryStore()) if position is None else held(position, "a")
    with pytest.raises(Fatal, match=r"begins at offset 30: states below it were deleted") as no:
        begin(log(state=(30, 50)), TOPIC, states, START)
    assert "cleanup.policy" in no.value.remedy


def test_a_topic_that_ends_before_the_store_is_asked_again_and_the_store_kept() -> None:
    states = held(60, "a")
    with pytest.raises(Retriable, match="ends at offset 50, yet the local store has it up to 60"):
        begin(log(state=(0, 50)), TOPIC, states, START)
    assert states.sessions(0) == 1


@pytest.mark.parametrize("at", [0, 50])
def test_an_emptied_topic_empties_the_store(at: int) -> None:
    states = held(60, "a")
    begin(log(state=(at, at)), TOPIC, states, START)
    assert states.sessions(0) == 0


# --- the committed offset -------------------------------------------------------------------------


def test_a_committed_offset_is_taken_where_its_topic_has_what_follows() -> None:
    ends = outside(log(events=(5, 9)))
    for offset in (None, 5, 9):
        assert check_committed(ends, 0, offset, skip_expired=False) == offset


def test_records_that_expired_unfolded_stop_or_are_skipped_as_told() -> None:
    ends = outside(log(events=(5, 9)))
    with pytest.raises(Fatal, match="begins at offset 5, yet 3 is the next to fold: 2 offsets"):
        check_committed(ends, 0, 3, skip_expired=False)
    assert check_committed(ends, 0, 3, skip_expired=True) == 5


def test_an_offset_beyond_the_end_is_of_another_topic() -> None:
    with pytest.raises(Fatal, match="ends at offset 9, yet 10 is committed"):
        check_committed(outside(log(events=(5, 9))), 0, 10, skip_expired=True)


def headers(events: bytes, place: bytes) -> Headers:
    return [("session", b"a"), (NEXT, place), (EVENTS_ID, events)]


def test_without_an_offset_the_newest_state_says_where_to_go_on() -> None:
    newest = [
        state(1, "a", headers=headers(b"id", b"12")),
        state(2, "a", None, headers(b"id", b"17")),
    ]
    ends = outside(log(newest, state=(0, 9), events=(0, 20)), events_id="id")
    assert require_states(ends, held(9, "a"), 0, None, skip_expired=False) == 17
    assert require_states(ends, held(9, "a"), 0, 4, skip_expired=False) == 4


@pytest.mark.parametrize(
    "told", [headers(b"other", b"17"), headers(b"id", b"x"), [(EVENTS_ID, b"id")], []]
)
def test_states_of_another_events_topic_are_not_gone_on_from(told: Headers) -> None:
    ends = outside(log([state(1, "a", headers=told)], state=(0, 9), events=(0, 9)), events_id="id")
    with pytest.raises(Fatal, match="was deleted and made again, or another deployment"):
        require_states(ends, held(9, "a"), 0, None, skip_expired=False)


@pytest.mark.parametrize("committed", [None, 7])
def test_outputs_without_states_are_not_gone_on_from(committed: int | None) -> None:
    overview = Names().of("overview")
    reader = log([InRecord(overview, 0, 3, 0, b"a", b"v")], state=(0, 0), overview=(0, 4))
    with pytest.raises(Fatal, match=r"yet the states of its sessions are gone from"):
        require_states(outside(reader), States(MemoryStore()), 0, committed, skip_expired=False)
    nothing = outside(log(state=(0, 0), overview=(0, 0)))
    again = require_states(nothing, States(MemoryStore()), 0, committed, skip_expired=False)
    assert again == committed


# --- within a worker ------------------------------------------------------------------------------


class Damaged(MemoryStore):
    """Cannot give one session so often."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times
        self.wiped: list[int] = []

    def segments(self, partition: int, session: str) -> Mapping[str, bytes] | None:
        found = super().segments(partition, session)
        if found is not None and self.left:
            self.left -= 1
            raise StoreDamaged(partition, "a block does not match its checksum")
        return found

    def wipe(self, partition: int) -> None:
        self.wiped.append(partition)
        super().wipe(partition)


def run_over(world: World, store: StateStore, observer: Observer | None = None) -> None:
    states = States(store)
    ends = Ends(world.source(), world.sink(), MemoryReader(world.broker), world.names)
    policy = Policy(threading.Event(), at_end=True)
    wire(Worker(ends, states, policy, clock=world.clock, observer=observer), states).run()


@pytest.fixture
def folded() -> World:
    """Half is folded, by a worker that is gone."""
    world = World()
    world.feed(LINES[: len(LINES) // 2])
    world.run()
    world.feed(LINES[len(LINES) // 2 :])
    return world


def test_a_damaged_store_is_wiped_and_read_anew_once(folded: World) -> None:
    store = Damaged(1)
    run_over(folded, store)
    assert len(store.wiped) >= 1
    verdict = folded.verify()
    assert verdict.ok, verdict.mismatch
    assert verdict.behind == 0


def test_what_is_damaged_again_right_after_it_was_read_anew_is_given_up(folded: World) -> None:
    with pytest.raises(Fatal, match="a block does not match its checksum; to fold all anew"):
        run_over(folded, Damaged(1000))


def test_a_partition_lost_in_the_middle_of_its_restore_is_restored_when_it_comes_back(
    folded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.memory_ends.FETCH_RECORDS", 1)
    monkeypatch.setattr("pipeline.limits.RESTORE_SLICE_S", 0)

    class Rebalanced(Observer):
        """Another member comes and goes while the second slice is read."""

        def __init__(self) -> None:
            self.other = folded.source()
            self.slices = 0
            self.moved: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

        def restoring(self, partition: int, done: int, total: int) -> None:
            self.slices += 1
            if self.slices == 2:
                self.other.poll(0)
            if self.slices == 4:
                self.other.close()

        def rebalanced(self, revoked: tuple[int, ...], assigned: tuple[int, ...]) -> None:
            self.moved.append((revoked, assigned))

    told = Rebalanced()
    run_over(folded, MemoryStore(), told)
    assert any(revoked for revoked, _ in told.moved)
    verdict = folded.verify()
    assert verdict.ok, verdict.mismatch
    assert verdict.behind == 0


def test_a_restart_with_its_store_reads_only_what_is_new(folded: World) -> None:
    class Counted(Observer):
        records = 0

        def restored(
            self, partition: int, sessions: int, records: int, size: int, seconds: float
        ) -> None:
            self.records += records

    class Kept(MemoryStore):
        def release(self, partition: int) -> None:
            """It may stay for its return."""

        def close(self) -> None:
            """On disk it would survive."""

    store, first, second = Kept(), Counted(), Counted()
    run_over(folded, store, first)
    run_over(folded, store, second)
    assert first.records > 0
    assert second.records == 0


def test_a_poll_is_all_that_a_failed_batch_leaves(folded: World) -> None:
    """The offer of a batch raises once: partitions are awaited and restored again, exactly."""
    states = States(MemoryStore())
    ends = Ends(folded.source(), folded.sink(), MemoryReader(folded.broker), folded.names)
    worker = Worker(ends, states, Policy(threading.Event(), at_end=True), clock=folded.clock)
    running = wire(worker, states)
    failures = [Retriable("a moment's trouble")]
    deliver = worker.deliver

    def troubled(folded: Folded) -> None:
        if failures:
            raise failures.pop()
        deliver(folded)

    worker.deliver = troubled  # type: ignore[method-assign]
    running.run()
    assert folded.verify().ok
