"""verify: right topics pass, every kind of wrong record is named with its coordinates, and workers
may go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from operators.changes import TranscriptRow
from pipeline.errors import Fatal
from pipeline.memory_ends import MemoryReader
from pipeline.patterns import matcher
from pipeline.ports import InRecord, Reader
from pipeline.proof import scratch
from pipeline.proof.records import Mismatch
from pipeline.simulate import fleet
from pipeline.verify import Verdict, verify
from pipeline.wiring import WorkerSettings, build
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
    assert judged(world).ok
    return world


def judged(world: World, reader: Reader | None = None, session: str | None = None) -> Verdict:
    reader = reader or MemoryReader(world.broker)
    return verify(reader, world.names, session=session, pause=lambda: None)


def difference(world: World, reader: Reader | None = None) -> Mismatch:
    """The one session's, that there is."""
    verdict = judged(world, reader)
    assert not verdict.ok
    assert verdict.differing == 1
    assert verdict.mismatch is not None
    return verdict.mismatch


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


class Edited(MemoryReader):
    """Topics on which the records of one partition are what ``edit`` makes of them."""

    def __init__(
        self,
        world: World,
        role: str,
        edit: Callable[[list[InRecord]], list[InRecord]] = lambda records: records,
        begin: int = 0,
    ) -> None:
        super().__init__(world.broker)
        self._edited = world.names.of(role), 0 if role == "deadletter" else AT
        self._edit = edit
        self._begin = begin

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        first, end = super().bounds(topic, partition)
        return (min(self._begin, end) if topic == self._edited[0] else first), end

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        found = super().read(topic, partition, start, end)
        return iter(self._edit(list(found))) if (topic, partition) == self._edited else found


def without(record: InRecord) -> Callable[[list[InRecord]], list[InRecord]]:
    return lambda found: [other for other in found if other.offset != record.offset]


def test_counts(world: World) -> None:
    verdict = judged(world)
    assert (verdict.sessions, verdict.events) == (4, len(LINES) + 1)
    assert verdict.surface == len(world.read("surface"))
    last = {record.key: decode_change(record.value or b"") for record in world.read("transcript")}
    there = [row for row in last.values() if isinstance(row, TranscriptRow) and not row.deleted]
    assert verdict.rows == len(there) < len(last)
    assert verdict.dead_letters == 1
    assert verdict.unprovable == ()
    assert verdict.topics["overview"].count == 4
    assert verdict.topics["transcript"].count == verdict.rows


def test_what_is_not_folded_yet_is_behind_and_no_difference(world: World) -> None:
    world.append(SESSION.encode(), b"{}", partition=AT)
    verdict = judged(world)
    assert verdict.ok
    assert verdict.behind == 1


def test_nothing_committed_means_nothing_expected() -> None:
    world = World()
    world.feed(LINES)
    verdict = judged(world)
    assert verdict.ok
    assert verdict.behind == len(LINES)


# --- each damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["surface", "transcript", "overview"])
def test_a_flipped_byte(world: World, role: str) -> None:
    """In the middle of the value of the last record, in place."""

    def flip(found: list[InRecord]) -> list[InRecord]:
        mine = records(world, role)[-1]
        value = bytearray(mine.value or b"")
        value[len(value) // 2] ^= 4
        other = msgspec.structs.replace(mine, value=bytes(value))
        return [other if record.offset == mine.offset else record for record in found]

    mismatch = difference(world, Edited(world, role, flip))
    mine = records(world, role)[-1]
    assert (mismatch.topic, mismatch.offset) == (world.names.of(role), mine.offset)
    assert (mismatch.partition, mismatch.session) == (AT, SESSION)
    assert mismatch.field is not None
    assert mismatch.found != mismatch.expected


@pytest.mark.parametrize("role", ["surface", "transcript", "overview", "deadletter"])
def test_a_removed_record(world: World, role: str) -> None:
    gone = records(world, role)[-1]
    mismatch = difference(world, Edited(world, role, without(gone)))
    assert (mismatch.topic, mismatch.session) == (world.names.of(role), SESSION)
    assert mismatch.what.startswith(("missing", "1 of", "differs"))


def test_all_overviews_missing_names_each_session(world: World) -> None:
    class Empty(MemoryReader):
        def bounds(self, topic: str, partition: int) -> tuple[int, int]:
            return (0, 0) if topic == "sessions.overview" else super().bounds(topic, partition)

    verdict = judged(world, Empty(world.broker))
    assert verdict.differing == 4
    assert {one.session for one in verdict.differences} == {session for session, _ in LINES}
    assert {one.what for one in verdict.differences} == {"missing"}
    assert {one.topic for one in verdict.differences} == {"sessions.overview"}


def test_a_surface_record_twice_at_the_end(world: World) -> None:
    offset = append(world, "surface", records(world, "surface")[0])
    mismatch = difference(world)
    assert (mismatch.topic, mismatch.partition) == ("sessions.surface", AT)
    assert (mismatch.offset, mismatch.session) == (offset, SESSION)
    assert "too many" in mismatch.what
    assert "it is change 1, that was there already" in mismatch.what


def test_a_surface_record_doubled_in_its_place(world: World) -> None:
    twice = records(world, "surface")[1]

    def double(found: list[InRecord]) -> list[InRecord]:
        at = found.index(twice)
        return [*found[:at], twice, *found[at:]]

    mismatch = difference(world, Edited(world, "surface", double))
    assert mismatch.offset == twice.offset
    assert "change 3 of the session" in mismatch.what
    assert "it is change 2, that was there already" in mismatch.what


def test_a_reordered_surface(world: World) -> None:
    one, other = records(world, "surface")[1:3]

    def swap(found: list[InRecord]) -> list[InRecord]:
        swapped = {one.offset: other, other.offset: one}
        return [swapped.get(record.offset, record) for record in found]

    mismatch = difference(world, Edited(world, "surface", swap))
    assert mismatch.offset == other.offset
    assert "it is change 3, that comes later" in mismatch.what


def test_a_row_of_an_old_epoch() -> None:
    world = World()
    mine = [(session, line) for session, line in LINES if session == SESSION]
    world.feed(mine)
    world.run()
    old = records(world, "transcript")[0]
    world.feed(mine, epoch=1)
    world.run()
    assert judged(world).ok
    offset = append(world, "transcript", old)
    mismatch = difference(world)
    assert (mismatch.offset, mismatch.session) == (offset, SESSION)
    assert (mismatch.field, mismatch.found, mismatch.expected) == ("epoch", "0", "1")


def test_a_changed_row_names_the_field(world: World) -> None:
    row = records(world, "transcript")[-1]
    change = decode_change(row.value or b"")
    assert isinstance(change, TranscriptRow)
    other = msgspec.structs.replace(change, turn=77)
    offset = append(world, "transcript", row, encode(other))
    mismatch = difference(world)
    assert (mismatch.topic, mismatch.offset) == ("sessions.transcript", offset)
    assert mismatch.seq == change.seq
    assert change.key in mismatch.key
    assert (mismatch.field, mismatch.found) == ("turn", "77")
    assert mismatch.expected == str(change.turn)


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
    assert judged(world).ok, "a key whose last record is deleted counts as absent"
    put(deleted=False)
    assert "no such key" in difference(world).what


def test_a_row_that_is_deleted_on_the_topic(world: World) -> None:
    row = records(world, "transcript")[-1]
    change = decode_change(row.value or b"")
    assert isinstance(change, TranscriptRow)
    gone = encode(msgspec.structs.replace(change, deleted=True, data=None))
    offset = append(world, "transcript", row, gone)
    mismatch = difference(world)
    assert mismatch.offset == offset
    assert "deleted" in mismatch.what


@pytest.mark.parametrize("header", ["session", "epoch", "seq"])
def test_headers_are_compared(world: World, header: str) -> None:
    last = records(world, "overview")[-1]
    headers = [(name, b"77" if name == header else text) for name, text in last.headers]
    world.broker.append("sessions.overview", AT, last.key, last.value, headers=headers)
    assert difference(world).field == "headers"


def test_a_dead_letter_twice_and_one_that_was_none(world: World) -> None:
    letter = world.read("deadletter")[0]
    append(world, "deadletter", letter)
    assert "twice" in difference(world).what
    world = World()
    world.feed(LINES)
    world.run()
    append(world, "deadletter", letter)
    assert "no such record" in difference(world).what


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "said"),
    [
        ("sessions.events", AT, 0, "the fold refuses no such record"),
        ("sessions.events", AT, 1_000, "there is no such record"),
        ("sessions.events", 9, 0, "there is no such record"),
        ("other.events", 0, 0, "there is no such record"),
    ],
)
def test_a_foreign_dead_letter(
    world: World, topic: str, partition: int, offset: int, said: str
) -> None:
    letter = DeadLetter("not-json", "", topic, partition, offset, 0, SESSION, None, None, None)
    at = world.broker.append("sessions.deadletter", 0, None, encode_dead_letter(letter))
    mismatch = difference(world)
    assert (mismatch.topic, mismatch.offset) == ("sessions.deadletter", at)
    assert said in mismatch.what


def test_what_is_no_dead_letter(world: World) -> None:
    world.broker.append("sessions.deadletter", 0, None, b"?")
    assert "no dead letter" in difference(world).what


def test_a_letter_of_ingest_is_none_of_the_folds(world: World) -> None:
    topic = world.names.of("events")
    letter = DeadLetter("too-large", "", topic, -1, -1, 0, None, None, None, None)
    world.broker.append("sessions.deadletter", 0, None, encode_dead_letter(letter))
    assert judged(world).ok


def test_a_record_of_a_session_that_has_no_events(world: World) -> None:
    surface = records(world, "surface")[0]
    world.broker.append("sessions.surface", 0, b"nobody", surface.value, headers=surface.headers)
    mismatch = difference(world)
    assert mismatch.session == "nobody"
    assert "the fold gives 0 changes" in mismatch.what


def test_every_session_that_differs_is_named(world: World) -> None:
    for record in {record.key: record for record in world.read("overview")}.values():
        topic, at = "sessions.overview", record.partition
        world.broker.append(topic, at, record.key, record.value, headers=[])
    verdict = judged(world)
    assert verdict.differing == 4
    assert len({one.session for one in verdict.differences}) == 4


def test_one_session_alone(world: World) -> None:
    append(world, "surface", records(world, "surface")[0])
    other = next(session for session, _ in LINES if session != SESSION)
    verdict = judged(world, session=other)
    assert verdict.ok
    assert verdict.sessions == 1
    assert verdict.events == sum(session == other for session, _ in LINES)
    assert judged(world, session=SESSION).differing == 1


# --- expired --------------------------------------------------------------------------------------


def test_a_session_whose_beginning_has_expired_is_unprovable(world: World) -> None:
    """Retention took the first records of each partition: its sessions are named, not wrong."""
    verdict = judged(world, Edited(world, "events", begin=5))
    assert verdict.ok, verdict.mismatch
    assert SESSION in verdict.unprovable
    assert verdict.unprovable_count == len(verdict.unprovable)


def test_a_surface_that_has_expired_is_unprovable(world: World) -> None:
    first = records(world, "surface")[0].offset
    verdict = judged(world, Edited(world, "surface", lambda r: r, begin=first + 1))
    assert verdict.ok, verdict.mismatch
    assert SESSION in verdict.unprovable


# --- while workers commit -------------------------------------------------------------------------


class Busy(MemoryReader):
    """A worker folds more lines whenever the topics' ends are asked for, ``times`` times."""

    def __init__(self, world: World, lines: list[tuple[str, bytes]], times: int, each: int) -> None:
        super().__init__(world.broker)
        self._world = world
        self._lines = lines
        self._left = times
        self._each = each

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        if topic != self._world.names.of("events") and self._left:
            self._left -= 1
            some, self._lines = self._lines[: self._each], self._lines[self._each :]
            self._world.feed(some)
            self._world.run()
        return super().bounds(topic, partition)


def test_sessions_that_are_being_written_are_proven_at_later_cuts() -> None:
    world = World()
    half = len(LINES) // 2
    world.feed(LINES[:half])
    world.run()
    reader = Busy(world, LINES[half:], times=10, each=7)
    verdict = judged(world, reader)
    assert verdict.ok, verdict
    assert verdict.sessions == 4
    assert half < verdict.events


def never_at_rest(edited: Callable[[World], type[Busy]] = lambda _: Busy) -> tuple[World, Busy]:
    """One session, and a worker that folds a line of it whenever an end is asked for."""
    world = World()
    mine = [(SESSION, line) for session, line in LINES if session == SESSION]
    world.feed(mine[:30])
    world.run()
    return world, edited(world)(world, mine[30:] + [(SESSION, b"?")] * 200, times=200, each=1)


def test_a_session_that_never_rests_is_proven_between_two_cuts() -> None:
    world, reader = never_at_rest()
    verdict = verify(reader, world.names, rounds=3, pause=lambda: None)
    assert verdict.ok, verdict
    assert verdict.behind > 0


def test_without_a_further_cut_it_is_undecided_and_named() -> None:
    world, reader = never_at_rest()
    verdict = verify(reader, world.names, rounds=0, pause=lambda: None)
    assert not verdict.ok
    assert verdict.undecided == (SESSION,)
    assert verdict.differing == 0


def test_a_stray_row_is_found_although_its_session_never_rests() -> None:
    world, reader = never_at_rest()
    row = records(world, "transcript")[0]
    value = bytearray(row.value or b"")
    value[-3] ^= 1
    offset = append(world, "transcript", row, bytes(value))
    verdict = verify(reader, world.names, rounds=9, pause=lambda: None)
    assert (verdict.differing, verdict.undecided) == (1, ())
    assert verdict.mismatch is not None
    assert (verdict.mismatch.topic, verdict.mismatch.offset) == (row.topic, offset)


def test_a_broken_surface_is_found_although_its_session_never_rests() -> None:
    def swapped(world: World) -> type[Busy]:
        one, other = records(world, "surface")[:2]

        class Swapped(Busy):
            def read(
                self, topic: str, partition: int, start: int = 0, end: int | None = None
            ) -> Iterator[InRecord]:
                swap = {one.offset: other, other.offset: one} if topic == one.topic else {}
                for record in super().read(topic, partition, start, end):
                    yield swap.get(record.offset, record)

        return Swapped

    world, reader = never_at_rest(swapped)
    verdict = verify(reader, world.names, rounds=4, pause=lambda: None)
    assert verdict.differing == 1
    assert verdict.mismatch is not None
    assert "comes later" in verdict.mismatch.what


# --- across clusters ------------------------------------------------------------------------------


def test_two_clusters_with_the_same_bytes_have_the_same_digests(world: World) -> None:
    """Other partitions, other batches, other offsets, another order of the sessions."""
    other = World(partitions=5)
    world_lines = [*LINES, (SESSION, b"?")]
    names = sorted({session for session, _ in world_lines}, reverse=True)
    for name in names:
        other.feed([(session, line) for session, line in world_lines if session == name])
        other.run(batch=7)
    one, two = judged(world), judged(other)
    assert two.ok
    assert {role: found.digest for role, found in one.topics.items()} == {
        role: found.digest for role, found in two.topics.items()
    }
    other.feed([(SESSION, b"??")])
    other.run()
    three = judged(other)
    for role in ("events", "overview", "deadletter"):
        assert three.topics[role].digest != one.topics[role].digest


def test_the_digest_tells_damage_that_counts_do_not(world: World) -> None:
    one, other = records(world, "surface")[1:3]

    def swap(found: list[InRecord]) -> list[InRecord]:
        swapped = {one.offset: other, other.offset: one}
        return [swapped.get(record.offset, record) for record in found]

    right, wrong = judged(world), judged(world, Edited(world, "surface", swap))
    assert wrong.topics["surface"].count == right.topics["surface"].count
    assert wrong.topics["surface"].digest != right.topics["surface"].digest
    assert wrong.topics["transcript"] == right.topics["transcript"]


def test_parked_sessions_are_proven_with_the_patterns_of_the_workers() -> None:
    world = World()
    world.feed(LINES[: len(LINES) // 2])
    world.append(SESSION.encode(), b"?", partition=AT)
    world.feed(LINES[len(LINES) // 2 :])
    names, strict = world.names, (SESSION,)
    build(
        WorkerSettings(
            broker=world.broker,
            instance="1",
            prefix=names.prefix,
            application=names.application,
            strict=strict,
            stop_at_end=True,
        )
    ).run()
    verdict = verify(MemoryReader(world.broker), names, strict=matcher(strict), pause=lambda: None)
    assert verdict.ok, verdict.mismatch
    assert verdict.dead_letters > 1, "the offender, and what came after it"
    assert judged(world).differing > 0, "others park than were told to"


# --- the rest -------------------------------------------------------------------------------------


def test_what_does_not_fit_in_memory_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains, rows and states are the same when next to nothing is kept."""
    world = World(partitions=1)
    world.feed(LINES)
    world.run()
    whole = judged(world)
    monkeypatch.setattr(scratch, "KEPT_CHAINS", 2)
    monkeypatch.setattr(scratch, "KEPT_LASTS", 3)
    monkeypatch.setattr("pipeline.proof.partition.RESIDENT", 1)
    monkeypatch.setattr("pipeline.proof.partition.BATCH", 5)
    assert whole.ok
    assert judged(world) == whole


def test_a_commit_beyond_the_end_is_another_topic(world: World) -> None:
    reader = MemoryReader(world.broker)
    reader.committed = lambda group, topic: {AT: 10_000}  # type: ignore[method-assign]
    with pytest.raises(Fatal, match="made anew"):
        judged(world, reader)


def test_without_topics_it_says_so() -> None:
    world = World()
    with pytest.raises(Fatal, match="topics create"):
        verify(MemoryReader(world.broker), msgspec.structs.replace(world.names, prefix="x."))
