"""Offsets that are committed in the name of nobody, over the head of the partitions' owner."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaConsumer
from kafka import errors as raised

from pipeline.errors import Retriable
from pipeline.kafka import sink as sink_module
from pipeline.kafka.source import KafkaSource
from pipeline.ports import Member
from tests.contracts.deployment import joined as member_of
from tests.contracts.deployment import publish, until

from .client import committed, gone, joined, member, offsets, topic, transactional
from .ends import Ends
from .node import Proxied

EVICTED_MS = 1_500


def evicted(consumer: KafkaConsumer) -> None:
    """Do not poll until the client has left the group by itself."""
    deadline = time.monotonic() + 10
    while consumer.group_metadata().generation_id >= 0:
        assert time.monotonic() < deadline, "still in the group"
        time.sleep(0.1)


def test_h3_a_member_that_was_evicted_commits_over_the_new_owner(node: Proxied) -> None:
    name = topic(node.bootstrap)
    with (
        member(node.bootstrap, name, max_poll_interval_ms=EVICTED_MS) as zombie,
        member(node.bootstrap, name) as owner,
        transactional(node.bootstrap, f"{name}-zombie") as late,
        transactional(node.bootstrap, f"{name}-owner") as right,
    ):
        polled = joined(zombie, 2)
        evicted(zombie)
        assert len(zombie.assignment()) == 2  # it has no idea
        joined(owner, 2)
        right.begin_transaction()
        right.send_offsets_to_transaction(offsets(name, p0=9), owner.group_metadata())
        right.commit_transaction()
        assert committed(node.bootstrap, name) == {0: 9}

        late.begin_transaction()
        with pytest.raises(raised.CommitFailedError):
            late.send_offsets_to_transaction(offsets(name, p0=4), polled)
        late.abort_transaction()
        assert committed(node.bootstrap, name) == {0: 9}

        now = zombie.group_metadata()
        assert (now.generation_id, now.member_id) == (-1, "")
        late.begin_transaction()
        late.send_offsets_to_transaction(offsets(name, p0=4), now)
        late.commit_transaction()
    assert committed(node.bootstrap, name) == {0: 4}, gone(
        "offsets of a member without a generation are accepted", "ports.require_joined"
    )


def overtaken(ends: Ends) -> tuple[KafkaSource, Member]:
    """A source that has lost its place to another, which committed offset 9 of partition 0, and
    what the source was when it polled last."""
    zombie, owner = ends.source(max_poll_interval_ms=EVICTED_MS), ends.source()
    polled = member_of(zombie).member
    evicted(zombie._opened)
    owned = until(owner, lambda polled: len(polled.assigned) == 2).member
    publish(ends.sink(instance="owner"), [], {0: 9}, owned)
    return zombie, polled


def member_now(source: KafkaSource) -> Member:
    """What the worker would be if it looked when it commits."""
    group = source._opened.group_metadata()
    return Member(group.generation_id, group.member_id, group)


def test_offsets_are_sent_for_who_polled_and_never_for_nobody(ends: Ends) -> None:
    zombie, polled = overtaken(ends)
    assert not zombie.current(polled)  # the commit procedure ends there
    sink = ends.sink(instance="zombie")
    with pytest.raises(Retriable):
        publish(sink, [], {0: 4}, polled)
    sink.abandon()
    sink.open()
    with pytest.raises(Retriable, match="not in its group"):
        publish(sink, [], {0: 4}, member_now(zombie))
    assert ends.committed() == {0: 9}


def test_without_either_the_zombie_commits_over_the_owner(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie, _ = overtaken(ends)
    monkeypatch.setattr(sink_module, "require_joined", lambda _: None)
    publish(ends.sink(instance="zombie"), [], {0: 4}, member_now(zombie))
    assert ends.committed() == {0: 4}
