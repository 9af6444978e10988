"""What kafka-python's static membership does and does not say; the worker is built on it."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaConsumer
from kafka import errors as raised

from pipeline.errors import Fatal
from pipeline.kafka.source import KafkaSource
from tests.contracts.deployment import publish
from tests.contracts.deployment import until as polled_until

from .client import gone, joined, member, offsets, topic, transactional
from .ends import Ends
from .node import Proxied


def test_a_static_member_that_closes_keeps_its_place(node: Proxied) -> None:
    name = topic(node.bootstrap, partitions=4)
    with member(node.bootstrap, name, group_instance_id="b") as other:
        joined(other, 4)
        with member(node.bootstrap, name, group_instance_id="a") as first:
            _balanced(first, other)
            before, generation = first.assignment(), first.group_metadata().generation_id
            kept = other.assignment()
        with member(node.bootstrap, name, group_instance_id="a") as again:
            metadata = joined(again, 2)
            assert again.assignment() == before
            assert metadata.generation_id == generation
            other.poll(timeout_ms=200)
            assert other.assignment() == kept


def test_the_elder_of_two_with_one_instance_id_is_not_told(node: Proxied) -> None:
    name = topic(node.bootstrap)
    with (
        member(node.bootstrap, name, group_instance_id="a") as elder,
        transactional(node.bootstrap, name) as producer,
        member(node.bootstrap, name, group_instance_id="a") as younger,
    ):
        polled = joined(elder, 2)
        joined(younger, 2)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            elder.poll(timeout_ms=100)  # no error
        now = elder.group_metadata()
        assert now == polled, gone("the elder is not told", "that offsets are sent for a member")
        producer.begin_transaction()
        with pytest.raises(raised.FencedInstanceIdError):
            producer.send_offsets_to_transaction(offsets(name, p0=1), now)


def _balanced(one: KafkaConsumer, other: KafkaConsumer) -> None:
    until = time.monotonic() + 60
    while not len(one.assignment()) == len(other.assignment()) == 2:
        assert time.monotonic() < until, "the group did not settle"
        one.poll(timeout_ms=100)
        other.poll(timeout_ms=100)


# --- what the source makes of it ------------------------------------------------------------------


def test_a_second_worker_of_one_name_ends_the_elder(ends: Ends) -> None:
    """Not a failure to recover from: it would take the name back, and so on for ever."""
    elder, younger = ends.source("a"), ends.source("a")
    polled = polled_until(elder, lambda polled: len(polled.assigned) == 2).member
    polled_until(younger, lambda polled: len(polled.assigned) == 2)
    with pytest.raises(Fatal):
        publish(ends.sink(), [], {0: 1}, polled)
    assert ends.committed() == {}


def moved(ends: Ends, first: str | None, second: str | None) -> bool:
    """Whether the other gets its partition when a worker is started again."""
    one, other = ends.source(first), ends.source(second)
    polled_until(one, lambda polled: bool(polled.assigned))
    share(one, other)
    one.close(leave=False)
    return any(other.poll(0.1).assigned for _ in range(30))


def share(one: KafkaSource, other: KafkaSource) -> None:
    """Until each has one of the two."""
    held: dict[KafkaSource, set[int]] = {one: {0, 1}, other: set()}
    deadline = time.monotonic() + 60
    while [len(mine) for mine in held.values()] != [1, 1]:
        assert time.monotonic() < deadline, "the group did not settle"
        for source, mine in held.items():
            polled = source.poll(0.1)
            mine -= set(polled.revoked)
            mine |= set(polled.assigned)


def test_a_worker_that_is_started_again_keeps_its_partitions(ends: Ends) -> None:
    assert not moved(ends, "a", "b")


def test_without_a_name_they_go_to_the_others_and_back(ends: Ends) -> None:
    assert moved(ends, None, None)
