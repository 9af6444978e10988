"""A reader that waits: each record once, however often a read breaks off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.errors import Retriable
from pipeline.memory_ends import MemoryReader
from pipeline.memory_time import VirtualTime
from pipeline.patient import PatientReader
from pipeline.ports import InRecord
from tests.pipeline.world import World

PATIENCE_S = 60.0


class Shaky(MemoryReader):
    """Fails so often before each answer, and in a read after each two records; each time takes
    ``seconds``."""

    def __init__(self, world: World, time: VirtualTime, *, times: int, seconds: float) -> None:
        super().__init__(world.broker)
        self._time, self._times, self._seconds = time, times, seconds
        self.left = times

    def _shake(self) -> None:
        if self.left:
            self.left -= 1
            self._time.sleep(self._seconds)
            raise Retriable("no answer")
        self.left = self._times

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        self._shake()
        return super().bounds(topic, partition)

    def partitions(self, topic: str) -> int:
        self._shake()
        return super().partitions(topic)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        self._shake()
        return super().committed(group, topic)

    def read(
        self, topic: str, partition: int, start: int = 0, end: int | None = None
    ) -> Iterator[InRecord]:
        self._shake()
        for n, record in enumerate(super().read(topic, partition, start, end)):
            if n == 2:
                raise Retriable("broken off")
            yield record


def patient(*, times: int, seconds: float) -> tuple[PatientReader, World]:
    world, time = World(partitions=1), VirtualTime()
    for n in range(9):
        world.append(b"s", b"%d" % n, partition=0)
    shaky = Shaky(world, time, times=times, seconds=seconds)
    return PatientReader(shaky, time, PATIENCE_S), world


@pytest.mark.parametrize("end", [None, 7])
def test_a_read_that_breaks_off_goes_on_behind_its_last_record(end: int | None) -> None:
    reader, world = patient(times=3, seconds=5.0)
    read = [record.offset for record in reader.read(world.names.of("events"), 0, 1, end)]
    assert read == list(range(1, end or 9))


def test_questions_are_asked_again() -> None:
    reader, world = patient(times=3, seconds=5.0)
    assert reader.partitions(world.names.of("events")) == 1
    assert reader.bounds(world.names.of("events"), 0) == (0, 9)
    assert reader.committed(world.names.application, world.names.of("events")) == {}


def test_patience_ends_with_the_last_error() -> None:
    reader, world = patient(times=1_000, seconds=5.0)
    with pytest.raises(Retriable, match="no answer"):
        reader.bounds(world.names.of("events"), 0)
    with pytest.raises(Retriable, match="no answer"):
        list(reader.read(world.names.of("events"), 0, 0, 9))


def test_what_took_as_long_by_itself_is_not_tried_again() -> None:
    reader, world = patient(times=1, seconds=PATIENCE_S)
    with pytest.raises(Retriable):
        reader.bounds(world.names.of("events"), 0)
