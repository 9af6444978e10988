"""The rows of a session as workers publish them: from the present on, each change, no other's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.errors import Retriable
from pipeline.memory_ends import MemoryReader
from pipeline.ports import InRecord
from pipeline.rowtail import RowTail
from pipeline.simulate import fleet
from tests.pipeline.test_logtail import user
from tests.pipeline.world import World, interleaved, partition_of
from tests.schemas.logs import header


@pytest.fixture
def world() -> World:
    return World()


def write(world: World, *lines: bytes, session: str = "s", epoch: int | None = None) -> None:
    world.feed([(session, line) for line in lines], epoch)
    world.run()


def tailed(world: World) -> RowTail:
    return RowTail(lambda: MemoryReader(world.broker), world.names, "s")


def keys(tail: RowTail) -> list[str]:
    return [row.key for rows in tail.more() for row in rows if row.visibility == "transcript"]


def test_the_present_and_then_what_comes(world: World) -> None:
    write(world, header(), user(0))
    tail = tailed(world)
    assert [row.key for row in tail.present() or ()] == ["user:0"]
    assert keys(tail) == []
    write(world, user(1))
    write(world, header("t"), user(0), session="t")
    write(world, header("s\x1fx"), user(0), session="s\x1fx")
    assert keys(tail) == ["user:1"]
    assert keys(tail) == []
    assert (tail.began, tail.stale) == (1, None)


def test_no_session_of_that_name_is_none(world: World) -> None:
    write(world, header("t"), session="t")
    assert tailed(world).present() is None


def test_another_epoch_begins_anew(world: World) -> None:
    write(world, header(), user(0), user(1))
    tail = tailed(world)
    tail.present()
    write(world, header(), user(0), epoch=1)
    assert (keys(tail), tail.began, tail.epoch) == (["user:0"], 2, 1)


def test_every_change_of_every_row_comes_once() -> None:
    world = World()
    [session] = fleet(5, 1, events=80)
    lines = interleaved([session])
    world.feed(lines[:20])
    world.run()
    tail = RowTail(lambda: MemoryReader(world.broker), world.names, session.id)
    rows = {row.key: row for row in tail.present() or ()}
    for at in range(20, len(lines), 7):
        world.feed(lines[at : at + 7])
        world.run(batch=3)
        for changed in tail.more():
            for row in changed:
                assert row.key not in rows or row.rev > rows[row.key].rev
                rows[row.key] = row
    final = tailed_rows(world, session.id)
    assert {key: row for key, row in rows.items() if not row.deleted} == final
    assert partition_of(session.id) >= 0


def tailed_rows(world: World, session: str) -> dict[str, object]:
    found = RowTail(lambda: MemoryReader(world.broker), world.names, session).present()
    return {row.key: row for row in found or ()}


def test_while_the_broker_is_away_it_is_stale_and_nothing_is_missed(world: World) -> None:
    write(world, header(), user(0))
    away = False

    class Away(MemoryReader):
        def bounds(self, topic: str, partition: int) -> tuple[int, int]:
            if away:
                raise Retriable("the broker is away")
            return super().bounds(topic, partition)

    opened: list[Away] = []

    def connect() -> Away:
        opened.append(Away(world.broker))
        return opened[-1]

    tail = RowTail(connect, world.names, "s")
    tail.present()
    write(world, user(1))
    away = True
    assert (keys(tail), tail.stale) == ([], "the broker is away")
    write(world, user(2))
    away = False
    assert (keys(tail), tail.stale) == (["user:1", "user:2"], None)
    assert len(opened) == 2  # over a new connection


def test_a_topic_that_was_made_again_is_read_from_its_start(world: World) -> None:
    write(world, header(), *[user(at) for at in range(5)])
    tail = tailed(world)
    tail.present()
    again = World()
    write(again, header(), user(0))
    world.broker = again.broker
    tail.close()
    assert (keys(tail), tail.began) == (["user:0"], 2)


def test_what_is_not_ours_on_the_topic_is_passed_over(world: World) -> None:
    write(world, header(), user(0))
    tail = tailed(world)
    tail.present()
    topic, at = world.names.of("transcript"), partition_of("s")
    world.broker.append(topic, at, b"s\x1fuser:9", b"?")
    world.broker.append(topic, at, b"s\x1fuser:0", None)
    world.broker.append(topic, at, None, b"")
    assert keys(tail) == []


def test_an_open_transaction_is_not_waited_for(world: World) -> None:
    write(world, header(), user(0))

    class Held(MemoryReader):
        def read(
            self, topic: str, partition: int, start: int = 0, end: int | None = None
        ) -> Iterator[InRecord]:
            return super().read(topic, partition, start, end)

    tail = RowTail(lambda: Held(world.broker, lambda _: None), world.names, "s")
    tail.present()
    sink = world.sink("2")
    sink.open()
    world.feed([("s", user(1))])
    transaction = sink.begin()
    from pipeline.ports import OutRecord

    transaction.send(OutRecord("transcript", partition_of("s"), b"s\x1fx", b"", []))
    assert keys(tail) == []
    assert tail.stale is None
    transaction.flush()
    world.run()
    assert keys(tail) == []
