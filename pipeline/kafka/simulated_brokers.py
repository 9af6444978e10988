"""Brokers in memory as simulated clients see them: who leads what, requests, Kafka's errors."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka import errors as raised

from pipeline.memory import MemoryBroker
from pipeline.memory_groups import Group
from pipeline.memory_log import Refusal
from pipeline.memory_network import Answer, Disconnected, Network, Process, Unanswered
from pipeline.memory_time import FOR_EVER_S, Hang, VirtualTime
from pipeline.memory_transactions import Markers
from pipeline.ports import Headers

CODES: Mapping[str, int] = {
    "COORDINATOR_NOT_AVAILABLE": 15,
    "ILLEGAL_GENERATION": 22,
    "UNKNOWN_MEMBER_ID": 25,
    "REBALANCE_IN_PROGRESS": 27,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "INVALID_PRODUCER_EPOCH": 47,
    "INVALID_TXN_STATE": 48,
    "INVALID_PRODUCER_ID_MAPPING": 49,
    "CONCURRENT_TRANSACTIONS": 51,
    "FENCED_INSTANCE_ID": 82,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "PRODUCER_FENCED": 90,
}

Raw = tuple[bytes | None, bytes | None, Headers]
SLICE_S = 0.5  #: of a long wait, after which others have a turn
EXPIRY_S = 1.0  #: how often a coordinator looks for transactions that are open for too long


def error_of(answer: Any) -> raised.KafkaError:
    """kafka-python's error for what came instead of an answer."""
    if isinstance(answer, Refusal):
        error: raised.KafkaError = raised.for_code(CODES[answer.code])()
        return error
    if isinstance(answer, Unanswered):
        return raised.RequestTimedOutError(f"{answer}: no answer")
    assert isinstance(answer, Disconnected)
    return raised.KafkaConnectionError(f"{answer}: the connection closed")


class Brokers:
    """A cluster. ``marker_s`` is asked for each decided transaction: how long until its markers
    stand; None: they are lost with the coordinator if it decided by itself, as happens to one that
    is killed."""

    def __init__(self, time: VirtualTime, count: int = 3) -> None:
        self.time = time
        self.network = Network(time, count)
        self.memory = MemoryBroker(
            now_ms=lambda: 1_700_000_000_000 + int(time.monotonic() * 1000),
            monotonic=time.monotonic,
        )
        self.memory.transactions.write = self._decided
        self.groups: dict[str, Group] = {}
        self.marker_s: Callable[[], float | None] = lambda: 0.0
        self.forgets: Callable[[str], bool] = lambda _request: False
        self._expire()

    # --- who leads --------------------------------------------------------------------------------

    def leader(self, at: TopicPartition) -> int:
        return zlib.crc32(f"{at.topic}-{at.partition}".encode())

    def coordinator(self, name: str) -> int:
        """Of a group or a transactional id."""
        return zlib.crc32(name.encode())

    def await_leader(self, key: int, seconds: float) -> None:
        """Until it answers; kafka-python's error if it does not."""
        if not self.time.wait(lambda: self.network.reachable(key), seconds):
            raise raised.KafkaTimeoutError("no broker answers")

    def await_any(self, seconds: float) -> None:
        """Bootstrap."""
        reachable = self.network.reachable
        if not self.time.wait(lambda: any(reachable(key) for key in range(3)), seconds):
            raise raised.NoBrokersAvailable

    # --- requests ---------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = Group(self.time.monotonic, self.time.after)
        return found

    def produce(
        self, who: tuple[str, int, int], at: TopicPartition, sequence: int, records: Sequence[Raw]
    ) -> int:
        """Append a batch of a transactional producer; the offset of its first record."""
        name, writer, epoch = who
        log = self.memory.log(*at)
        if not log.is_open(writer, epoch) and not self.memory.transactions.has(
            name, (writer, epoch), (at.topic, at.partition)
        ):
            raise Refusal(self.memory.transactions.refusal(name, (writer, epoch)))
        there = log.admit(writer, epoch, sequence, len(records))
        if there is not None:
            return there
        first = log.end
        for record in records:
            self.memory.put(at.topic, at.partition, record, writer)
        return first

    # --- transactions' ends -----------------------------------------------------------------------

    def _decided(self, markers: Markers) -> None:
        seconds = self.marker_s()
        if seconds is None and not markers.asked:
            self.memory.transactions.written(markers.name)
        elif not seconds:
            self.memory.write_markers(markers)
        else:
            self.time.after(seconds, lambda: self.memory.write_markers(markers))

    def _expire(self) -> None:
        self.memory.transactions.expire()
        self.time.after(EXPIRY_S, self._expire)


class Site:
    """The brokers as one process reaches them."""

    def __init__(self, brokers: Brokers, process: Process) -> None:
        self.brokers = brokers
        self.process = process
        self.time = brokers.time

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """A timer of this process."""
        self.time.after(seconds, lambda: self.process.deliver(call))

    def wait(self, done: Callable[[], bool], seconds: float = FOR_EVER_S) -> bool:
        """As `VirtualTime.wait`, and others run meanwhile."""
        until = self.time.monotonic() + seconds
        while not self.time.wait(done, min(SLICE_S, max(until - self.time.monotonic(), 0.0))):
            if self.time.monotonic() >= until:
                if seconds >= FOR_EVER_S:
                    raise Hang("waits for what never comes")
                return False
            self.process.idle()
        return True

    def send(
        self,
        request: tuple[str, int],
        serve: Callable[[Answer], None],
        answer: Answer,
        timeout_s: float,
    ) -> None:
        self.brokers.network.send(self.process, request, serve, answer, timeout_s)

    def ask(
        self,
        request: tuple[str, int],
        serve: Callable[[], Any],
        seconds: float,
        retry_s: float = 0.1,
    ) -> Any:
        """Ask and wait; again for so long as the error may pass. Then kafka-python's error."""
        until = self.time.monotonic() + seconds
        while True:
            answers: list[Any] = []
            left = max(until - self.time.monotonic(), 0.001)
            self.send(request, lambda reply: reply(serve()), answers.append, left)
            self.wait(lambda answers=answers: bool(answers))  # type: ignore[misc]
            answer = answers[0]
            if not isinstance(answer, Refusal | Disconnected | Unanswered):
                return answer
            error = error_of(answer)
            if not isinstance(error, raised.RetriableError):
                raise error
            if self.time.monotonic() + retry_s >= until:
                raise raised.KafkaTimeoutError(f"{request[0]}: {error}")
            self.time.sleep(retry_s)
