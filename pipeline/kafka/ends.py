"""A worker's outside on a real broker, put together."""

from __future__ import annotations

import re

from msgspec import Struct

from pipeline.errors import Fatal
from pipeline.loop import Ends
from pipeline.topics import ROLES, Names, require

from .admin import KafkaTopics
from .client import Cluster
from .reader import KafkaReader
from .sink import KafkaSink, SinkSettings
from .source import KafkaSource, SourceSettings

_INSTANCE = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class Instance(Struct, frozen=True):
    """Who a worker is: its lasting name in the group, and its transactional id."""

    name: str
    transactional_id: str


def kafka_ends(
    cluster: Cluster, names: Names, instance: Instance, batch_records: int, linger_ms: int
) -> Ends:
    """Checks client options and topics first (`Fatal` with the fix); joins nothing yet."""
    if not _INSTANCE.fullmatch(instance.name):
        raise Fatal(
            f"{instance.name!r} is no name for a worker",
            "an --instance has at most 249 letters, digits, dots, hyphens and underscores",
        )
    with KafkaTopics(cluster) as topics:
        found = topics.describe(names.of(role) for role in ROLES)
        require(names, found)
        events_id = topics.identity(names.of("events"))
    dead = found[names.of("deadletter")].partitions
    return Ends(
        source=KafkaSource(
            cluster,
            SourceSettings(
                names.of("events"),
                names.application,
                instance.name,
                events_id,
                batch_records,
                linger_ms,
            ),
        ),
        sink=KafkaSink(cluster, SinkSettings(names, instance.transactional_id, dead, events_id)),
        reader=KafkaReader(cluster),
        names=names,
    )
