"""The client's known lapses are part of the simulated client, as tests/hazards shows them on a real
broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka import TopicPartition
from kafka import errors as raised
from kafka.structs import MemberState, OffsetAndMetadata

from pipeline.kafka.simulated import SimulatedClients
from pipeline.kafka.simulated_brokers import Brokers
from pipeline.memory_network import Fate, Process
from pipeline.memory_time import Hang, VirtualTime

GROUP, TOPIC = "g", "t"
SETTINGS = {
    "transactional_id": "x",
    "transaction_timeout_ms": 60_000,
    "request_timeout_ms": 3_000,
    "delivery_timeout_ms": 4_000,
    "max_block_ms": 10_000,
    "retry_backoff_ms": 10,
    "linger_ms": 5,
    "max_request_size": 1_000_000,
}


class Silent:
    """A rebalance listener that writes down."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int]]] = []

    def _hear(self, what: str, partitions: Any) -> None:
        self.heard.append((what, sorted(at.partition for at in partitions)))

    def on_partitions_assigned(self, new: Any) -> None:
        self._hear("assigned", new)

    def on_partitions_revoked(self, old: Any) -> None:
        self._hear("revoked", old)

    def on_partitions_lost(self, old: Any) -> None:
        self._hear("lost", old)


class World:
    """Brokers, and processes that reach them. ``fates`` are of the next requests by name."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.brokers = Brokers(self.time)
        self.brokers.memory.create(TOPIC, 2)
        self.fates: list[tuple[str, Fate]] = []
        self.brokers.network.fate = self._fate

    def _fate(self, _: str, request: str) -> Fate:
        for entry in self.fates:
            if entry[0] == request:
                self.fates.remove(entry)
                return entry[1]
        return Fate.DONE

    def producer(self, **more: Any) -> Any:
        producer = SimulatedClients(self.brokers, Process("p")).producer(**SETTINGS | more)
        producer.init_transactions()
        return producer

    def member(self, name: str, **more: Any) -> tuple[Any, Silent]:
        settings = {
            "group_id": GROUP,
            "isolation_level": "read_committed",
            "session_timeout_ms": 10_000,
            "heartbeat_interval_ms": 1_000,
            "max_poll_interval_ms": 60_000,
            "max_poll_records": 100,
        }
        consumer = SimulatedClients(self.brokers, Process(name)).consumer(**settings | more)
        listener = Silent()
        consumer.subscribe([TOPIC], listener=listener)
        return consumer, listener

    def values(self, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.brokers.memory.fetch(TOPIC, partition, 0, 100)[0]]

    def committed(self) -> dict[int, int]:
        return self.brokers.memory.committed(GROUP)


@pytest.fixture
def world() -> World:
    return World()


def offsets(**of: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(TOPIC, int(p[1:])): OffsetAndMetadata(n, "", -1) for p, n in of.items()}


def settle(*consumers: Any) -> None:
    for _ in range(8):
        for consumer in consumers:
            consumer.poll(timeout_ms=1_000)


def lose_a_record(world: World, producer: Any) -> Any:
    """One record's delivery time passes, its requests being lost."""
    world.fates = [("Produce", Fate.LOST)] * 3
    future = producer.send(TOPIC, b"lost", partition=0)
    producer.flush(timeout=20)
    world.fates = []
    return future


def test_h1_a_commit_returns_although_a_record_is_lost(world: World) -> None:
    producer = world.producer()
    producer.begin_transaction()
    producer.send(TOPIC, b"kept", partition=1)
    producer.flush(timeout=5)
    lost = lose_a_record(world, producer)
    assert isinstance(lost.exception, raised.KafkaTimeoutError)
    producer.commit_transaction()
    assert (world.values(0), world.values(1)) == ([], [b"kept"])


def test_h1b_a_commit_returns_although_the_broker_aborted(world: World) -> None:
    producer = world.producer()
    producer.begin_transaction()
    kept = producer.send(TOPIC, b"kept", partition=1)
    producer.flush(timeout=5)
    lose_a_record(world, producer)
    more = producer.send(TOPIC, b"more", partition=0)
    producer.commit_transaction()
    assert kept.succeeded()
    assert isinstance(more.exception, raised.OutOfOrderSequenceNumberError)
    assert (world.values(0), world.values(1)) == ([], [])


def test_h1c_the_next_transaction_loses_its_first_batch(world: World) -> None:
    producer = world.producer()
    producer.begin_transaction()
    lose_a_record(world, producer)
    producer.commit_transaction()
    producer.begin_transaction()
    first = producer.send(TOPIC, b"first", partition=0)
    producer.flush(timeout=20)
    assert isinstance(first.exception, raised.OutOfOrderSequenceNumberError)
    assert world.values(0) == []


def test_h1_a_failed_future_may_be_of_a_record_that_arrived(world: World) -> None:
    producer = world.producer()
    producer.begin_transaction()
    world.fates = [("Produce", Fate.UNANSWERED)] * 3
    future = producer.send(TOPIC, b"there", partition=0)
    producer.flush(timeout=20)
    assert isinstance(future.exception, raised.KafkaTimeoutError)
    producer.commit_transaction()
    assert world.values(0) == [b"there"]


def test_h3_an_evicted_member_is_nobody_and_its_offsets_are_taken(world: World) -> None:
    consumer, listener = world.member("a")
    settle(consumer)
    before = consumer.group_metadata()
    assert before.state == MemberState.STABLE
    world.time.sleep(70)
    after = consumer.group_metadata()
    assert (after.generation_id, after.member_id) == (-1, "")
    assert len(consumer.assignment()) == 2
    producer = world.producer()
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets(p0=5), after)
    producer.commit_transaction()
    assert world.committed() == {0: 5}
    producer.begin_transaction()
    with pytest.raises(raised.CommitFailedError):
        producer.send_offsets_to_transaction(offsets(p0=6), before)
    settle(consumer)
    assert listener.heard == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]


@pytest.mark.parametrize(("fate", "visible"), [(Fate.LOST, []), (Fate.UNANSWERED, [b"v"])])
def test_h4_a_commit_that_raised_may_have_taken_effect(
    world: World, fate: Fate, visible: list[bytes]
) -> None:
    producer = world.producer()
    producer.begin_transaction()
    producer.send(TOPIC, b"v", partition=0)
    producer.flush(timeout=5)
    world.fates = [("EndTxn", fate)]
    with pytest.raises(raised.KafkaError, match="unknown reasons"):
        producer.commit_transaction()
    assert world.values(0) == visible
    with pytest.raises(raised.KafkaError):
        producer.begin_transaction()


def test_h4b_a_commit_waits_as_long_as_its_coordinator_is_away(world: World) -> None:
    producer = world.producer()
    producer.begin_transaction()
    producer.send(TOPIC, b"v", partition=0)
    producer.flush(timeout=5)
    world.brokers.network.kill(world.brokers.coordinator("x"), 40.0)
    began = world.time.monotonic()
    producer.commit_transaction()
    assert world.time.monotonic() - began >= 40
    assert world.values(0) == [b"v"]


def test_h5_offsets_of_an_aborted_transaction_are_committed_with_the_next(world: World) -> None:
    consumer, _ = world.member("a")
    settle(consumer)
    stale = consumer.group_metadata()._replace(generation_id=99)
    producer = world.producer()
    producer.begin_transaction()
    with pytest.raises(raised.CommitFailedError):
        producer.send_offsets_to_transaction(offsets(p1=777), stale)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets(p0=1), consumer.group_metadata())
    producer.commit_transaction()
    assert world.committed() == {0: 1, 1: 777}


def test_h6_a_call_never_returns_after_its_request_was_dropped(world: World) -> None:
    consumer, _ = world.member("a")
    settle(consumer)
    producer = world.producer()
    producer.begin_transaction()
    world.brokers.forgets = lambda request: request == "TxnOffsetCommit"
    with pytest.raises(Hang):
        producer.send_offsets_to_transaction(offsets(p0=1), consumer.group_metadata())


def test_an_open_transaction_with_offsets_is_waited_for(world: World) -> None:
    consumer, _ = world.member("a")
    settle(consumer)
    at, producer = TopicPartition(TOPIC, 0), world.producer(transaction_timeout_ms=8_000)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets(p0=1), consumer.group_metadata())
    with pytest.raises(raised.KafkaTimeoutError):
        consumer.committed(at, timeout_ms=2_000)
    assert consumer.committed(at, timeout_ms=20_000) is None, "the broker aborted it in time"
    with pytest.raises(raised.KafkaError):
        producer.commit_transaction()


def _fenced(call: Callable[[], object]) -> None:
    with pytest.raises(raised.ProducerFencedError):
        call()


def test_a_twin_fences_commits_and_offsets(world: World) -> None:
    elder = world.producer()
    elder.begin_transaction()
    elder.send(TOPIC, b"elder", partition=0)
    elder.flush(timeout=5)
    younger = world.producer()
    _fenced(elder.commit_transaction)
    younger.begin_transaction()
    younger.send(TOPIC, b"younger", partition=0)
    younger.flush(timeout=5)
    younger.commit_transaction()
    assert world.values(0) == [b"younger"]


def test_cooperative_only_what_moves_is_given_up(world: World) -> None:
    one, heard = world.member("a")
    settle(one)
    two, other = world.member("b")
    settle(one, two)
    assert heard.heard == [("assigned", [0, 1]), ("revoked", [1])]
    assert other.heard == [("assigned", [1])]


def test_a_static_member_keeps_its_place_and_fences_its_elder(world: World) -> None:
    elder, _ = world.member("a", group_instance_id="i")
    settle(elder)
    before = elder.group_metadata()
    younger, heard = world.member("b", group_instance_id="i")
    settle(younger)
    after = younger.group_metadata()
    assert heard.heard == [("assigned", [0, 1])]
    assert after.generation_id == before.generation_id
    assert after.member_id != before.member_id
    producer = world.producer()
    producer.begin_transaction()
    with pytest.raises(raised.FencedInstanceIdError):
        producer.send_offsets_to_transaction(offsets(p0=1), before)
