"""Topics on a real broker: described and created as ``topics.py`` says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from kafka.admin import ConfigResource, ConfigResourceType

from pipeline.errors import Fatal, Retriable
from pipeline.topics import Difference, Found, TopicSpec, differences

from .client import COMMON, Cluster, by_remedy, new_admin

CONNECT_MS = 10_000


class KafkaTopics:
    """A context manager over one admin connection; `Fatal` if no broker answers."""

    def __init__(self, cluster: Cluster) -> None:
        cluster.check()
        ours = {**COMMON, "bootstrap_timeout_ms": CONNECT_MS}
        try:
            with by_remedy(f"connecting to {cluster.bootstrap}"):
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
            described = self._admin.describe_topics(list(names))
            counts = {
                topic["name"]: len(topic["partitions"])
                for topic in described
                if topic["error_code"] == 0
            }
            if not counts:
                return {}
            asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in counts]
            configs = self._admin.describe_configs(asked, config_filter="all")["topic"]
        return {
            name: Found(count, {key: entry["value"] for key, entry in configs[name].items()})
            for name, count in counts.items()
        }

    def identity(self, name: str) -> str:
        """What a topic of this name made anew would not have."""
        with by_remedy("describing topics"):
            (topic,) = self._admin.describe_topics([name])
        return str(topic.get("topic_id") or "")

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
