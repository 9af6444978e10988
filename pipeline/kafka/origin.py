"""What a local store of the state topic is written for, as the broker says it."""

from __future__ import annotations

from kafka.admin import ConfigResource, ConfigResourceType

from pipeline.errors import Fatal
from pipeline.store import Origin
from pipeline.topics import Names

from .client import COMMON, Cluster, by_remedy, new_admin

KEPT = "delete.retention.ms"


def state_origin(cluster: Cluster, names: Names) -> Origin:
    """`Fatal` if there is no state topic."""
    name = names.of("state")
    with by_remedy(f"describing {name}"):
        admin = new_admin(cluster, COMMON)
        try:
            (topic,) = admin.describe_topics([name])
            if topic["error_code"] != 0:
                raise Fatal(f"topic {name} is missing", "run `foldstream topics create`")
            resource = ConfigResource(ConfigResourceType.TOPIC, name)
            settings = admin.describe_configs([resource], config_filter="all")["topic"][name]
            id_ = admin.describe_cluster()["cluster_id"]
        finally:
            admin.close()
    kept_s = int(settings[KEPT]["value"]) / 1000
    return Origin(str(id_), str(topic["topic_id"]), names.application, kept_s)
