"""The transactional requests of kafka-python's producer, served by brokers in memory."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kafka.producer.transaction_manager import (
    AddOffsetsToTxnHandler,
    AddPartitionsToTxnHandler,
    EndTxnHandler,
    FindCoordinatorHandler,
    InitProducerIdHandler,
    TxnOffsetCommitHandler,
)

from pipeline.memory_groups import Claim
from pipeline.memory_log import Refusal
from pipeline.memory_network import Disconnected, Unanswered
from pipeline.memory_transactions import ABORTED, COMMITTED, Place

from .simulated_brokers import CODES, Brokers, error_of

Serve = Callable[[Brokers, Any], Any]


def request_name(handler: Any) -> str:
    """Kafka's name of what a handler of the client's transaction manager sends."""
    return type(handler).__name__.removesuffix("Handler")


def coordinator_name(handler: Any) -> str:
    """The transactional id or group whose coordinator the request goes to."""
    return str(handler.coordinator_key or handler.transactional_id)


def serve(brokers: Brokers, handler: Any) -> Any:
    """What the broker answers, in the shape that the handler reads. Errors are in it."""
    return _SERVED[type(handler)](brokers, handler)


def answered(answer: Any) -> Any:
    """What the handler is given: the answer, or kafka-python's error for its absence."""
    return error_of(answer) if isinstance(answer, Disconnected | Unanswered) else answer


def _code(call: Callable[[], object]) -> int:
    try:
        call()
    except Refusal as refusal:
        return CODES[refusal.code]
    return 0


def _find(_brokers: Brokers, _handler: Any) -> Any:
    return SimpleNamespace(coordinators=(), error_code=0)


def _init(brokers: Brokers, handler: Any) -> Any:
    request, timeout_s = handler.request, handler.request.transaction_timeout_ms / 1000
    was = (request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
    try:
        found = brokers.memory.transactions.init(request.transactional_id, timeout_s, was)
    except Refusal as refusal:
        return SimpleNamespace(error_code=CODES[refusal.code], producer_id=-1, producer_epoch=-1)
    return SimpleNamespace(error_code=0, producer_id=found[0], producer_epoch=found[1])


def _add_partitions(brokers: Brokers, handler: Any) -> Any:
    request = handler.request
    at = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    topics = [(topic.name, list(topic.partitions)) for topic in request.v3_and_below_topics]
    places: set[Place] = {(name, partition) for name, found in topics for partition in found}
    transactions = brokers.memory.transactions
    code = _code(lambda: transactions.add(request.v3_and_below_transactional_id, at, places))
    return SimpleNamespace(
        results_by_topic_v3_and_below=[
            (name, [(partition, code) for partition in found]) for name, found in topics
        ]
    )


def _add_offsets(brokers: Brokers, handler: Any) -> Any:
    request = handler.request
    at = (request.producer_id, request.producer_epoch)
    transactions = brokers.memory.transactions
    return SimpleNamespace(
        error_code=_code(
            lambda: transactions.add(request.transactional_id, at, set(), request.group_id)
        )
    )


def _commit_offsets(brokers: Brokers, handler: Any) -> Any:
    request = handler.request
    group, at = request.group_id, (request.producer_id, request.producer_epoch)
    claim = Claim(request.member_id, request.generation_id, request.group_instance_id)
    topics = [
        (t.name, [(p.partition_index, p.committed_offset) for p in t.partitions])
        for t in request.topics
    ]

    def commit() -> None:
        transactions = brokers.memory.transactions
        if not transactions.has_group(request.transactional_id, at, group):
            raise Refusal(transactions.refusal(request.transactional_id, at))
        brokers.group(group).may_commit(claim)
        brokers.memory.offsets.add(
            group, at[0], {(name, n): offset for name, found in topics for n, offset in found}
        )

    code = _code(commit)
    return SimpleNamespace(
        topics=[(name, [(partition, code) for partition, _ in found]) for name, found in topics]
    )


def _end(brokers: Brokers, handler: Any) -> Any:
    request = handler.request
    at = (request.producer_id, request.producer_epoch)
    outcome = COMMITTED if request.committed else ABORTED
    transactions = brokers.memory.transactions
    code = _code(lambda: transactions.end(request.transactional_id, at, outcome))
    return SimpleNamespace(error_code=code)


_SERVED: dict[type, Serve] = {
    FindCoordinatorHandler: _find,
    InitProducerIdHandler: _init,
    AddPartitionsToTxnHandler: _add_partitions,
    AddOffsetsToTxnHandler: _add_offsets,
    TxnOffsetCommitHandler: _commit_offsets,
    EndTxnHandler: _end,
}
