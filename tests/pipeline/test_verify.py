"""verify: right topics pass, every kind of wrong record is named with its coordinates."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from operators.changes import TranscriptRow
from pipeline.errors import Fatal
from pipeline.memory_ends import MemoryReader
from pipeline.ports import InRecord
from pipeline.simulate import fleet
from pipeline.verify import Verdict, verify
from schemas.codec import decode_change
from schemas.deadletter import DeadLetter, encode_dead_letter
from schemas.outbound import encode
from tests.pipeline.world import World, interleaved, partition_of

LINES = interleaved(fleet(31, 4, events=40))
SESSION = "sim-00000032"
AT = partition_of(SESSION)


@pytest.fixture
def world() -> World:
    world = World()
    world.feed(LINES)
    world.append(SESSION.encode(), b"?", partition=AT)
    world.run()
    assert world.verify().ok
    return world


def records(world: World, role: str) -> list[InRecord]:
    key = SESSION.encode()
    mine = (key, key + b"\x1f")
    return [r for r in world.read(role) if r.key == key or (r.key or b"").startswith(mine[1])]


def append(world: World, role: str, record: InRecord, value: bytes | None = None) -> int:
    """A record of ``role`` once more, with another value if one is given."""
    topic = world.names.of(role)
    partition = 0 if role == "deadletter" else AT
    new = record.value if value is None else value
    return world.broker.append(topic, partition, record.key, new, headers=record.headers)


def test_counts(world: World) -> None:
    verdict = world.verify()
    assert (verdict.sessions, verdict.events) == (4, len(LINES) + 1)
    assert verdict.surface == len(world.read("surface"))
    assert verdict.rows == len({record.key for record in world.read("transcript")})
    assert verdict.dead_letters == 1
    assert verdict.unprovable == ()


def test_what_is_not_folded_yet_is_behind_and_no_difference(world: World) -> None:
    world.append(SESSION.encode(), b"{}", partition=AT)
    verdict = world.verify()
    assert verdict.ok
    assert verdict.behind == 1


def test_nothing_committed_means_nothing_expected() -> None:
    world = World()
    world.feed(LINES)
    verdict = world.verify()
    assert verdict.ok
    assert verdict.behind == len(LINES)


def test_a_surface_record_too_many(world: World) -> None:
    offset = append(world, "surface", records(world, "surface")[0])
    mismatch = world.verify().mismatch
    assert mismatch is not None
    assert (mismatch.topic, mismatch.partition) == ("sessions.surface", AT)
    assert (mismatch.offset, mismatch.session) == (offset, SESSION)
    assert "too many" in str(mismatch)


def test_a_changed_row(world: World) -> None:
    row = records(world, "transcript")[-1]
    change = decode_change(row.value or b"")
    assert isinstance(change, TranscriptRow)
    offset = append(
        world,
        "transcript",
        row,
        encode(
            msgspec.structs.replace(
                change,
                visibility="auxiliary" if change.visibility == "transcript" else "transcript",
            )
        ),
    )
    mismatch = world.verify().mismatch
    assert mismatch is not None
    assert (mismatch.topic, mismatch.offset) == ("sessions.transcript", offset)
    assert mismatch.seq == change.seq
    assert change.key in mismatch.key


def test_a_row_that_the_fold_does_not_give(world: World) -> None:
    row = records(world, "transcript")[0]
    change = decode_change(row.value or b"")
    assert isinstance(change, TranscriptRow)
    key = SESSION.encode() + b"\x1fuser:999999"
    other = msgspec.structs.replace(change, key="user:999999")

    def put(deleted: bool) -> None:
        row = encode(msgspec.structs.replace(other, deleted=deleted, data=None))
        world.broker.append("sessions.transcript", AT, key, row)

    put(deleted=True)
    assert world.verify().ok, "a key whose last record is deleted counts as absent"
    put(deleted=False)
    assert "no such key" in str(world.verify().mismatch)


def test_an_overview_of_earlier(world: World) -> None:
    world.feed([(SESSION, b"?")])
    world.run()
    append(world, "overview", records(world, "overview")[0])
    assert world.verify().mismatch is not None
    assert str(world.verify().mismatch).startswith(f"sessions.overview[{AT}] at offset")


@pytest.mark.parametrize("header", ["session", "epoch", "seq"])
def test_headers_are_compared(world: World, header: str) -> None:
    last = records(world, "overview")[-1]
    headers = [(name, b"77" if name == header else text) for name, text in last.headers]
    world.broker.append("sessions.overview", AT, last.key, last.value, headers=headers)
    assert world.verify().mismatch is not None


def test_a_dead_letter_twice_and_one_that_was_none(world: World) -> None:
    letter = world.read("deadletter")[0]
    append(world, "deadletter", letter)
    assert "twice" in str(world.verify().mismatch)
    world = World()
    world.feed(LINES)
    world.run()
    append(world, "deadletter", letter)
    assert "refuses no such record" in str(world.verify().mismatch)


def test_a_letter_of_ingest_is_none_of_the_folds(world: World) -> None:
    letter = DeadLetter("too-large", "", "", -1, -1, 0, None, None, None, None)
    world.broker.append("sessions.deadletter", 0, None, encode_dead_letter(letter))
    assert world.verify().ok


class Without(MemoryReader):
    """Topics of which some records are gone."""

    def __init__(self, world: World, role: str, gone: int = -1, begin: int = 0) -> None:
        super().__init__(world.broker)
        self._topic = world.names.of(role)
        self._gone = gone
        self._begin = begin
        self._in = (0,) if role == "deadletter" else (AT,)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        first, end = super().bounds(topic, partition)
        return (min(self._begin, end) if topic == self._topic else first), end

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        for record in super().read(topic, partition, start, end):
            if (topic, record.offset) != (self._topic, self._gone) or partition not in self._in:
                yield record


@pytest.mark.parametrize("role", ["surface", "transcript", "overview", "deadletter"])
def test_a_record_that_is_missing(world: World, role: str) -> None:
    gone = records(world, role)[-1]
    mismatch = verify(Without(world, role, gone.offset), world.names).mismatch
    assert mismatch is not None
    assert mismatch.topic == world.names.of(role)
    assert mismatch.session == SESSION


def test_a_session_whose_beginning_has_expired_is_unprovable(world: World) -> None:
    """Retention took the first records of each partition: its sessions are named, not wrong."""
    verdict: Verdict = verify(Without(world, "events", begin=5), world.names)
    assert verdict.ok, verdict.mismatch
    assert SESSION in verdict.unprovable


def test_a_worker_that_commits_meanwhile_is_noticed(world: World) -> None:
    reader = Without(world, "events")
    calls = iter([{0: 1}, {0: 2}])
    reader.committed = lambda group, topic: next(calls)  # type: ignore[method-assign]
    with pytest.raises(Fatal, match="verify again"):
        verify(reader, world.names)


def test_without_topics_it_says_so() -> None:
    world = World()
    with pytest.raises(Fatal, match="topics create"):
        verify(MemoryReader(world.broker), msgspec.structs.replace(world.names, prefix="x."))
