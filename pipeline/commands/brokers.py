"""From the configuration to a broker: names, connections, and the checks that come first."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pipeline import identity
from pipeline.broker import local_kafka, unavailable
from pipeline.broker_jars import NoKafkaHere, kafka_version
from pipeline.config import Config, ConfigError
from pipeline.errors import Fatal
from pipeline.limits import MAX_INPUT_RECORD_BYTES, PARTITIONS
from pipeline.lines import LineSink, MemoryLineSink
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.patient import PatientReader
from pipeline.plain import visible_line
from pipeline.ports import Reader
from pipeline.topics import Found, Names, require, specs

if TYPE_CHECKING:
    from pipeline.kafka.client import Cluster

DEFAULT_PORT = 19092  #: where the other commands look for a broker that nobody named
Say = Callable[[str], None]


def names(settings: Config) -> Names:
    return Names(settings.prefix, settings.application)


def cluster(settings: Config, bootstrap: str | None = None) -> Cluster:
    """The brokers as the Kafka clients take them; imports the client (0.2 s) with it."""
    from pipeline.kafka.client import Cluster  # noqa: PLC0415 - files need no Kafka client

    return Cluster(bootstrap or settings.bootstrap, settings.client_options)


def without(settings: Config, session: str) -> Fatal:
    """The session that was asked for is not there."""
    return Fatal(
        f"session {visible_line(session)!r} is not on the topics of {settings.bootstrap}",
        "`foldstream show` lists those that are; or name its file",
    )


class Broker(Struct, frozen=True):
    """A broker to work with. ``at``: its address, or the broker itself if it is in this process;
    ``kind`` and ``why`` for a person."""

    kind: str
    why: str
    at: str | MemoryBroker
    settings: Config

    @property
    def names(self) -> Names:
        return names(self.settings)

    def create_topics(self, say: Say) -> None:
        """Create what is missing; `Fatal` with the fix when something differs."""
        if isinstance(self.at, MemoryBroker):
            create_topics(self.at, self.names, self.settings.partitions or PARTITIONS)
            return
        from pipeline.kafka.admin import KafkaTopics  # noqa: PLC0415 - as above

        wanted = specs(self.names, self.settings.partitions or PARTITIONS)
        with KafkaTopics(cluster(self.settings, self.at)) as admin:
            admin.create(wanted, self.settings.replication, say)
            require(self.names, admin.describe(spec.name for spec in wanted))

    def max_record_bytes(self) -> int:
        """The largest record that the events topic takes, whoever set it up."""
        found = self._events()
        limit = found.settings.get("max.message.bytes", "") if found else ""
        return int(limit) if limit.isdecimal() else MAX_INPUT_RECORD_BYTES

    def events_id(self) -> str:
        """Which very events topic it is, as states name it; "" if that is not known."""
        found = self._events()
        named = {} if found is None else {self.names.of("events"): found}
        return identity.of(self.names, named).ids.get("events", "")

    def _events(self) -> Found | None:
        if isinstance(self.at, MemoryBroker):
            return None
        from pipeline.kafka.admin import KafkaTopics  # noqa: PLC0415 - as above

        topic = self.names.of("events")
        with KafkaTopics(cluster(self.settings, self.at)) as admin:
            return admin.describe([topic]).get(topic)

    def reader(self) -> Reader:
        if isinstance(self.at, MemoryBroker):
            return MemoryReader(self.at)
        from pipeline.kafka.reader import KafkaReader  # noqa: PLC0415 - as above

        return KafkaReader(cluster(self.settings, self.at))

    @contextmanager
    def line_sink(self) -> Iterator[LineSink]:
        """Where ingested lines go."""
        if isinstance(self.at, MemoryBroker):
            yield MemoryLineSink(self.at, self.names)
            return
        from pipeline.kafka.lines import KafkaLineSink  # noqa: PLC0415 - as above

        sink = KafkaLineSink(cluster(self.settings, self.at), self.names)
        try:
            yield sink
        finally:
            sink.close()


def named(settings: Config) -> Broker:
    """The broker of ``--bootstrap``."""
    return Broker("Kafka", "named", settings.bootstrap, settings)


def require_topics(settings: Config, *roles: str) -> None:
    """`Fatal` if no broker answers or one of the topics is missing."""
    from pipeline.kafka.admin import KafkaTopics  # noqa: PLC0415 - as above

    wanted = [names(settings).of(role) for role in roles]
    with KafkaTopics(cluster(settings)) as topics:
        there = topics.describe(wanted)
    for name in wanted:
        if name not in there:
            raise Fatal(
                f"topic {name} does not exist on {settings.bootstrap}",
                "name the right --prefix, or run `foldstream topics create`",
            )


@contextmanager
def reader(settings: Config, *roles: str) -> Iterator[Reader]:
    """A reader of topics at rest, which must be there (`require_topics`); it waits out a broker's
    restart. Who follows the topics has its own way to say that they are away."""
    require_topics(settings, *roles)
    opened = PatientReader(named(settings).reader())
    try:
        yield opened
    finally:
        opened.close()


# --- a broker of our own --------------------------------------------------------------------------


@contextmanager
def local(settings: Config, say: Say) -> Iterator[Broker]:
    """The broker of ``up --broker``, for as long as the block runs."""
    kind = settings.broker
    if kind == "memory":
        yield Broker("memory", "as asked", MemoryBroker(), settings)
    elif kind in ("auto", "kafka"):
        why = unavailable()
        if why is not None and kind == "auto":
            yield Broker("memory", f"no local Kafka: {why}", MemoryBroker(), settings)
            return
        if why is not None:
            raise NoKafkaHere(why, "or say --broker memory")
        found = "as asked" if kind == "kafka" else "Java and Maven are here"
        folder = Path(settings.dir) if settings.dir else None
        port = settings.port or (DEFAULT_PORT if _free(DEFAULT_PORT) else None)
        with local_kafka(port=port, directory=folder, say=say) as at:
            yield Broker(f"Apache Kafka {kafka_version()}", found, at, settings)
    elif ":" in kind:
        yield Broker("Kafka", "named", kind, settings)
    else:
        raise ConfigError(f"--broker {kind}: say auto, kafka, memory or HOST:PORT")


def _free(port: int) -> bool:
    """Whether a node and its controller could listen there."""
    for each in (port, port + 1):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", each))
            except OSError:
                return False
    return True
