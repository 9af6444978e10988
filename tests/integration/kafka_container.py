"""Apache Kafka for the tests, through testcontainers, from an image with apache/kafka's interface.

testcontainers' own ``KafkaContainer`` starts Confluent's image and refuses this one.
``KAFKA_IMAGE`` names another image of the same interface.
"""

import os
import time
from typing import Any, Self

from testcontainers.core.container import DockerContainer

DEFAULT_IMAGE = "apache/kafka:4.1.1"
_SCRIPT = "/tmp/start-with-address.sh"  # in the container
_SETTINGS = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "CLIENT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": ",".join(
        f"{name}:PLAINTEXT" for name in ("CLIENT", "BROKER", "CONTROLLER")
    ),
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "5",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "5",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS": "1000",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
    "KAFKA_HEAP_OPTS": "-Xmx512M",
}


class ApacheKafkaContainer(DockerContainer):
    """One broker and controller in one container (KRaft), with the settings of the local broker.

    A broker must tell its clients the address they reach it at, and the host port is known only
    when the container runs. So the container first waits for a script, which is copied in with that
    address and goes on to the image's own command.
    """

    CLIENT_PORT = 9092

    def __init__(self, image: str | None = None, **kwargs: Any) -> None:
        super().__init__(image or os.environ.get("KAFKA_IMAGE", DEFAULT_IMAGE), **kwargs)
        self.with_exposed_ports(self.CLIENT_PORT)
        self.with_envs(**_SETTINGS)
        wait = f"while [ ! -s {_SCRIPT} ]; do sleep 0.1; done; exec bash {_SCRIPT}"
        self.with_command(["sh", "-c", wait])

    def bootstrap_servers(self) -> str:
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.CLIENT_PORT)}"

    def start(self, timeout: float = 120) -> Self:
        """Start it and wait until it serves; ``TimeoutError`` carries the end of its log."""
        try:
            super().start()
            self._go(timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def _go(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        address = self.bootstrap_servers()
        self.copy_into_container(
            f"export KAFKA_ADVERTISED_LISTENERS=CLIENT://{address},BROKER://localhost:9093\n"
            "exec /etc/kafka/docker/run\n".encode(),
            _SCRIPT,
        )
        container = self.get_wrapped_container()
        while b"Kafka Server started" not in container.logs():
            container.reload()
            if container.status != "running" or time.monotonic() > deadline:
                log = container.logs(tail=40).decode(errors="replace")
                raise TimeoutError(f"{self.image} is {container.status}, not serving:\n{log}")
            time.sleep(0.1)
