"""Records of a transaction of ours that is over for its coordinator, yet open on its partition.

A broker that was killed may, once it is back, call a transaction aborted without writing the abort
markers (seen on Kafka 4.4.0 with one broker that was away for longer than the transaction timeout).
Its records then stay open, and as a marker counts for all that its producer id has open on the
partition, the *next* commit of that worker would commit them too: a batch twice. `end_orphans`
aborts them first. In a transaction of its own and not by an administrator's request, as writing is
a right that the worker has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised
from msgspec import Struct

from pipeline import limits
from pipeline.errors import Retriable
from pipeline.topics import ROLES, Names

from .client import CALL_SETTINGS, Cluster, new_admin, patiently
from .clients import Clients

log = logging.getLogger(__name__)

#: Both within the time of one call.
MARKERS_S = 3.0
PATIENCE_S = 3.0


class Ours(Struct, frozen=True):
    """Whose transactions: those of this transactional id, on these topics and this group."""

    names: Names
    transactional_id: str


def end_orphans(cluster: Cluster, producer: Any, ours: Ours) -> None:
    """Called right after ``init_transactions`` of ``producer``: then nothing of its id may be open.

    Pending offsets of the group cannot be looked at, so they are aborted in any case.
    Raises kafka-python's errors, and `Retriable` if something stays open."""
    clients = cluster.clients
    with closing(new_admin(cluster, CALL_SETTINGS)) as admin:
        found = patiently(clients, PATIENCE_S, lambda: orphans(admin, ours))
        _abort(producer, ours, found)
        if not found:
            return
        log.warning("aborting what a lost transaction left open: %s", _told(found))
        _await_end(clients, admin, ours)


def _await_end(clients: Clients, admin: Any, ours: Ours) -> None:
    """The markers are written after the abort was answered."""
    until = clients.monotonic() + MARKERS_S
    while left := patiently(clients, PATIENCE_S, lambda: orphans(admin, ours)):
        if clients.monotonic() > until:
            raise Retriable(
                f"a lost transaction is still open on {_told(left)}",
                "see `kafka-transactions.sh find-hanging`, and end it with `abort`",
            )
        clients.sleep(0.05)


def orphans(admin: Any, ours: Ours) -> list[TopicPartition]:
    """The output partitions on which the producer id of ``ours`` has a transaction open."""
    producer_id = admin.describe_transactions([ours.transactional_id])[
        ours.transactional_id
    ].producer_id
    topics = [ours.names.of(role) for role in ROLES if role != "events"]
    partitions = [
        TopicPartition(topic["name"], partition["partition_index"])
        for topic in admin.describe_topics(topics)
        for partition in topic["partitions"]
    ]
    return sorted(
        at
        for at, state in admin.describe_producers(partitions).items()
        if any(
            active.producer_id == producer_id and active.current_transaction_start_offset >= 0
            for active in state.active_producers
        )
    )


def _abort(producer: Any, ours: Ours, partitions: Iterable[TopicPartition]) -> None:
    """An aborted transaction over ``partitions`` and the group's offsets. It commits no offset, so
    no member is named; its records need a key, as compacted topics refuse them without."""
    producer.begin_transaction()
    futures = [
        producer.send(at.topic, key=b"", value=None, partition=at.partition) for at in partitions
    ]
    producer.flush(timeout=limits.CALL_TIMEOUT_S)
    for future in futures:
        if future.exception is not None:
            raise future.exception
        if not future.is_done:
            raise raised.KafkaTimeoutError("a record was not acknowledged")
    producer.send_offsets_to_transaction({}, ours.names.application)
    producer.abort_transaction()


def _told(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{at.topic}[{at.partition}]" for at in partitions)
