"""Known lapses of kafka-python, each shown on a real broker, and the guard that stands against it.

A module holds one of them: the client alone (fails when a new version is cured: then the guard may
go), our ends or worker under the same provocation, and the same once more without the guard, where
what the guard prevents must be seen.

They run one after the other on a worker of their own. ``slow`` ones are left to `make hazards`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .ends import Ends, ends_on
from .node import Proxied, a_cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)
            item.add_marker(pytest.mark.xdist_group("hazards"))


@pytest.fixture(scope="session")
def node() -> Iterator[Proxied]:
    """One broker of our own: it is stopped and killed, so no other will do."""
    with a_cluster(1) as found:
        yield found


@pytest.fixture(scope="module")
def three() -> Iterator[Proxied]:
    with a_cluster(3) as found:
        yield found


@pytest.fixture
def ends(node: Proxied) -> Iterator[Ends]:
    """Of a worker on `node`."""
    with ends_on(node.bootstrap) as found:
        yield found
