"""What is special about topics in memory; the ports' promises are in tests/contracts."""

from __future__ import annotations

import threading
import time

import pytest

from pipeline.errors import CommitUnknown, Fatal, Retriable
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, MemorySource
from pipeline.ports import Member


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker(now_ms=lambda: 123)
    broker.create("t", 2)
    return broker


def values(broker: MemoryBroker, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in broker.fetch("t", partition, 0, 100)[0]]


def test_records_carry_their_time_of_producing(broker: MemoryBroker) -> None:
    assert broker.append("t", 0, b"k", b"v") == 0
    (record,), after = broker.fetch("t", 0, 0, 100)
    assert (record.timestamp, after) == (123, 1)


def test_an_open_transaction_hides_what_follows_it(broker: MemoryBroker) -> None:
    broker.append("t", 0, None, b"before")
    txn = broker.begin("x", broker.init_producer("x"))
    broker.append("t", 0, None, b"inside", txn=txn)
    broker.append("t", 0, None, b"after")
    assert values(broker) == [b"before"]
    assert (broker.stable("t", 0), broker.end("t", 0)) == (1, 3)
    broker.commit(txn)
    assert values(broker) == [b"before", b"inside", b"after"]
    assert broker.end("t", 0) == 4, "the marker takes an offset"


def test_aborted_records_stay_hidden_and_the_position_moves_over_them(
    broker: MemoryBroker,
) -> None:
    txn = broker.begin("x", broker.init_producer("x"))
    broker.append("t", 0, None, b"inside", txn=txn)
    broker.abort(txn)
    assert broker.fetch("t", 0, 0, 100) == ([], 2)
    with pytest.raises(CommitUnknown):
        broker.commit(txn)


def test_offsets_of_an_open_transaction_are_waited_for(broker: MemoryBroker) -> None:
    member = broker.join("g", "t")
    txn = broker.begin("x", broker.init_producer("x"))
    broker.add_offsets(txn, "g", {0: 5}, Member(1, member))
    with pytest.raises(Retriable, match="open"):
        broker.committed("g")
    broker.commit(txn)
    assert broker.committed("g") == {0: 5}
    assert broker.committed("g", [1]) == {}


def test_a_partition_lost_and_given_back_between_two_polls_is_told(broker: MemoryBroker) -> None:
    first, second = MemorySource(broker, "g", "t"), MemorySource(broker, "g", "t")
    assert first.poll(0).assigned == (0, 1)
    second.poll(0)
    second.close()
    polled = first.poll(0)
    assert (polled.revoked, polled.assigned) == ((1,), (1,))


def test_a_member_taken_for_dead_loses_all_and_joins_anew(broker: MemoryBroker) -> None:
    source = MemorySource(broker, "g", "t")
    source.poll(0)
    (member,) = broker.members("g")
    broker.leave("g", member)
    polled = source.poll(0)
    assert polled.revoked == (0, 1)
    assert not polled.member.joined
    assert source.poll(0).assigned == (0, 1)


def test_a_poll_waits_for_records(broker: MemoryBroker) -> None:
    source = MemorySource(broker, "g", "t")
    source.poll(0)
    source.start(0, None)
    writer = threading.Timer(0.05, broker.append, ("t", 0, None, b"v"))
    writer.start()
    began = time.monotonic()
    assert source.poll(10).records[0][0].value == b"v"
    assert time.monotonic() - began < 5
    writer.join()


def test_a_batch_is_bounded(broker: MemoryBroker) -> None:
    for n in range(10):
        broker.append("t", n % 2, None, b"%d" % n)
    source = MemorySource(broker, "g", "t", batch=3)
    source.poll(0)
    source.start(0, 1)
    source.start(1, None)
    sizes = [sum(map(len, source.poll(0).records.values())) for _ in range(4)]
    assert sizes == [3, 3, 3, 0]


def test_topics_that_are_wrong(broker: MemoryBroker) -> None:
    broker.create("t", 2)
    with pytest.raises(Fatal, match="has 2 partitions, not 3"):
        broker.create("t", 3)
    with pytest.raises(Fatal, match="does not exist"):
        broker.append("u", 0, None, b"v")
    with pytest.raises(Fatal, match="no partition 2"):
        broker.append("t", 2, None, b"v")
    assert MemoryReader(broker).partitions("u") == 0
