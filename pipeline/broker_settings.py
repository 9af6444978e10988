"""Where the nodes of a local Apache Kafka listen, and their settings."""

from pathlib import Path

from msgspec import Struct

HOST = "127.0.0.1"


class Layout(Struct):
    """The ports of a cluster, in a row from ``port`` on. ``proxied``: a second listener per node,
    which tells clients to come to its `front`. ``secured``: a further one, for SASL over TLS, with
    these settings of the server (its name there: ``SECURED``)."""

    port: int
    brokers: int
    proxied: bool = False
    secured: dict[str, str] = {}

    @property
    def ports(self) -> int:
        return (2 + 2 * self.proxied + bool(self.secured)) * self.brokers

    def at(self, row: int, node: int) -> int:
        """Row 0 is that of the clients, 1 of the controllers, 2 and 3 of the proxied listener."""
        return self.port + row * self.brokers + node - 1

    def secured_port(self, node: int) -> int:
        return self.at(4 if self.proxied else 2, node)

    def settings(self, folder: Path, node: int) -> str:
        """The ``server.properties`` of a node that keeps its data in ``folder``."""
        brokers = self.brokers
        copies, in_sync = (3, 2) if brokers == 3 else (1, 1)
        nodes = range(1, brokers + 1)
        voters = ",".join(f"{n}@{HOST}:{self.at(1, n)}" for n in nodes)
        own = {"PLAINTEXT": self.at(0, node), "CONTROLLER": self.at(1, node)}
        told = {"PLAINTEXT": self.at(0, node)}
        if self.proxied:
            own["PROXIED"], told["PROXIED"] = self.at(2, node), self.at(3, node)
        if self.secured:
            own["SECURED"] = told["SECURED"] = self.secured_port(node)
        listeners, advertised = _listeners(own), _listeners(told)
        protocols = ",".join(f"{name}:{_PROTOCOLS.get(name, 'PLAINTEXT')}" for name in own)
        further = "".join(f"{name}={value}\n" for name, value in self.secured.items())
        return f"""process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map={protocols}
log.dirs={folder}/data-{node}
# A misspelt topic is an error.
auto.create.topics.enable=false
default.replication.factor={copies}
min.insync.replicas={in_sync}
offsets.topic.num.partitions=5
transaction.state.log.num.partitions=5
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync}
# A lost node is noticed within six seconds. The check for abandoned transactions keeps Kafka's ten:
# with one second a node that was killed aborted them before its own listener was up again, no abort
# marker reached the partitions, and the producer's next commit made their records visible.
transaction.abort.timed.out.transaction.cleanup.interval.ms=10000
broker.session.timeout.ms=6000
# The first member of a group need not wait for a second.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.cleaner.dedupe.buffer.size=16777216
{further}"""


_PROTOCOLS = {"SECURED": "SASL_SSL"}


def _listeners(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
