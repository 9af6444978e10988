"""What is known of each session when an ingest starts: what the whole topic says, of less."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from operators import parking
from operators.events import Header
from operators.parking import Mark
from operators.session import Out, Session
from pipeline.batch import read
from pipeline.cursor import Already
from pipeline.identity import EVENTS_ID, NEXT
from pipeline.memory_ends import MemoryReader
from pipeline.ports import InRecord, OutRecord
from pipeline.resume import Known, already_in
from pipeline.simulate import fleet
from pipeline.state import state_key
from pipeline.topics import Names
from schemas import snapshot
from schemas.inbound import read_line
from schemas.snapshot_place import header_digest
from tests.pipeline.world import World, interleaved, partition_of
from tests.schemas.logs import header, row, turns


class Reads(MemoryReader):
    """Counts the records that it gives, by topic."""

    def __init__(self, world: World) -> None:
        super().__init__(world.broker)
        self.given: dict[str, int] = {}

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        for record in super().read(topic, partition, start, end):
            self.given[topic] = self.given.get(topic, 0) + 1
            yield record


def by_events_alone(world: World) -> Known:
    """The topic read whole: no states are looked at."""
    return already_in(MemoryReader(world.broker), Names(world.names.prefix, "nobody"))


def plain(known: Known) -> dict[str, Already]:
    """What both ways must agree on: lines without seq are the letters' matter once folded."""
    return {name: replace(found, unnumbered=()) for name, found in known.sessions.items()}


@pytest.mark.parametrize("seed", range(6))
def test_states_and_the_rest_tell_what_the_whole_topic_tells(seed: int) -> None:
    world, chance = World(), random.Random(seed)
    lines = interleaved(fleet(seed, 12, events=60))
    for _ in range(30):  # lines again, out of their order, and what is none
        at = chance.randrange(len(lines))
        name, line = lines[chance.randrange(len(lines))]
        lines.insert(at, (name, chance.choice([line, line, b"?", line[:-3], b'{"seq":7}'])))
    cut = chance.randrange(len(lines))
    world.feed(lines[:cut])
    world.run(batch=chance.choice([1, 7, 50]))
    world.feed(lines[cut:])
    reads = Reads(world)
    known = already_in(reads, world.names)
    assert plain(known) == plain(by_events_alone(world))
    assert reads.given.get(world.names.of("events"), 0) == len(lines) - cut


def test_a_later_generation_counts_and_an_earlier_one_does_not() -> None:
    world = World()
    world.feed([("s", line) for line in turns(3)])
    world.feed([("s", line) for line in turns(1)], epoch=1)
    world.run()
    world.feed([("s", row(9))], epoch=0)
    world.feed([("t", line) for line in turns(1, session="t")], epoch=4)
    known = already_in(MemoryReader(world.broker), world.names)
    assert {name: (it.epoch, it.next_seq) for name, it in known.sessions.items()} == {
        "s": (1, 3),
        "t": (4, 3),
    }
    assert plain(known) == plain(by_events_alone(world))


def test_what_waits_for_a_person_is_on_the_topic_all_the_same() -> None:
    world = World()
    world.feed([("s", line) for line in [*turns(1), b"?", row(3), row(4)]])
    park(world)
    known = already_in(MemoryReader(world.broker), world.names)
    assert known.sessions["s"].next_seq == 5


def park(world: World) -> None:
    """A state of session ``s`` that was parked at its fault, with all that follows put aside."""
    partition = partition_of("s")
    session = Session("s")
    session.park_at_faults(True)

    for item in read(MemoryReader(world.broker).read(world.names.of("events"), partition)):
        parking.take(session, item.line, Mark(item.record.offset), Out())
    assert session.parked is not None
    assert session.next_seq == 3
    head = snapshot.save(session)[""]
    place = (NEXT, b"%d" % world.broker.end(world.names.of("events"), partition))
    record = OutRecord("state", partition, state_key("s", ""), head, [place])
    topic = world.names.of("state")
    world.broker.append(topic, partition, record.key, record.value, headers=record.headers)


def test_states_of_another_events_topic_tell_nothing() -> None:
    world = World()
    world.feed([("s", line) for line in turns(2)])
    world.run()
    reads = Reads(world)
    known = already_in(reads, world.names, events_id="another")
    assert partition_of("s") not in known.folded
    assert plain(known) == plain(by_events_alone(world))
    assert reads.given[world.names.of("events")] == len(turns(2))


@pytest.mark.parametrize("head", [b"{", b'{"version":99,"next_seq":1,"session":"s"}'])
def test_a_state_that_this_program_cannot_read_is_no_state(head: bytes) -> None:
    world = World()
    world.feed([("s", line) for line in turns(2)])
    world.run()
    at = partition_of("s")
    headers = [(EVENTS_ID, b""), (NEXT, b"1")]
    world.broker.append(world.names.of("state"), at, b"s", head, headers=headers)
    known = already_in(MemoryReader(world.broker), world.names)
    assert at not in known.folded
    assert plain(known) == plain(by_events_alone(world))


def test_a_topic_shorter_than_the_states_say_is_read_whole() -> None:
    world = World()
    at = partition_of("s")
    world.feed([("s", line) for line in turns(1)])
    world.broker.append(world.names.of("state"), at, b"\x1f", b"", headers=[(NEXT, b"99")])
    known = already_in(MemoryReader(world.broker), world.names)
    assert (known.folded.get(at), known.sessions["s"].next_seq) == (None, 3)


def test_how_many_were_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.resume.PROGRESS_RECORDS", 2)
    world = World()
    world.feed([("s", line) for line in turns(1)])
    told: list[int] = []
    already_in(MemoryReader(world.broker), world.names, "", told.append)
    assert told == [2, 4]


def test_every_header_that_differs_in_what_a_state_keeps_is_another() -> None:

    lines = [header(), header(version=3), header(cwd="/c"), header(createdAt=8), header("t")]
    lines += [header(parentSession="p"), header(origin="subagent"), header(delegationDepth=1)]
    read = [read_line(line) for line in lines]
    digests = {header_digest(line) for line in read if isinstance(line, Header)}
    assert len(digests) == len(lines)
