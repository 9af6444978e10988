"""A static member that is back in the middle of a cooperative rebalance: nobody is ever given what
it had been on its way to give up, until the group deals anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.source import KafkaSource, SourceSettings
from pipeline.topics import Names, specs

PARTITIONS = 4
PATIENCE_S = 40.0


def held_by(*sources: KafkaSource) -> set[int]:
    return {partition for source in sources for partition in source._mine}


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it did not come about in time"


def test_a_partition_that_nobody_was_given_is_seen_and_dealt_out_again(
    kafka: str, topic_prefix: str
) -> None:
    cluster, names = Cluster(kafka), Names(topic_prefix, topic_prefix + "app")
    with KafkaTopics(cluster) as topics:
        topics.create(specs(names, PARTITIONS))

    def member(name: str) -> KafkaSource:
        made = KafkaSource(cluster, SourceSettings(names.of("events"), names.application, name))
        stack.callback(made.close)
        return made

    with ExitStack() as stack:
        first, second = member("first"), member("second")
        until(lambda: first.poll(0.2).assigned != () or len(first._mine) == PARTITIONS)

        def dealt() -> bool:
            """The first was told what it keeps, and gave up the rest, but has not joined again."""
            second.poll(0.05)
            first.poll(0.05)
            return len(first._mine) == PARTITIONS // 2

        until(dealt)
        first.close(leave=False)
        again = member("first")

        def at_rest() -> bool:
            again.poll(0.1)
            second.poll(0.1)
            return bool(again._mine) and again._stable and second._stable

        until(at_rest)
        everything = set(range(PARTITIONS))
        if held_by(again, second) != everything:  # else the group was quicker than we
            seen = again.ownerless() | second.ownerless()
            assert seen == everything - held_by(again, second)
            keeper = again if again.ownerless() else second
            keeper.abandon(leave=True)

        def whole() -> bool:
            again.poll(0.1)
            second.poll(0.1)
            return held_by(again, second) == everything

        until(whole)
        assert not again.ownerless()
        assert not second.ownerless()
