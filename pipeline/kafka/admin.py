"""Topics on a real broker: described and created as ``topics.py`` says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from kafka.admin import ConfigResource, ConfigResourceType
from msgspec.structs import replace

from pipeline import limits
from pipeline.errors import Fatal, Retriable
from pipeline.topics import Difference, Found, TopicSpec, differences

from .client import COMMON, Cluster, by_remedy, new_admin, patiently
from .reasons import explained

CONNECT_MS = 10_000


class KafkaTopics:
    """A context manager over one admin connection; `Fatal` if no broker answers."""

    def __init__(self, cluster: Cluster) -> None:
        cluster.check()
        self._clients = cluster.clients
        ours = {**COMMON, "bootstrap_timeout_ms": CONNECT_MS}
        try:
            with by_remedy(f"connecting to {cluster.bootstrap}"), explained(cluster):
                self._admin: Any = new_admin(cluster, ours)
        except Retriable as error:
            raise Fatal(
                f"no Kafka broker answers at {cluster.bootstrap} ({error.message})",
                "start one (`foldstream up`), or name another with --bootstrap HOST:PORT",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin.close()

    def describe(self, names: Iterable[str]) -> dict[str, Found]:
        """Those of the named topics that exist, with their settings."""
        with by_remedy("describing topics"):
            found = described(self._admin, names)
            if not found:
                return {}
            asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in found]
            configs = self._admin.describe_configs(asked, config_filter="all")["topic"]
        settings = {
            name: {key: entry["value"] for key, entry in configs[name].items()} for name in found
        }
        return {name: replace(topic, settings=settings[name]) for name, topic in found.items()}

    def committed(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """Every offset of the group, by topic and partition, with its metadata."""
        with by_remedy(f"reading the offsets of group {group}"):
            # On a fresh broker the coordinator's own topic is made by the first who asks.
            offsets = patiently(
                self._clients,
                limits.COORDINATOR_S,
                lambda: self._admin.list_group_offsets({group: None}),
            ).get(group, {})
        return {
            (at.topic, at.partition): (found.offset, found.metadata)
            for at, found in offsets.items()
            if found.offset >= 0
        }

    def check(self, specs: Iterable[TopicSpec]) -> list[Difference]:
        """Exactly what differs from ``specs``; empty when nothing does."""
        wanted = tuple(specs)
        return differences(wanted, self.describe(spec.name for spec in wanted))

    def create(
        self,
        specs: Iterable[TopicSpec],
        replication: int = 1,
        told: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        """Create what is missing and return its names; what exists is left as it is."""
        wanted = tuple(specs)
        found = self.describe(spec.name for spec in wanted)
        missing = [spec for spec in wanted if spec.name not in found]
        if not missing:
            return []
        request = {
            spec.name: {
                "num_partitions": spec.partitions,
                "replication_factor": replication,
                "configs": dict(spec.settings),
            }
            for spec in missing
        }
        with by_remedy("creating topics"):
            self._admin.create_topics(request, wait_for_metadata=True)
        for spec in missing:
            told(f"created {spec.name} ({spec.partitions} partitions)")
        return [spec.name for spec in missing]


def described(admin: Any, names: Iterable[str]) -> dict[str, Found]:
    """Those of the named topics that exist, without settings. Raises kafka-python's errors."""
    return {
        topic["name"]: Found(len(topic["partitions"]), {}, str(topic.get("topic_id") or ""))
        for topic in admin.describe_topics(list(names))
        if topic["error_code"] == 0
    }
