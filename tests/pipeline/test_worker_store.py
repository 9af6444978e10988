"""A worker over its local store: a restart reads the difference, and damage costs nothing but
reading anew."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pipeline.errors import Fatal
from pipeline.loop import Policy, Worker
from pipeline.memory_ends import MemoryReader
from pipeline.observe import Observer
from pipeline.outside import Ends
from pipeline.simulate import fleet
from pipeline.state import States
from pipeline.store import LocalStore, Origin
from pipeline.wiring import Running, wire
from tests.pipeline.world import World, interleaved

ORIGIN = Origin("cluster-1", "topic-1", "foldstream", 86_400.0)
LINES = interleaved(fleet(91, 6, events=60))
HALF = len(LINES) // 2


class Read(Observer):
    """How many state records each worker read."""

    def __init__(self) -> None:
        self.records = 0
        self.failures: list[str] = []

    def restored(
        self, partition: int, sessions: int, records: int, size: int, seconds: float
    ) -> None:
        self.records += records

    def failed(self, error: Exception) -> None:
        self.failures.append(str(error))


def worker(world: World, folder: Path, observer: Observer) -> Running:
    """With room for one decoded session: all others come from the store whenever they are asked
    for."""
    states = States(LocalStore(folder, ORIGIN, write_buffer=1 << 16), capacity=1)
    ends = Ends(world.source(), world.sink(), MemoryReader(world.broker), world.names)
    policy = Policy(threading.Event(), at_end=True)
    return wire(Worker(ends, states, policy, clock=world.clock, observer=observer), states)


def run(world: World, folder: Path) -> Read:
    """Until everything on the topic is folded."""
    observer = Read()
    worker(world, folder, observer).run()
    topic, group = world.names.of("events"), world.names.application
    committed = world.broker.committed(group)
    for partition in range(world.partitions):
        records = world.broker.fetch(topic, partition, committed.get(partition, 0), 1)[0]
        assert not records, "left unfolded"
    return observer


def test_a_restart_reads_the_difference(tmp_path: Path) -> None:
    world = World()
    world.feed(LINES[:HALF])
    run(world, tmp_path / "a")
    world.feed(LINES[HALF:])
    assert run(world, tmp_path / "a").records == 0
    assert world.verify().ok
    assert run(world, tmp_path / "b").records > 0


def changed(folder: Path) -> None:
    """A bit of every value that was written out."""
    for blob in folder.rglob("*.blob"):
        data = bytearray(blob.read_bytes())
        for at in range(100, len(data) - 100, 50):
            data[at] ^= 1
        blob.write_bytes(data)


def test_damage_met_while_folding_is_read_anew_and_no_record_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.feed(LINES[:HALF])
    run(world, tmp_path)
    changed(tmp_path)
    world.feed(LINES[HALF:])
    observer = run(world, tmp_path)
    assert observer.records > 0
    assert observer.failures
    assert all("is damaged" in failure for failure in observer.failures)
    assert world.verify().ok
    assert "starting over from the committed offsets" in caplog.text


def test_what_the_topic_itself_has_damaged_ends_the_worker(tmp_path: Path) -> None:
    world = World()
    world.feed(LINES[:HALF])
    run(world, tmp_path)
    for record in world.read("state"):
        world.broker.append(world.names.of("state"), record.partition, record.key, b"no snapshot")
    world.feed(LINES[HALF:])
    with pytest.raises(Fatal, match="fold all anew"):
        run(world, tmp_path)
