"""A worker's outside on a real broker, put together."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from msgspec import Struct

from pipeline import identity, limits
from pipeline.errors import Fatal
from pipeline.identity import Identity
from pipeline.outside import Ends
from pipeline.topics import ROLES, Names, largest_batch, require

from .admin import KafkaTopics
from .client import Cluster
from .reader import KafkaReader
from .sink import KafkaSink, SinkSettings
from .source import KafkaSource, SourceSettings
from .watch import Watch

log = logging.getLogger(__name__)

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
        committed = topics.committed(names.application)
    began = identity.of(names, found)
    require_ours(names, began, committed)
    require(names, found)
    return Ends(
        source=KafkaSource(
            cluster,
            SourceSettings(
                names.of("events"),
                names.application,
                instance.name,
                began,
                batch_records,
                linger_ms,
            ),
            Watch(cluster, names, began),
        ),
        sink=KafkaSink(
            cluster,
            SinkSettings(
                names,
                instance.transactional_id,
                found[names.of("deadletter")].partitions,
                began,
                largest_batch(found.values()),
            ),
        ),
        reader=KafkaReader(cluster, look_s=limits.LOOK_S),
        names=names,
        events_id=began.ids.get("events", ""),
    )


def require_ours(
    names: Names, now: Identity, committed: Mapping[tuple[str, int], tuple[int, str]]
) -> None:
    """`Fatal` unless every offset of the group was committed by workers of this deployment, over
    the topics that there are ``now``."""
    identity.require_own_group(names, (topic for topic, _ in committed))
    for (topic, partition), (offset, metadata) in committed.items():
        then = identity.require_written_by_us(topic, partition, offset, metadata)
        identity.require_same(names, now, then)
        for role in identity.made_again(now, then):
            log.warning("%s was made again: what it held before is gone", names.of(role))
