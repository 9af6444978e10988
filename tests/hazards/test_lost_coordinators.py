"""The transaction coordinator is killed, two of three brokers go on, and a call never returns."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.structs import ConsumerGroupMetadata

from pipeline.errors import Retriable
from pipeline.kafka.sink import KafkaSink, KafkaTransaction
from pipeline.ports import Member
from tests.contracts.deployment import out

from .client import Outcome, gone, in_thread, offsets, topic, transactional
from .ends import CALL_S, Ends, Unwatched, ends_on
from .node import Proxied

pytestmark = pytest.mark.slow

#: The next coordinator is there after 6 s, as the nodes are set.
RECOVERED_S = 30.0


class Fault:
    """What came of three workers' ``send_offsets`` when their coordinator was killed, while it is
    away and another has taken over; ``published`` is what the guarded one made visible then."""

    def __init__(self, outcomes: dict[str, Outcome], published: list[bytes | None]) -> None:
        self.outcomes = outcomes
        self.published = published


@pytest.fixture(scope="module")
def fault(three: Proxied) -> Iterator[Fault]:
    name = topic(three.bootstrap, copies=3)
    with ExitStack() as stack:
        ends = stack.enter_context(ends_on(three.bootstrap, copies=3))
        producer = stack.enter_context(transactional(three.bootstrap, name))
        broker = coordinator(producer)
        guarded = sink_at(broker, ends)
        unguarded = sink_at(broker, ends, Unwatched())
        member = anyone(ends)
        transactions = begun(guarded), begun(unguarded)
        producer.begin_transaction()
        producer.send(name, b"value", partition=0).get(10)
        three.cluster.signal(broker, signal.SIGKILL)  # for good: the cluster ends with this module
        group = ConsumerGroupMetadata(f"{name}-group")
        outcomes = {
            "client": in_thread(
                lambda: producer.send_offsets_to_transaction(offsets(name, p0=1), group)
            ),
            "sink": in_thread(lambda: send_offsets(transactions[0], member)),
            "unguarded": in_thread(lambda: send_offsets(transactions[1], member)),
        }
        outcomes["sink"].join(2 * CALL_S)
        publish_at_last(guarded, member)
        for which in ("client", "unguarded"):
            outcomes[which].join(CALL_S)
        yield Fault(outcomes, ends.values())


def coordinator(producer: KafkaProducer) -> int:
    """The broker that keeps the producer's transactions."""
    node: Any = producer._transaction_manager._transaction_coordinator
    return int(str(node).rpartition("-")[2])


def sink_at(broker: int, ends: Ends, clients: Unwatched | None = None) -> KafkaSink:
    """A sink whose coordinator is that broker: which it is hangs on its name."""
    for n in range(30):
        sink = ends.sink(instance=f"{type(clients).__name__}{n}", clients=clients)
        if coordinator(sink._producer) == broker:
            return sink
        sink.close()
    raise AssertionError(f"no transactional id is broker {broker}'s")


def anyone(ends: Ends) -> Member:
    """Whom the group does not ask for more, so that no coordinator but one matters."""
    return Member(0, "anyone", ConsumerGroupMetadata(ends.names.application))


def begun(sink: KafkaSink) -> KafkaTransaction:
    transaction = sink.begin()
    transaction.send(out(b"before"))
    transaction.flush()
    return transaction


def send_offsets(transaction: KafkaTransaction, member: Member) -> None:
    transaction.send_offsets({0: 1}, member)
    transaction.flush()


def publish_at_last(sink: KafkaSink, member: Member) -> None:
    """As the worker does it: abandon, open, once more."""
    until = time.monotonic() + RECOVERED_S
    while True:
        sink.abandon()
        try:
            sink.open()
            transaction = sink.begin()
            transaction.send(out(b"after"))
            send_offsets(transaction, member)
            transaction.commit()
        except Retriable:
            assert time.monotonic() < until, "nothing could be committed"
        else:
            return


def test_h6_the_clients_call_never_returns(fault: Fault) -> None:
    assert fault.outcomes["client"].waits(), gone("a call that does not return", "the watchdog")


def test_the_watchdog_ends_the_call_and_the_sink_goes_on(fault: Fault) -> None:
    assert isinstance(fault.outcomes["sink"].error, Retriable)
    assert fault.published == [b"after"]


def test_without_the_watchdog_the_sink_hangs_as_well(fault: Fault) -> None:
    assert fault.outcomes["unguarded"].waits()
