"""A local Kafka whose brokers can be stopped, killed, and reached through a proxy."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.broker import Cluster, local_cluster, unavailable
from tests.chaos.proxy import Proxy


class Swallowing(Proxy):
    """A proxy that can also take what is said and never bring it anywhere."""

    def swallow(self) -> None:
        """Connections stay open, and nothing comes of what is sent on them; no new ones."""
        self._refuse = True
        for pair in list(self._pairs):
            pair.half_closed = True

    def heal(self) -> None:
        """Pass on again, on new connections: the old ones have holes in them."""
        super().heal()
        self.cut(refuse=False)


class Proxied:
    """``bootstrap`` leads to the brokers themselves, ``through`` the proxy."""

    def __init__(self, cluster: Cluster, proxy: Swallowing) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.bootstrap = cluster.bootstrap
        fronts = (cluster.front(node) for node in cluster.nodes)
        self.through = ",".join(f"{host}:{port}" for host, port in fronts)

    @contextmanager
    def stopped(self, node: int = 1) -> Iterator[None]:
        """SIGSTOP, and SIGCONT at the end of the block."""
        self.cluster.signal(node, signal.SIGSTOP)
        try:
            yield
        finally:
            self.cluster.signal(node, signal.SIGCONT)


@contextmanager
def a_cluster(brokers: int) -> Iterator[Proxied]:
    """Where none can be had the test is skipped and says why; under ``CI=true`` it fails."""
    if reason := unavailable():
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with local_cluster(brokers, proxied=True) as cluster:
        routes = {cluster.front(node): cluster.behind(node) for node in cluster.nodes}
        with Swallowing(routes) as proxy:
            yield Proxied(cluster, proxy)
