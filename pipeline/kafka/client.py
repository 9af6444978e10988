"""What every kafka-python client here needs: settings, bounded calls, errors by remedy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import kafka.producer.kafka as producer_module
from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as raised
from kafka.admin import KafkaAdminClient
from msgspec import Struct, field

from pipeline import limits
from pipeline.errors import Fatal, Fenced, PipelineError, Poison, Retriable
from pipeline.retry import OWN_INSTANCE

from .clients import Clients, KafkaPython
from .headers import tolerate_header_names

T = TypeVar("T")

#: Offsets in a transaction on behalf of a member came with 2.5 (KIP-447); a look at what a lost
#: transaction left open, which every worker takes when it opens its producer, with 3.0 (KIP-664).
OLDEST = "3.0"

PAUSE_S = 0.1  #: between two tries of an admin's request

#: What the worker's correctness rests on, and what its own settings say.
RESERVED = frozenset(
    {
        "acks",
        "auto_offset_reset",
        "bootstrap_servers",
        "client_id",
        "consumer_timeout_ms",
        "enable_auto_commit",
        "enable_idempotence",
        "group_id",
        "group_instance_id",
        "isolation_level",
        "key_deserializer",
        "key_serializer",
        "max_in_flight_requests_per_connection",
        "max_poll_records",
        "partition_assignment_strategy",
        "partitioner",
        "retries",
        "transaction_timeout_ms",
        "transactional_id",
        "value_deserializer",
        "value_serializer",
    }
)


class Cluster(Struct, frozen=True):
    """Where the brokers are (``HOST:PORT``, several with commas) and the user's client options
    (SASL, TLS, sizes and times), by kafka-python's own names."""

    bootstrap: str
    options: Mapping[str, Any] = {}
    clients: Clients = field(default_factory=KafkaPython)

    def settings(self, client: type, ours: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of one client: ours, and of the user's those that this client knows."""
        known = client.DEFAULT_CONFIG  # type: ignore[attr-defined] # every client class has one
        theirs = {name: value for name, value in self.options.items() if name in known}
        common: dict[str, Any] = {
            "bootstrap_servers": [server.strip() for server in self.bootstrap.split(",")]
        }
        if "metrics_enabled" in known:  # nobody reads them, and they cost on every record
            common["metrics_enabled"] = False
        return {**common, **ours, **theirs}

    def check(self) -> None:
        """`Fatal` on an option that no client knows, or that is not the user's to set."""
        for name in self.options:
            if name in RESERVED:
                raise Fatal(f"client option {name} is set by foldstream itself", "leave it out")
            clients = (KafkaConsumer, KafkaProducer, KafkaAdminClient)
            if not any(name in client.DEFAULT_CONFIG for client in clients):
                raise Fatal(
                    f"client option {name} is unknown",
                    "use kafka-python's names, e.g. security_protocol, sasl_mechanism, ssl_cafile",
                )


def patiently(clients: Clients, seconds: float, call: Callable[[], T]) -> T:
    """``call()``, again for so long as it meets what passes by itself: a topic or a coordinator
    that has just been made, moved, or is loading. Then kafka-python's error."""
    until = clients.monotonic() + seconds
    while True:
        try:
            return call()
        except raised.RetriableError:
            if clients.monotonic() >= until:
                raise
            clients.sleep(PAUSE_S)


@contextmanager
def by_remedy(what: str) -> Iterator[None]:
    """kafka-python's errors as ours; ``what`` was being done."""
    try:
        yield
    except raised.KafkaError as error:
        raise translated(what, error) from error


def translated(what: str, error: BaseException) -> PipelineError:
    """The error by its remedy. Whatever is not known to be hopeless is worth another try."""
    if isinstance(error, PipelineError):
        return error
    text = f"{what}: {error}"
    # What a producer met in its own thread comes wrapped in the error of a later call.
    inner = next((cause for cause in error.args if isinstance(cause, raised.KafkaError)), None)
    if inner is not None:
        return translated(what, inner)
    if isinstance(error, (raised.ProducerFencedError, raised.InvalidProducerEpochError)):
        return Fenced(f"{what}: a newer producer has this worker's transactional id")
    if isinstance(error, (raised.MessageSizeTooLargeError, raised.RecordListTooLargeError)):
        return Poison(text, "raise the topic's max.message.bytes (`foldstream topics check`)")
    if isinstance(error, raised.FencedInstanceIdError):
        return Fatal(f"{what}: a second worker runs under this name", OWN_INSTANCE)
    if isinstance(error, _DENIED):
        return Fatal(text, _RIGHTS.get(type(error), _ANY_RIGHT))
    if isinstance(error, raised.UnsupportedVersionError):
        return Fatal(text, f"a worker needs Apache Kafka {OLDEST} or newer on every broker")
    if isinstance(error, raised.KafkaConfigurationError):
        return Fatal(text, "check the client options")
    return Retriable(text)


#: What a broker with ACLs must allow, by what it refused.
_RIGHTS = {
    raised.TopicAuthorizationFailedError: (
        "grant this user Read, Write and DescribeConfigs on foldstream's topics"
    ),
    raised.GroupAuthorizationFailedError: (
        "grant this user Read on the consumer group, which is named as the application id"
    ),
    raised.TransactionalIdAuthorizationFailedError: (
        "grant this user Write on the transactional id: the application id, a dash, the instance"
    ),
}
_ANY_RIGHT = "check the credentials (--client-option) and the rights on topics, group and ids"
_DENIED = (
    raised.AuthorizationError,
    raised.SaslAuthenticationFailedError,
)


def restore_logger() -> None:
    """kafka-python silences its producers' log for good when one is garbage-collected."""
    if not isinstance(producer_module.log, logging.Logger):
        producer_module.log = logging.getLogger(producer_module.__name__)


#: Of every client: a broker that is back is found within a second.
COMMON: Mapping[str, Any] = {"reconnect_backoff_max_ms": 1_000}


def new_consumer(cluster: Cluster, ours: Mapping[str, Any]) -> Any:
    """A `KafkaConsumer` that reads whatever stands in a topic."""
    tolerate_header_names()
    with by_remedy("connecting"):
        return cluster.clients.consumer(**cluster.settings(KafkaConsumer, ours))


def new_asker(cluster: Cluster, group: str) -> Any:
    """A consumer that asks for the group's committed offsets, those that are decided, and never
    joins it."""
    ours = {
        **COMMON,
        "request_timeout_ms": limits.REQUEST_TIMEOUT_MS,
        "group_id": group,
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
    }
    return new_consumer(cluster, ours)


def new_admin(cluster: Cluster, ours: Mapping[str, Any]) -> Any:
    """A `KafkaAdminClient`."""
    return cluster.clients.admin(**cluster.settings(KafkaAdminClient, ours))


#: Of producers. The backoff: a transaction right after another waits twice that long.
CALL_SETTINGS: Mapping[str, Any] = {
    **COMMON,
    "request_timeout_ms": limits.REQUEST_TIMEOUT_MS,
    "retry_backoff_ms": 2,
}
