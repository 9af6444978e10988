"""A Kafka that demands TLS, a name and a password, and rights: certificates of our own, users over
PLAIN and SCRAM, and ACLs. Its open listener is the administrator's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from msgspec import Struct

from pipeline.broker import local_cluster
from pipeline.broker_cluster import Cluster
from pipeline.broker_jars import find_java
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster as Client
from pipeline.topics import Names, specs

STORE = "store-password"
EVERYBODY = "*"

Rights = Mapping[tuple[str, str], str]
"""(kind of resource, its name) to operations: ``("topic", "sessions.events"): "read describe"``."""


class Secured(Struct):
    """``cluster.secured`` is where clients authenticate; ``ca`` is the file they trust,
    ``other_ca`` one that signed nothing here. ``passwords`` by user, for PLAIN and SCRAM alike."""

    cluster: Cluster
    ca: Path
    other_ca: Path
    passwords: dict[str, str]

    def options(self, user: str, mechanism: str = "SCRAM-SHA-512", **other: str) -> dict[str, str]:
        """What a client of ``user`` is given."""
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": self.passwords[user],
            "ssl_cafile": str(self.ca),
            **other,
        }

    def grant(self, user: str, rights: Rights) -> None:
        acls = [
            ACL(
                principal=f"User:{user}",
                host=EVERYBODY,
                operation=ACLOperation[operation.upper()],
                permission_type=ACLPermissionType.ALLOW,
                resource_pattern=ResourcePattern(ResourceType[kind.upper()], name),
            )
            for (kind, name), operations in rights.items()
            for operation in operations.split()
        ]
        with self._admin() as admin:
            failed = admin.create_acls(acls)["failed"]
        assert not failed, failed

    def add_scram(self) -> None:
        """The users' SCRAM credentials; those of PLAIN are the broker's settings."""
        with self._admin() as admin:
            errors = admin.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, password)
                    for user, password in self.passwords.items()
                ]
            )
        assert not any(errors.values()), errors

    def create_topics(self, names: Names) -> None:
        with KafkaTopics(Client(self.cluster.bootstrap)) as topics:
            topics.create(specs(names, partitions=2))

    def append(self, topic: str, key: bytes, value: bytes) -> None:
        with closing(KafkaProducer(bootstrap_servers=self.cluster.bootstrap)) as producer:
            producer.send(topic, value, key=key, partition=0).get(timeout=30)

    @contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap)) as admin:
            yield admin


@contextmanager
def secured_kafka(folder: Path, users: Iterable[str]) -> Iterator[Secured]:
    """One node, as long as the block runs; each of ``users`` has a password and no rights."""
    ca, keys = _certificates(folder / "ours")
    other_ca, _ = _certificates(folder / "others")
    passwords = {user: f"secret-of-{user}" for user in users}
    with local_cluster(secured=_settings(keys, passwords)) as cluster:
        secured = Secured(cluster, ca, other_ca, passwords)
        secured.add_scram()
        yield secured


def _settings(keys: Path, passwords: Mapping[str, str]) -> dict[str, str]:
    module = "org.apache.kafka.common.security"
    plain = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    listener = {
        "ssl.keystore.location": str(keys),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {plain};",
        "scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
    }
    return {
        **{f"listener.name.secured.{name}": value for name, value in listener.items()},
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def _certificates(folder: Path) -> tuple[Path, Path]:
    """The certificate of a new authority, and a key store with a key for 127.0.0.1 it signed."""
    folder.mkdir()
    ca, keys = folder / "ca.pem", folder / "keys.p12"
    for command in (
        "-genkeypair -alias ca -dname CN=authority -ext bc:c",
        "-genkeypair -alias node -dname CN=node -ext san=ip:127.0.0.1 -signer ca",
        f"-exportcert -rfc -alias ca -file {ca}",
        "-delete -alias ca",  # the broker would take it for another key of its own
    ):
        _keytool(keys, command.split())
    return ca, keys


def _keytool(keys: Path, command: list[str]) -> None:
    algorithm = ["-keyalg", "EC", "-validity", "2"] if "-genkeypair" in command else []
    store = ["-keystore", str(keys), "-storetype", "PKCS12", "-storepass", STORE]
    subprocess.run(
        [str(Path(find_java()).resolve().with_name("keytool")), *command, *algorithm, *store],
        check=True,
        capture_output=True,
        timeout=60,
    )
