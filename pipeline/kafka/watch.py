"""Whether the topics are still those that a worker began with: nothing else would say so.

A consumer waits silently for a topic that was deleted, and a producer goes on writing to one that
was made again, where what it wrote before is missing.
"""

from __future__ import annotations

from contextlib import closing

from pipeline import identity, limits
from pipeline.errors import Retriable
from pipeline.identity import Identity
from pipeline.topics import FOLD_ANEW, ROLES, Found, Names

from .admin import described
from .client import CALL_SETTINGS, Cluster, by_remedy, new_admin


class Watch:
    """Of the topics of ``names``, which were ``began`` when the worker started."""

    def __init__(self, cluster: Cluster, names: Names, began: Identity) -> None:
        self._cluster = cluster
        self._names = names
        self._began = began
        self._next = 0.0

    def soon(self) -> None:
        """Something went wrong: the next `look` looks."""
        self._next = 0.0

    def look(self) -> None:
        """Now and then (`limits.SAME_TOPICS_EVERY_S`). `Fatal` if a topic is another one or has
        grown, `Retriable` if one is missing: it may be known again in a moment."""
        clients = self._cluster.clients
        if clients.monotonic() < self._next:
            return
        with by_remedy("describing topics"):
            found = clients.bounded("describing topics", limits.CALL_TIMEOUT_S, self._describe)
        self._next = clients.monotonic() + limits.SAME_TOPICS_EVERY_S
        missing = [name for name in map(self._names.of, ROLES) if name not in found]
        if missing:
            self.soon()
            raise Retriable(f"topic {', '.join(missing)} is gone", FOLD_ANEW)
        identity.require_same(self._names, identity.of(self._names, found), self._began)

    def _describe(self) -> dict[str, Found]:
        with closing(new_admin(self._cluster, CALL_SETTINGS)) as admin:
            return described(admin, [self._names.of(role) for role in ROLES])
