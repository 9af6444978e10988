"""`ports.Sink` over kafka-python: one transactional producer, abandoned after any failure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka import errors as raised
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata
from msgspec import Struct

from pipeline import limits
from pipeline.errors import CommitUnknown, Fatal, Fenced, PipelineError, Poison, Retriable
from pipeline.identity import EVENTS_ID, Identity
from pipeline.ports import Member, OutRecord, require_joined, too_large
from pipeline.topics import Names

from .client import CALL_SETTINGS, Cluster, by_remedy, restore_logger, translated
from .clients import Clients
from .orphans import Ours, end_orphans


class SinkSettings(Struct, frozen=True):
    """``deadletter_partitions``: the other topics are addressed as they are. ``began`` goes with
    the committed offsets, and its events topic with each state: they are those of these topics and
    of no later ones of their names. ``batch_bytes``: no topic takes more at once."""

    names: Names
    transactional_id: str
    deadletter_partitions: int
    began: Identity | None = None
    batch_bytes: int = limits.PRODUCER_BATCH_BYTES
    call_timeout_s: float = limits.CALL_TIMEOUT_S


class KafkaSink:
    def __init__(self, cluster: Cluster, settings: SinkSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._producer: Any = None
        self._patience_s = limits.OPEN_TIMEOUT_S

    def open(self) -> None:
        clients = self._cluster.clients
        attempt = _Attempt(clients, self._producer_settings())
        try:
            with by_remedy("opening the transactional producer"):
                seconds = min(self._patience_s, self._settings.call_timeout_s)
                self._producer = clients.bounded("init_transactions", seconds, attempt.run)
        except PipelineError:
            attempt.give_up()
            self._patience_s = self._settings.call_timeout_s
            raise
        self._patience_s = limits.OPEN_TIMEOUT_S
        restore_logger()
        self._end_orphans(self._producer)

    def _end_orphans(self, producer: Any) -> None:
        """What was left open of this name is aborted now, even if its coordinator forgot it."""
        ours = Ours(self._settings.names, self._settings.transactional_id)
        try:
            with by_remedy("ending what a lost transaction left open"):
                self._cluster.clients.bounded(
                    "end_orphans",
                    self._settings.call_timeout_s,
                    lambda: end_orphans(self._cluster, producer, ours),
                )
        except Fenced as error:
            # Not a twin's doing: it may be an attempt of ours that was given up.
            self.abandon()
            raise Retriable(error.message) from error
        except PipelineError:
            self.abandon()
            raise

    def begin(self) -> KafkaTransaction:
        if self._producer is None:
            raise Retriable("the producer is not open")
        restore_logger()
        with by_remedy("begin"):
            self._producer.begin_transaction()
        return KafkaTransaction(self._cluster.clients, self._producer, self._settings)

    def abandon(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            close_quietly(self._cluster.clients, producer)

    def close(self) -> None:
        self.abandon()

    def _producer_settings(self) -> dict[str, Any]:
        ours = {
            **CALL_SETTINGS,
            "transactional_id": self._settings.transactional_id,
            "transaction_timeout_ms": limits.TRANSACTION_TIMEOUT_MS,
            "delivery_timeout_ms": limits.DELIVERY_TIMEOUT_MS,
            "max_block_ms": int(self._settings.call_timeout_s * 1000),
            "max_request_size": limits.MAX_OUTPUT_RECORD_BYTES,
            "batch_size": self._settings.batch_bytes,
            "linger_ms": 100,  # little leaves before a batch is full or flushed: fewer requests
            "allow_auto_create_topics": False,
        }
        return self._cluster.settings(KafkaProducer, ours)


class _Attempt:
    """One try to make a producer, in the watchdog's thread. Given up, it must not fence us later:
    a producer that comes into being after that is closed before it has a transactional epoch."""

    def __init__(self, clients: Clients, settings: dict[str, Any]) -> None:
        self._clients = clients
        self._settings = settings
        self._given_up = False

    def give_up(self) -> None:
        self._given_up = True

    def run(self) -> Any:
        producer = self._clients.producer(**self._settings)
        try:
            if not self._given_up:
                producer.init_transactions()
        except raised.KafkaError:
            close_quietly(self._clients, producer)
            raise
        if self._given_up:
            close_quietly(self._clients, producer)
        return producer


class KafkaTransaction:
    def __init__(self, clients: Clients, producer: Any, settings: SinkSettings) -> None:
        self._clients = clients
        self._producer = producer
        self._settings = settings
        self._topics = {role: settings.names.of(role) for role in _ROLES}
        began = settings.began
        self._began_with = "" if began is None else str(began)
        events_id = began.ids.get("events", "") if began else ""
        self._state_headers = [(EVENTS_ID, events_id.encode())] if events_id else []
        self._sent: list[tuple[OutRecord, Any]] = []
        self._states: dict[int, Any] = {}
        self._offsets: Callable[[], None] | None = None
        self._began = clients.monotonic()

    def send(self, record: OutRecord) -> None:
        partition, headers = record.partition, record.headers
        if record.role == "deadletter":
            partition %= self._settings.deadletter_partitions
        elif record.role == "state":
            headers = [*headers, *self._state_headers]
        try:
            future = self._producer.send(
                self._topics[record.role],
                value=record.value,
                key=record.key,
                headers=headers,
                partition=partition,
            )
        except raised.MessageSizeTooLargeError as error:
            raise too_large(record, size_of(record)) from error
        except raised.KafkaError as error:
            first = self._offsets_error() or error
            raise self._translated(f"sending to {self._topics[record.role]}", first) from first
        self._sent.append((record, future))
        if record.role == "state":
            self._states[partition] = future

    def send_offsets(self, offsets: Mapping[int, int], member: Member) -> None:
        require_joined(member)
        assert isinstance(member.token, ConsumerGroupMetadata)
        topic = self._settings.names.of("events")
        commits = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, self._began_with, -1)
            for partition, offset in offsets.items()
        }
        self._offsets = self._clients.started(
            "send_offsets",
            self._settings.call_timeout_s,
            lambda: self._producer.send_offsets_to_transaction(commits, member.token),
        )

    def _offsets_error(self) -> raised.KafkaError | PipelineError | None:
        """Where the offsets were refused no more records are taken, and the client says less well
        why."""
        try:
            if self._offsets is not None:
                self._offsets()
        except (raised.KafkaError, PipelineError) as error:
            return error
        return None

    def flush(self) -> dict[int, int]:
        if self._offsets is not None:
            self._checked("send_offsets", self._offsets)
        try:
            self._producer.flush(timeout=self._settings.call_timeout_s)
        except raised.KafkaError as error:
            raise self._translated("flush", error) from error
        for record, future in self._sent:
            lost = future.exception
            if lost is not None:
                what = f"a record for {self._topics[record.role]} was not acknowledged"
                raise self._translated(what, lost) from lost
            if not future.is_done:
                raise Retriable("a record was neither acknowledged nor refused")
        return {partition: future.value.offset + 1 for partition, future in self._states.items()}

    def commit(self) -> None:
        try:
            self._checked("commit", self._committed)
        except (Fenced, Fatal):
            raise
        except PipelineError as error:
            raise CommitUnknown(error.message, error.remedy) from error

    def _committed(self) -> None:
        seconds = self._settings.call_timeout_s
        self._clients.bounded("commit", seconds, self._producer.commit_transaction)

    def _checked(self, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except (raised.KafkaError, PipelineError) as error:
            raise self._translated(what, error) from error

    def _translated(self, what: str, error: BaseException) -> PipelineError:
        """By remedy. A transaction that took too long was ended by the broker, which then fences
        its producer as it would for a second worker."""
        found = translated(what, error)
        if isinstance(found, Poison):  # of a record sent before, told by whatever came next
            for record, future in self._sent:
                if isinstance(future.exception, TOO_LARGE):
                    return refused_size(self._topics[record.role], record)
        seconds = self._clients.monotonic() - self._began
        ended = isinstance(found, Fenced) or isinstance(error, raised.IllegalStateError)
        if ended and seconds * 1000 >= limits.TRANSACTION_TIMEOUT_MS:
            return Retriable(
                f"{what}: the transaction took {seconds:.0f} s and was ended by the broker",
                "use smaller batches, or find out what is slow: the broker or this machine",
            )
        return found


#: What the topic, or the broker, refuses for its size: its limit is below ours.
TOO_LARGE = (raised.MessageSizeTooLargeError, raised.RecordListTooLargeError)


def size_of(record: OutRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def refused_size(topic: str, record: OutRecord) -> Poison:
    """The broker takes no record as large as that."""
    is_input = record.role == "events"
    limit = limits.MAX_INPUT_RECORD_BYTES if is_input else limits.MAX_OUTPUT_RECORD_BYTES
    return Poison(
        f"{topic} does not take a record of {size_of(record)} bytes (key {record.key!r})",
        f"set its max.message.bytes to {limit} (`foldstream topics check` lists what differs), "
        "then start again: it goes on where it stopped",
    )


_ROLES = ("surface", "transcript", "partials", "overview", "deadletter", "state")


def close_quietly(clients: Clients, producer: Any) -> None:
    """Close within a second or two. What it had open is aborted when its successor opens."""
    with contextlib.suppress(raised.KafkaError, Retriable):
        timeout = limits.CLOSE_TIMEOUT_S
        clients.bounded("close", 3 * timeout, lambda: _close(producer, timeout))
    restore_logger()


def _close(producer: Any, timeout: float) -> None:
    """Its sender first: a close that meets something underway raises before it ends the sender,
    whose threads and sockets then stay, and try for ever."""
    sender = getattr(producer, "_sender", None)
    if sender is not None:
        sender.force_close()
    producer.close(timeout=timeout)
