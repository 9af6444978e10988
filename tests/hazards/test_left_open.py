"""Records of a transaction that its coordinator has forgotten; the next commit would take them in.

`tests/integration/test_orphans.py` holds what the sink does about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.admin import KafkaAdminClient

from pipeline.kafka import sink as sink_module
from pipeline.kafka.sink import KafkaSink
from tests.contracts.deployment import out
from tests.integration.test_orphans import _check, leave_open

from .ends import Ends
from .node import Proxied


@pytest.fixture
def forgotten(node: Proxied, ends: Ends) -> Iterator[Ends]:
    """On partition 1 of the surfaces."""
    with closing(KafkaAdminClient(bootstrap_servers=node.bootstrap)) as admin:
        _check(admin, "false")
        leave_open(node.bootstrap, ends.names, f"{ends.names.application}-a")
        yield ends
        _check(admin, "true")


def published(sink: KafkaSink, ends: Ends) -> list[bytes | None]:
    transaction = sink.begin()
    transaction.send(out(b"own", partition=1))
    transaction.flush()
    transaction.commit()
    return ends.values("surface", 1)


def test_they_are_ended_before_anything_is_committed(forgotten: Ends) -> None:
    assert published(forgotten.sink(), forgotten) == [b"own"]


def test_without_that_they_are_published_with_the_next_batch(
    forgotten: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_module, "end_orphans", lambda *_: None)
    assert published(forgotten.sink(), forgotten) == [b"orphan", b"own"]
