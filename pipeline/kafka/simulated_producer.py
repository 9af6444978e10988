"""A producer of kafka-python's shape over brokers in memory and virtual time.

The client's own transaction manager runs here as it is: its states, its retries and its faults (a
commit that succeeds over a lost record, offsets left for the next transaction, a fatal state after
a time-out). Only what is around it is simulated: batches, the sender's loop, network and clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised
from kafka.producer.transaction_manager import FindCoordinatorHandler, TransactionManager

from pipeline.ports import Headers

from .simulated_brokers import Site, error_of
from .simulated_requests import answered, coordinator_name, request_name, serve

VERSION = (4, 0)
BOOTSTRAP_S = 30.0
FRAMING = 512  #: what a record adds to its key and value, at most; as the client estimates it


class SimulatedFuture:
    """kafka-python's future of one record, as far as it is looked at."""

    def __init__(self) -> None:
        self.is_done = False
        self.exception: BaseException | None = None
        self.value: Any = None

    def failed(self) -> bool:
        return self.is_done and self.exception is not None

    def succeeded(self) -> bool:
        return self.is_done and self.exception is None


class Metadata(tuple[str, int, int]):
    """Topic, partition, offset of an acknowledged record."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        return self[0]

    @property
    def partition(self) -> int:
        return self[1]

    @property
    def offset(self) -> int:
        return self[2]


class _Batch:
    """The names that `TransactionManager` looks at are its own."""

    def __init__(self, at: TopicPartition, created: float) -> None:
        self.topic_partition = at
        self.created = created
        self.records: list[tuple[bytes | None, bytes | None, Headers]] = []
        self.futures: list[SimulatedFuture] = []
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = -1
        self.attempts = 0
        self.done = False

    @property
    def record_count(self) -> int:
        return len(self.records)

    def succeed(self, offset: int) -> None:
        self.done = True
        for n, future in enumerate(self.futures):
            future.value = Metadata((*self.topic_partition, offset + n))
            future.is_done = True

    def fail(self, error: BaseException) -> None:
        self.done = True
        for future in self.futures:
            future.exception, future.is_done = error, True


class _Coordinators:
    """Where the manager puts the coordinators it found."""

    def add_coordinator(self, _found: Any, kind: Any, key: str) -> str:
        return f"{kind}-{key}"


class SimulatedProducer:
    """``settings`` by kafka-python's names."""

    def __init__(self, site: Site, settings: Mapping[str, Any]) -> None:
        self._site = site
        self._brokers = site.brokers
        self._settings = settings
        self._time = site.time
        self._process = site.process
        self._queues: dict[TopicPartition, deque[_Batch]] = {}
        self._sending: dict[TopicPartition, _Batch] = {}
        self._flushing = False
        self._closed = False
        self._pumping = False
        self._backing_off = False
        self._underway = 0
        self._request_s = settings["request_timeout_ms"] / 1000
        self.manager = TransactionManager(
            transactional_id=settings["transactional_id"],
            transaction_timeout_ms=settings["transaction_timeout_ms"],
            retry_backoff_ms=settings["retry_backoff_ms"],
            api_version=VERSION,
            metadata=_Coordinators(),
        )
        site.brokers.await_any(BOOTSTRAP_S)

    # --- kafka-python's methods -------------------------------------------------------------------

    def init_transactions(self) -> None:
        result = self.manager.initialize_transactions()
        self._await("init_transactions", result, self._settings["max_block_ms"] / 1000)

    def begin_transaction(self) -> None:
        self._process.hook("begin")
        self.manager.begin_transaction()

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
        partition: int = 0,
    ) -> SimulatedFuture:
        self._process.hook("send")
        if self._closed:
            raise raised.IllegalStateError("KafkaProducer already closed!")
        if len(key or b"") + len(value or b"") + FRAMING > self._settings["max_request_size"]:
            raise raised.MessageSizeTooLargeError("the message is larger than max_request_size")
        at = TopicPartition(topic, partition)
        self.manager.maybe_add_partition_to_transaction(at)
        queue = self._queues.setdefault(at, deque())
        if not queue or queue[-1].sequence >= 0:
            queue.append(self._batch(at))
        future = SimulatedFuture()
        queue[-1].records.append((key, value, tuple(headers or ())))
        queue[-1].futures.append(future)
        return future

    def flush(self, timeout: float | None = None) -> None:
        self._process.hook("flush:before")
        self._flushing = True
        self._pump()
        self._process.hook("flush:during")
        seconds = {} if timeout is None else {"seconds": timeout}
        done = self._site.wait(lambda: not self._incomplete(), **seconds)
        self._flushing = False
        self._process.hook("flush:after")
        if not done:
            raise raised.KafkaTimeoutError("Timeout while waiting for flush")

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group_metadata: Any
    ) -> None:
        result = self.manager.send_offsets_to_transaction(offsets, group_metadata)
        self._await("send_offsets", result)

    def commit_transaction(self) -> None:
        self._await("commit", self.manager.begin_commit())

    def abort_transaction(self) -> None:
        self._await("abort", self.manager.begin_abort())

    def close(self, timeout: float | None = None) -> None:
        """As measured: raises, and lives on, when what is buffered cannot be flushed in time."""
        if self._closed:
            return
        self.flush(timeout)
        seconds = 3_000.0 if timeout is None else timeout
        self._site.wait(lambda: not self._underway, seconds)
        self._closed = True

    # --- the sender's loop ------------------------------------------------------------------------

    def _batch(self, at: TopicPartition) -> _Batch:
        batch = _Batch(at, self._time.monotonic())
        linger = self._settings.get("linger_ms", 0) / 1000
        self._site.later(linger, self._pump)
        self._site.later(self._settings["delivery_timeout_ms"] / 1000, lambda: self._expire(batch))
        return batch

    def _await(self, what: str, result: Any, seconds: float | None = None) -> None:
        self._process.hook(f"{what}:before")
        self._pump()
        self._process.hook(f"{what}:during")
        bounds = {} if seconds is None else {"seconds": seconds}
        done = self._site.wait(lambda: result.is_done, **bounds)
        self._process.hook(f"{what}:after")
        if result.exception is not None:
            raise result.exception
        if not done:
            raise raised.KafkaTimeoutError(f"Timeout expired in {what}")

    def _incomplete(self) -> bool:
        return bool(self._sending) or any(self._queues.values())

    def _pump(self) -> None:
        """Send whatever can be sent now; answers and timers come back here."""
        if self._closed or self._pumping or self._backing_off:
            return
        self._pumping = True
        try:
            while self._step():
                pass
        finally:
            self._pumping = False

    def _step(self) -> bool:
        """The client's thread survives what its own state machine refuses (a commit that was over
        before its batches were: told as done, H1b)."""
        try:
            return self._transactional()
        except raised.KafkaError:
            return True

    def _transactional(self) -> bool:
        """One transactional request, or else the batches; whether there may be more to do."""
        manager = self.manager
        if manager.has_in_flight_transactional_request():
            return False
        if manager.is_completing() and self._incomplete():
            if manager.is_aborting():
                self._abort_undrained(manager.last_error or raised.TransactionAbortedError())
            self._flushing = True
        handler = manager.next_request_handler(self._incomplete())
        if handler is not None:
            return self._request(handler)
        if manager.has_fatal_error() or not manager.has_producer_id() or manager.is_bumping_epoch():
            if manager.last_error is not None:
                self._abort_all(manager.last_error)
            return False
        if manager.has_abortable_error():
            self._abort_undrained(manager.last_error or raised.TransactionAbortedError())
        self._produce()
        return False

    def _request(self, handler: Any) -> bool:
        if handler.needs_coordinator():
            if self.manager.coordinator(handler.coordinator_type) is None:
                self.manager.lookup_coordinator_for_request(handler)
                self.manager.retry(handler)
                return True
            if self._brokers.forgets(request_name(handler)):
                return True  # H6: lost while its coordinator dies; whoever waits for it waits on
        if handler.is_retry and not isinstance(handler, FindCoordinatorHandler):
            self._backing_off = True
            backoff = self._settings["retry_backoff_ms"] / 1000
            self._site.later(backoff, lambda: self._resume(handler))
            return False
        self._send(handler)
        return False

    def _resume(self, handler: Any) -> None:
        self._backing_off = False
        self._send(handler)

    def _send(self, handler: Any) -> None:
        correlation = self.manager.next_in_flight_request_correlation_id()

        def done(answer: Any) -> None:
            self._underway -= 1
            if not self._closed:
                handler.on_complete(correlation, answered(answer))
                self._pump()

        self._underway += 1
        request = request_name(handler), self._brokers.coordinator(coordinator_name(handler))
        self._site.send(
            request, lambda reply: reply(serve(self._brokers, handler)), done, self._request_s
        )

    # --- batches ----------------------------------------------------------------------------------

    def _produce(self) -> None:
        now, linger = self._time.monotonic(), self._settings.get("linger_ms", 0) / 1000
        for at, queue in self._queues.items():
            if (
                not queue
                or at in self._sending
                or not self.manager.is_send_to_partition_allowed(at)
            ):
                continue
            if self._flushing or now >= queue[0].created + linger:
                self._drain(at, queue.popleft())

    def _drain(self, at: TopicPartition, batch: _Batch) -> None:
        if batch.sequence < 0:
            own = self.manager.producer_id_and_epoch
            batch.producer_id, batch.producer_epoch = own.producer_id, own.epoch
            batch.sequence = self.manager.sequence_number(at)
            self.manager.increment_sequence_number(at, batch.record_count)
        self._sending[at] = batch
        self._underway += 1
        who = (self.manager.transactional_id, batch.producer_id, batch.producer_epoch)

        def done(answer: Any) -> None:
            self._underway -= 1
            self._answered(batch, answer)

        self._site.send(
            ("Produce", self._brokers.leader(at)),
            lambda reply: reply(self._brokers.produce(who, at, batch.sequence, batch.records)),
            done,
            self._request_s,
        )

    def _answered(self, batch: _Batch, answer: Any) -> None:
        if batch.done or self._closed:
            return
        del self._sending[batch.topic_partition]
        if isinstance(answer, int):
            batch.succeed(answer)
            if self.manager.producer_id_and_epoch.match(batch):
                self.manager.update_last_acked_offset(
                    batch.topic_partition, answer, batch.record_count
                )
        else:
            self._failed(batch, error_of(answer))
        self._pump()

    def _failed(self, batch: _Batch, error: raised.KafkaError) -> None:
        """Again if it may help, else by the manager's classes, as the client's sender does it."""
        manager, at = self.manager, batch.topic_partition
        if isinstance(error, raised.RetriableError) and manager.producer_id_and_epoch.match(batch):
            batch.attempts += 1
            backoff = self._settings["retry_backoff_ms"] / 1000
            self._sending[at] = batch
            self._site.later(backoff, lambda: self._again(batch))
            return
        kind = manager.classify_batch_error(error, batch)
        if kind == TransactionManager.ERROR_CLASS_NEEDS_EPOCH_BUMP:
            manager.bump_producer_id_and_epoch()
        elif kind == TransactionManager.ERROR_CLASS_FATAL:
            manager.transition_to_fatal_error(error)
        elif kind == TransactionManager.ERROR_CLASS_ABORTABLE:
            manager.transition_to_abortable_error(error)
        batch.fail(error)

    def _again(self, batch: _Batch) -> None:
        if batch.done or self._closed:
            return
        at = batch.topic_partition
        del self._sending[at]
        if self.manager.has_fatal_error() or not self.manager.producer_id_and_epoch.match(batch):
            batch.fail(raised.KafkaError("the producer's epoch has changed"))
        else:
            self._drain(at, batch)
        self._pump()

    def _expire(self, batch: _Batch) -> None:
        """Its delivery time is over: the record's future fails, and the transaction goes on (H1).
        Whether the batch arrived is not known."""
        if batch.done or self._closed:
            return
        at = batch.topic_partition
        if self._sending.get(at) is batch:
            del self._sending[at]
        elif batch in self._queues.get(at, ()):
            self._queues[at].remove(batch)
        batch.fail(raised.KafkaTimeoutError("the record's delivery time has passed"))
        self._pump()

    def _abort_undrained(self, error: BaseException) -> None:
        for queue in self._queues.values():
            while queue:
                queue.popleft().fail(error)

    def _abort_all(self, error: BaseException) -> None:
        self._abort_undrained(error)
        for batch in self._sending.values():
            batch.fail(error)
        self._sending.clear()
