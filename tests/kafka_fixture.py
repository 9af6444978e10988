"""The one real Apache Kafka of a test run, and where it came from.

`kafka` takes the first that can be had: the broker named by ``KAFKA_BOOTSTRAP``, a container where
a Docker engine answers, a broker of our own on this machine. ``FOLDSTREAM_TEST_KAFKA`` (`container`
or `local`) allows only that one. What was taken is a line at the end of the run: `TAKEN` carries it
there, from the worker that asked (``tests/conftest.py`` prints it).
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager

import pytest

from pipeline.broker import BrokerError, local_kafka
from pipeline.broker_jars import kafka_version

TAKEN = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[str]:
    """Bootstrap servers. Where no Kafka can be had the test is skipped and says why; under
    ``CI=true``, or when one kind was asked for, it fails."""
    stash = request.config.stash
    if given := os.environ.get("KAFKA_BOOTSTRAP"):
        stash[TAKEN] = f"{given} (KAFKA_BOOTSTRAP)"
        yield given
        return
    wanted = os.environ.get("FOLDSTREAM_TEST_KAFKA")
    reasons = []
    with ExitStack() as stack:
        for start in _kinds(wanted):
            try:
                bootstrap, what = stack.enter_context(start())
            except (BrokerError, _NoContainer) as reason:
                reasons.append(str(reason))
            else:
                stash[TAKEN] = "; ".join([f"{what} at {bootstrap}", *reasons])
                yield bootstrap
                return
    why = "no real Kafka: " + "; ".join(reasons)
    stash[TAKEN] = why
    if wanted or os.environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


@pytest.fixture
def topic_prefix() -> str:
    """Begins the name of every topic, group and transactional id of one test."""
    return f"t{uuid.uuid4().hex[:10]}."


class _NoContainer(Exception):  # noqa: N818 - a reason, not an error
    """Why there is no Kafka container."""


_Kind = Callable[[], AbstractContextManager[tuple[str, str]]]
"""Runs a Kafka as long as its block; gives bootstrap servers and what it is."""


def _kinds(wanted: str | None) -> list[_Kind]:
    kinds: dict[str, _Kind] = {"container": _container, "local": _local}
    if not wanted:
        return list(kinds.values())
    if wanted not in kinds:
        pytest.fail(f"FOLDSTREAM_TEST_KAFKA={wanted}: container or local", pytrace=False)
    return [kinds[wanted]]


@contextmanager
def _local() -> Iterator[tuple[str, str]]:
    with local_kafka() as bootstrap:
        yield bootstrap, f"local Apache Kafka {kafka_version()}"


@contextmanager
def _container() -> Iterator[tuple[str, str]]:
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
        yield container.bootstrap_servers(), f"container {container.image}"
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
            raise _NoContainer(f"no Docker engine answers ({error.strerror})") from None
