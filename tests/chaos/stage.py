"""The three brokers of a run, seen and troubled from outside: who leads what, kill, stop, start."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka import errors as raised
from kafka.admin import KafkaAdminClient, MemberToRemove

from pipeline.broker import Cluster, local_cluster
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster as Brokers
from pipeline.topics import ROLES, Names, specs

from .proxy import Proxy

BROKERS = 3
PARTITIONS = 6
IN_SYNC_S = 60.0
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"


class Stage:
    """One cluster for all rounds, and the proxy before its second listeners."""

    def __init__(self, cluster: Cluster, proxy: Proxy) -> None:
        self.cluster = cluster
        self.proxy = proxy

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def proxied(self) -> str:
        """Bootstrap servers from which a client meets the proxy alone."""
        return ",".join("{}:{}".format(*self.cluster.front(node)) for node in self.cluster.nodes)

    # --- topics -----------------------------------------------------------------------------------

    def create(self, names: Names) -> None:
        with KafkaTopics(Brokers(self.bootstrap)) as topics:
            topics.create(specs(names, PARTITIONS), replication=self.cluster.brokers)

    def delete(self, names: Names) -> None:
        """So that one round costs the next nothing."""
        with closing(self._admin()) as admin, suppress(raised.KafkaError):
            admin.delete_topics([names.of(role) for role in ROLES])

    def remove(self, group: str, instance: str) -> None:
        """A static member that is away is waited for no longer."""
        member = MemberToRemove(group_instance_id=instance)
        with closing(self._admin()) as admin:
            admin.remove_group_members(group, [member])

    def leaders(self, topic: str) -> dict[int, int]:
        """Node by partition."""
        with closing(self._admin()) as admin:
            return {
                found["partition_index"]: found["leader_id"]
                for found in _partitions(admin, [topic])
            }

    def transaction_coordinator(self, transactional_id: str) -> int:
        return self._coordinator(TRANSACTIONS, transactional_id)

    def group_coordinator(self, group: str) -> int:
        return self._coordinator(OFFSETS, group)

    def _coordinator(self, topic: str, key: str) -> int:
        """The leader of the partition that the id is hashed to."""
        leaders = self.leaders(topic)
        return leaders[java_hash(key) % len(leaders)]

    def committed(self, names: Names) -> dict[int, int]:
        with closing(self._admin()) as admin:
            offsets = admin.list_group_offsets({names.application: None})[names.application]
        return {
            at.partition: found.offset
            for at, found in offsets.items()
            if at.topic == names.of("events")
        }

    # --- nodes ------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        self.cluster.signal(node, signal.SIGKILL)

    def pause(self, node: int) -> None:
        self.cluster.signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        self.cluster.signal(node, signal.SIGCONT)

    def mend(self) -> None:
        """Every node runs, and no partition lacks a copy: another one may be lost now."""
        for node in self.cluster.nodes:
            if self.cluster.pid(node) is not None:
                self.resume(node)
        self.cluster.start(self.cluster.nodes)
        deadline = time.monotonic() + IN_SYNC_S
        while short := self._not_in_sync():
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {IN_SYNC_S:.0f} s not in sync: {', '.join(short[:5])}")
            time.sleep(0.1)

    def _not_in_sync(self) -> list[str]:
        try:
            with closing(self._admin()) as admin:
                topics = admin.list_topics()
                return [
                    f"{found['topic']}[{found['partition_index']}]"
                    for found in _partitions(admin, topics)
                    if len(found["isr_nodes"]) < self.cluster.brokers or found["leader_id"] < 0
                ]
        except raised.KafkaError as error:
            return [str(error)]

    def _admin(self) -> Any:
        return KafkaAdminClient(
            bootstrap_servers=self.bootstrap.split(","),
            request_timeout_ms=5_000,
            retry_backoff_ms=50,
            reconnect_backoff_max_ms=500,
        )


def _partitions(admin: Any, topics: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {**partition, "topic": topic["name"]}
        for topic in admin.describe_topics(list(topics))
        for partition in topic["partitions"]
    ]


def java_hash(text: str) -> int:
    """As Kafka maps an id to a partition: ``String.hashCode`` without its sign bit."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


@contextmanager
def stage(port: int | None, folder: Path | None, brokers: int = BROKERS) -> Iterator[Stage]:
    """Started, and taken down with the block. ``folder`` keeps the brokers' logs and data."""
    with local_cluster(brokers, port, folder, say, proxied=True) as cluster:
        routes = {cluster.front(node): cluster.behind(node) for node in cluster.nodes}
        with Proxy(routes) as proxy:
            yield Stage(cluster, proxy)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
