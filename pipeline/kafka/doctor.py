"""`doctor.facts.Probe` over kafka-python: one admin connection, nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any, Self

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.protocol.consumer import IsolationLevel

from pipeline import limits
from pipeline.doctor.facts import Broker, Copies, Group, Member, Offsets, Open, Transaction
from pipeline.errors import PipelineError, Retriable
from pipeline.topics import Found, Names

from .admin import KafkaTopics
from .client import CALL_SETTINGS, Cluster, by_remedy, new_admin, patiently
from .reader import KafkaReader

PATIENCE_S = 5.0


class KafkaProbe:
    """A context manager. `Fatal` if no broker answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clients = cluster.clients
        self._topics = KafkaTopics(cluster)
        with by_remedy("connecting"):
            self._admin: Any = new_admin(cluster, CALL_SETTINGS)
        self._found: dict[str, Found] = {}
        self._settings: dict[str, str] | None = None
        self._producers: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin.close()
        self._topics.__exit__(kind, error, trace)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Also what this version of the client cannot read of a newer broker's answer."""
        try:
            with by_remedy(what):
                yield
        except (ValueError, KeyError, AttributeError) as error:
            raise Retriable(f"{what}: the answer cannot be read ({error})") from error

    def _ask(self, what: str, call: Callable[[], Any]) -> Any:
        with self._asking(what):
            return patiently(self._clients, PATIENCE_S, call)

    # --- the cluster ------------------------------------------------------------------------------

    def cluster(self) -> str:
        return str(self._ask("describing the cluster", self._admin.describe_cluster)["cluster_id"])

    def brokers(self) -> list[Broker]:
        described = self._ask("describing the cluster", self._admin.describe_cluster)
        features = self._features()
        return [
            Broker(
                broker["broker_id"],
                f"{broker['host']}:{broker['port']}",
                self._version(broker["broker_id"]),
                bool(broker.get("is_fenced")),
                features,
            )
            for broker in described["brokers"]
        ]

    def _version(self, broker: int) -> tuple[int, ...] | None:
        try:
            told = self._ask(
                "asking for a version", lambda: self._admin.get_broker_version_data(broker)
            )
        except PipelineError:
            return None
        return tuple(told.broker_version)

    def _features(self) -> dict[str, int]:
        try:
            found = self._ask("describing features", self._admin.describe_features)
        except PipelineError:
            return {}
        return {name: each["finalized"][1] for name, each in found.items() if each.get("finalized")}

    def settings(self) -> Mapping[str, str]:
        if self._settings is None:
            described = self._ask("describing the cluster", self._admin.describe_cluster)
            one = ConfigResource(
                ConfigResourceType.BROKER, str(described["brokers"][0]["broker_id"])
            )
            told = self._ask(
                "reading a broker's settings",
                lambda: self._admin.describe_configs([one], config_filter="all"),
            )
            (entries,) = told["broker"].values()
            self._settings = {name: entry["value"] or "" for name, entry in entries.items()}
        return self._settings

    def topics(self, names: Iterable[str]) -> dict[str, Found]:
        names = list(names)
        missing = [name for name in names if name not in self._found]
        if missing:
            with self._asking("describing topics"):
                self._found |= self._topics.describe(missing)
        return {name: self._found[name] for name in names if name in self._found}

    def copies(self, topics: Iterable[str]) -> list[Copies]:
        names = list(topics)
        described = self._ask("describing topics", lambda: self._admin.describe_topics(names))
        return [
            Copies(
                topic["name"],
                partition["partition_index"],
                partition["leader_id"],
                len(partition["replica_nodes"]),
                len(partition["isr_nodes"]),
            )
            for topic in described
            if topic["error_code"] == 0
            for partition in topic["partitions"]
        ]

    # --- the group --------------------------------------------------------------------------------

    def group(self, group: str) -> Group:
        found = self._ask(
            f"describing group {group}", lambda: self._admin.describe_groups([group])
        )[group]
        return Group(
            found["group_state"] or "Dead",
            tuple(
                Member(
                    member["member_id"],
                    member["client_id"],
                    member["client_host"],
                    member.get("group_instance_id"),
                    tuple(_assigned(member.get("member_assignment"))),
                )
                for member in found["members"]
            ),
        )

    def offsets(self, group: str, topic: str) -> dict[int, Offsets]:
        found = self.topics([topic]).get(topic)
        at = [TopicPartition(topic, n) for n in range(found.partitions if found else 0)]
        if not at:
            return {}
        committed = self._topics.committed(group)
        first = self._listed(at, OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        stable = self._listed(at, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
        end = self._listed(at, OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED)
        return {
            one.partition: Offsets(
                first[one].offset,
                stable[one].offset,
                end[one].offset,
                committed.get((one.topic, one.partition), (None,))[0],
            )
            for one in at
        }

    def _listed(self, at: Iterable[TopicPartition], spec: Any, isolation: Any) -> dict[Any, Any]:
        asked = dict.fromkeys(at, spec)
        found: dict[Any, Any] = self._ask(
            "listing offsets",
            lambda: self._admin.list_partition_offsets(asked, isolation_level=isolation),
        )
        return found

    def stamp(self, topic: str, partition: int, offset: int) -> int | None:
        with closing(KafkaReader(self._cluster, limits.REQUEST_TIMEOUT_MS / 1000)) as reader:
            for record in reader.read(topic, partition, offset):
                return record.timestamp
        return None

    def newest(self, topic: str) -> int | None:
        found = self.topics([topic]).get(topic)
        at = [TopicPartition(topic, n) for n in range(found.partitions if found else 0)]
        stamps = self._listed(at, OffsetSpec.MAX_TIMESTAMP, IsolationLevel.READ_UNCOMMITTED)
        return max((one.timestamp for one in stamps.values() if one.timestamp >= 0), default=None)

    # --- transactions -----------------------------------------------------------------------------

    def open_transactions(self, topics: Iterable[str]) -> list[Open]:
        at = [
            TopicPartition(one.topic, one.partition)
            for one in self.copies(topics)
            if one.leader >= 0
        ]
        found = self._ask(
            "looking for open transactions", lambda: self._admin.describe_producers(at)
        )
        opened = [
            Open(
                *(place.topic, place.partition, one.producer_id),
                *(one.current_transaction_start_offset, one.last_timestamp),
            )
            for place, state in found.items()
            for one in state.active_producers
            if one.current_transaction_start_offset >= 0
        ]
        self._producers = {one.producer for one in opened}
        return sorted(opened, key=lambda one: (one.topic, one.partition))

    def transactions(self, names: Names) -> list[Transaction]:
        listed = self._ask("listing transactions", self._admin.list_transactions)
        prefix = f"{names.application}-"
        ids = [
            one.transactional_id
            for some in listed.values()
            for one in some
            if one.transactional_id.startswith(prefix) or one.producer_id in self._producers
        ]
        if not ids:
            return []
        found = self._ask("describing transactions", lambda: self._admin.describe_transactions(ids))
        return [
            Transaction(
                *(name, one.producer_id, one.state.value),
                *(one.transaction_timeout_ms, one.transaction_start_time_ms),
                frozenset((at.topic, at.partition) for at in one.topic_partitions),
            )
            for name, one in found.items()
        ]


def _assigned(assignment: Any) -> Iterator[int]:
    """A member's partitions, as kafka-python decodes those of the classic protocol."""
    topics = assignment.get("assigned_partitions", ()) if isinstance(assignment, dict) else ()
    for topic in topics:
        yield from topic["partitions"]
