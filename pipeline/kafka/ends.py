"""A worker's outside on a real broker, put together."""

from __future__ import annotations

from pipeline.loop import Ends
from pipeline.topics import ROLES, Names, require

from .admin import KafkaTopics
from .client import Cluster
from .reader import KafkaReader
from .sink import KafkaSink, SinkSettings
from .source import KafkaSource, SourceSettings


def kafka_ends(
    cluster: Cluster, names: Names, transactional_id: str, batch_records: int, linger_ms: int
) -> Ends:
    """Checks client options and topics first (`Fatal` with the fix); joins nothing yet."""
    with KafkaTopics(cluster) as topics:
        found = topics.describe(names.of(role) for role in ROLES)
    require(names, found)
    dead = found[names.of("deadletter")].partitions
    return Ends(
        source=KafkaSource(
            cluster,
            SourceSettings(names.of("events"), names.application, batch_records, linger_ms),
        ),
        sink=KafkaSink(cluster, SinkSettings(names, transactional_id, dead)),
        reader=KafkaReader(cluster),
        names=names,
    )
