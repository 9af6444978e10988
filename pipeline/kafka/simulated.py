"""`Clients` over brokers in memory and virtual time: a place to run what talks to Kafka against
faults that a real broker shows once in a year.

>>> brokers = Brokers(VirtualTime())
>>> clients = SimulatedClients(brokers, Process("worker-1"))
>>> cluster = Cluster("simulated", {}, clients)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka import errors as raised
from kafka.structs import OffsetAndMetadata

from pipeline.errors import Retriable
from pipeline.memory_groups import Claim
from pipeline.memory_log import Refusal
from pipeline.memory_network import Process

from .simulated_brokers import Brokers, Site
from .simulated_consumer import SimulatedConsumer
from .simulated_producer import SimulatedProducer

T = TypeVar("T")
ASK_S = 5.0


class SimulatedClients:
    """What one process makes (`clients.Clients`)."""

    def __init__(self, brokers: Brokers, process: Process) -> None:
        self._site = Site(brokers, process)

    def producer(self, **settings: Any) -> SimulatedProducer:
        return SimulatedProducer(self._site, settings)

    def consumer(self, **settings: Any) -> SimulatedConsumer:
        return SimulatedConsumer(self._site, settings)

    def admin(self, **_settings: Any) -> SimulatedAdmin:
        return SimulatedAdmin(self._site)

    def bounded(self, what: str, seconds: float, call: Callable[[], T]) -> T:
        try:
            return self._site.time.limited(seconds, call)
        except TimeoutError:
            raise Retriable(f"{what} did not return within {seconds:g} s") from None

    def started(self, what: str, seconds: float, call: Callable[[], T]) -> Callable[[], T]:
        """Over before anything else begins: one thread has virtual time at once."""
        try:
            outcome = self.bounded(what, seconds, call)
        except (raised.KafkaError, Retriable) as error:
            return partial(_throw, error)
        return lambda: outcome

    def monotonic(self) -> float:
        return self._site.time.monotonic()

    def sleep(self, seconds: float) -> None:
        self._site.time.sleep(seconds)


def _throw(error: BaseException) -> Any:
    raise error


class SimulatedAdmin:
    """kafka-python's admin client, as far as a worker uses it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._brokers = site.brokers
        site.brokers.await_any(ASK_S)

    def describe_transactions(self, names: Iterable[str]) -> dict[str, Any]:
        found = {}
        for name in names:
            key = self._brokers.coordinator(name)

            def serve(name: str = name) -> Any:
                return SimpleNamespace(
                    producer_id=self._brokers.memory.transactions.producer_id(name)
                )

            found[name] = self._site.ask(("DescribeTransactions", key), serve, ASK_S)
        return found

    def describe_topics(self, names: Iterable[str]) -> list[dict[str, Any]]:
        topics = self._brokers.memory.topics()
        return [
            {
                "name": name,
                "error_code": 0 if name in topics else 3,
                "topic_id": name,
                "partitions": [{"partition_index": n} for n in range(topics.get(name, 0))],
            }
            for name in names
        ]

    def describe_configs(self, asked: Iterable[Any], **_: Any) -> dict[str, dict[str, Any]]:
        return {"topic": {resource.name: {} for resource in asked}}

    def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        wanted = list(partitions)
        for at in wanted:
            if not self._brokers.network.reachable(self._brokers.leader(at)):
                raise raised.KafkaTimeoutError(f"no answer about {at}")
        return {at: self._producers(at) for at in wanted}

    def _producers(self, at: TopicPartition) -> Any:
        log = self._brokers.memory.log(*at)
        active = [
            SimpleNamespace(producer_id=writer, current_transaction_start_offset=span.first)
            for writer, span in log.open.items()
        ]
        return SimpleNamespace(active_producers=active)

    def list_group_offsets(self, groups: Mapping[str, Any]) -> dict[str, Any]:
        offsets = self._brokers.memory.offsets
        found = {}
        for group in groups:
            if not offsets.decided(group):
                raise raised.UnstableOffsetCommitError
            found[group] = {
                TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
                for place, offset in offsets.committed(group).items()
            }
        return found

    def describe_groups(self, groups: Iterable[str]) -> dict[str, Any]:
        return {group: self._described(group) for group in groups}

    def _described(self, name: str) -> dict[str, Any]:
        group = self._brokers.group(name)
        dealt: Mapping[str, Any] = group.dealt()
        members = [
            {
                "member_id": member,
                "member_assignment": {
                    "assigned_partitions": [
                        {"topic": at.topic, "partitions": [at.partition]} for at in given or ()
                    ]
                },
            }
            for member, given in dealt.items()
        ]
        return {"group_state": group.state.capitalize(), "members": members}

    def remove_group_members(self, group: str, members: Iterable[Any]) -> None:
        """Static members, by their instance."""
        for member in members:
            instance = member.group_instance_id

            def serve(instance: str = instance) -> None:
                found = self._brokers.group(group)
                holder = found.holder(instance)
                if holder is None:
                    raise Refusal("UNKNOWN_MEMBER_ID")
                found.leave(Claim(holder, found.generation, instance))

            self._site.ask(("LeaveGroup", self._brokers.coordinator(group)), serve, ASK_S)

    def close(self) -> None:
        """Nothing is open."""
