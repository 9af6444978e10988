"""One real Apache Kafka for all tests of this folder.

They run on one worker, one after the other (``xdist_group``): the broker is started once, and tests
that measure a rebalance do not starve each other, while other workers run the rest of the suite.
Each test has topics and groups of its own (``topic_prefix``), so none sees another's records.
"""

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from pipeline.broker import BrokerError, local_kafka

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.xdist_group("kafka"))


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """Bootstrap servers: ``KAFKA_BOOTSTRAP``, else a container, else a broker of our own.

    Where none can be had the test is skipped and says why; under ``CI=true`` it fails.
    """
    if given := os.environ.get("KAFKA_BOOTSTRAP"):
        yield given
        return
    reasons = []
    with ExitStack() as stack:
        for start in (_container, local_kafka):
            try:
                bootstrap = stack.enter_context(start())
            except (BrokerError, _NoContainer) as reason:
                reasons.append(str(reason))
            else:
                yield bootstrap
                return
    why = "no real Kafka: " + "; ".join(reasons)
    if os.environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


@pytest.fixture
def topic_prefix() -> str:
    """Begins the name of every topic, group and transactional id of one test."""
    return f"t{uuid.uuid4().hex[:10]}."


class _NoContainer(Exception):  # noqa: N818 - a reason, not an error
    """Why there is no Kafka container."""


@contextmanager
def _container() -> Iterator[str]:
    # The fixture removes its own container; the cleaner would be one more image to pull.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from docker.errors import DockerException

    from tests.integration.kafka_container import ApacheKafkaContainer

    _find_engine()
    try:
        container = ApacheKafkaContainer().start()
    except (DockerException, TimeoutError) as error:
        raise _NoContainer(f"the Kafka container did not start ({error})") from error
    try:
        yield container.bootstrap_servers()
    finally:
        container.stop()


def _find_engine() -> None:
    """Ask the socket itself: the library leaves its own open when nobody answers."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        return
    with closing(socket.socket(socket.AF_UNIX)) as engine:
        try:
            engine.connect(host.removeprefix("unix://"))
        except OSError as error:
            raise _NoContainer(f"no Docker engine answers ({error})") from None
