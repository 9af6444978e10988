"""The worker's own ends on a broker that misbehaves, with short timeouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, TypeVar

from kafka import KafkaProducer

from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.clients import KafkaPython
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.sink import KafkaSink, SinkSettings
from pipeline.kafka.source import KafkaSource, SourceSettings
from pipeline.topics import specs
from tests.contracts.deployment import fresh_names

from .client import DELIVERY_MS, REQUEST_MS, in_thread

T = TypeVar("T")

PARTITIONS = 2
#: A watchdog that is patient enough for a busy machine, and short enough to be waited for.
CALL_S = 5.0
TIMES = {"request_timeout_ms": REQUEST_MS, "delivery_timeout_ms": DELIVERY_MS}


class Unwatched(KafkaPython):
    """The clients without the watchdog."""

    def started(self, what: str, seconds: float, call: Callable[[], T]) -> Callable[[], T]:
        return call


class Ends:
    """Topics of one test. ``bootstrap`` is where the outcome is read, whatever the ends met."""

    def __init__(self, bootstrap: str, stack: ExitStack, copies: int) -> None:
        self.names = fresh_names()
        self._bootstrap = bootstrap
        self._stack = stack
        with KafkaTopics(Cluster(bootstrap)) as topics:
            topics.create(specs(self.names, PARTITIONS), replication=copies)
        self.reader = KafkaReader(Cluster(bootstrap), stall_s=15.0)
        stack.callback(self.reader.close)

    def sink(
        self,
        bootstrap: str | None = None,
        *,
        kind: type[KafkaSink] = KafkaSink,
        clients: KafkaPython | None = None,
        instance: str = "a",
        **options: Any,
    ) -> KafkaSink:
        """Opened."""
        cluster = Cluster(bootstrap or self._bootstrap, TIMES | options, clients or KafkaPython())
        settings = SinkSettings(
            self.names, f"{self.names.application}-{instance}", 1, call_timeout_s=CALL_S
        )
        sink = kind(cluster, settings)
        self._stack.callback(lambda: in_thread(sink.close).join(CALL_S))  # it could hang
        sink.open()
        return sink

    def source(self, instance: str | None = None, **options: Any) -> KafkaSource:
        source = KafkaSource(
            Cluster(self._bootstrap, options),
            SourceSettings(self.names.of("events"), self.names.application, instance),
        )
        self._stack.callback(source.close)
        return source

    def append(self, partition: int, value: bytes, key: bytes) -> None:
        with closing(KafkaProducer(bootstrap_servers=self._bootstrap.split(","))) as producer:
            events = self.names.of("events")
            producer.send(events, value, key=key, partition=partition).get(10)

    def values(self, role: str = "surface", partition: int = 0) -> list[bytes | None]:
        found = self.reader.read(self.names.of(role), partition)
        return [record.value for record in found]

    def committed(self) -> dict[int, int]:
        return self.reader.committed(self.names.application, self.names.of("events"))


@contextmanager
def ends_on(bootstrap: str, copies: int = 1) -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(bootstrap, stack, copies)
