"""The rules that kafka-python asks of us, each as a test that fails without it. No broker here: a
stand-in plays the client's known lapses (a commit that succeeds although a record was lost, a call
that never returns, a logger that is silenced)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import kafka.producer.kafka as producer_module
import pytest
from kafka import TopicPartition
from kafka import errors as raised
from kafka.structs import ConsumerGroupMetadata

from pipeline.errors import CommitUnknown, Fatal, Fenced, Poison, Retriable
from pipeline.kafka import clients as clients_module
from pipeline.kafka import sink as sink_module
from pipeline.kafka.client import Cluster, patiently, translated
from pipeline.kafka.clients import KafkaPython
from pipeline.kafka.reader import KafkaReader
from pipeline.kafka.sink import KafkaSink, KafkaTransaction, SinkSettings
from pipeline.ports import Member, OutRecord
from pipeline.topics import Names

SETTINGS = SinkSettings(Names(), "app-1", 1, call_timeout_s=0.2)
JOINED = Member(3, "m", ConsumerGroupMetadata("app", 3, "m"))
RECORD = OutRecord("surface", 2, b"k", b"v", [("seq", b"1")])


class Future:
    def __init__(self, exception: Exception | None = None, is_done: bool = True) -> None:
        self.exception = exception
        self.is_done = is_done


class Producer:
    """Stands in for a `KafkaProducer`; ``calls`` is what was called."""

    def __init__(self, future: Future | None = None, **doing: Callable[..., Any]) -> None:
        self.future = future or Future()
        self.calls: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self._doing = doing

    def _do(self, name: str) -> Any:
        self.calls.append(name)
        return self._doing.get(name, lambda: None)()

    def send(self, topic: str, **record: Any) -> Future:
        self._do("send")
        self.sent.append({"topic": topic, **record})
        return self.future

    def begin_transaction(self) -> None:
        self._do("begin")

    def init_transactions(self) -> None:
        self._do("init")

    def send_offsets_to_transaction(self, offsets: Any, group: Any) -> None:
        self._do("send_offsets")

    def flush(self, timeout: float) -> None:
        self._do("flush")

    def commit_transaction(self) -> None:
        self._do("commit")

    def close(self, timeout: float) -> None:
        self._do("close")


def throws(error: BaseException) -> Callable[[], None]:
    def throw() -> None:
        raise error

    return throw


def hangs() -> None:
    time.sleep(30)


def test_every_future_is_looked_at_before_the_commit() -> None:
    """The client's commit would succeed: only the future knows that the record is lost."""
    producer = Producer(Future(raised.KafkaTimeoutError("delivery timed out")))
    transaction = KafkaTransaction(KafkaPython(), producer, SETTINGS)
    transaction.send(RECORD)
    with pytest.raises(Retriable, match="not acknowledged"):
        transaction.flush()


def test_a_future_that_is_neither_done_nor_failed_is_no_success() -> None:
    transaction = KafkaTransaction(KafkaPython(), Producer(Future(is_done=False)), SETTINGS)
    transaction.send(RECORD)
    with pytest.raises(Retriable, match="neither"):
        transaction.flush()


def test_records_go_to_an_explicit_partition_of_the_roles_topic() -> None:
    producer = Producer()
    transaction = KafkaTransaction(KafkaPython(), producer, SETTINGS)
    transaction.send(RECORD)
    transaction.send(OutRecord("deadletter", 5, None, b"v", []))
    assert producer.sent == [
        {
            "topic": "sessions.surface",
            "key": b"k",
            "value": b"v",
            "headers": [("seq", b"1")],
            "partition": 2,
        },
        {
            "topic": "sessions.deadletter",
            "key": None,
            "value": b"v",
            "headers": [],
            "partition": 0,
        },
    ]


@pytest.mark.parametrize(
    "error", [raised.KafkaTimeoutError("t"), raised.KafkaError("unknown"), Retriable("r")]
)
def test_a_commit_that_raised_is_unknown(error: Exception) -> None:
    with pytest.raises(CommitUnknown):
        KafkaTransaction(KafkaPython(), Producer(commit=throws(error)), SETTINGS).commit()


def test_a_commit_that_never_returns_is_unknown_after_the_timeout() -> None:
    began = time.monotonic()
    with pytest.raises(CommitUnknown, match=r"did not return within 0\.2 s"):
        KafkaTransaction(KafkaPython(), Producer(commit=hangs), SETTINGS).commit()
    assert time.monotonic() - began < 5


def test_a_fenced_commit_says_so() -> None:
    fenced = throws(raised.ProducerFencedError())
    with pytest.raises(Fenced):
        KafkaTransaction(KafkaPython(), Producer(commit=fenced), SETTINGS).commit()


def test_a_transaction_that_took_too_long_is_no_second_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transaction = KafkaTransaction(
        KafkaPython(), Producer(commit=throws(raised.ProducerFencedError())), SETTINGS
    )
    late = time.monotonic() + 11
    monkeypatch.setattr("pipeline.kafka.clients.time.monotonic", lambda: late)
    with pytest.raises(CommitUnknown, match="took 11 s"):
        transaction.commit()


def test_sending_offsets_is_bounded() -> None:
    transaction = KafkaTransaction(KafkaPython(), Producer(send_offsets=hangs), SETTINGS)
    transaction.send_offsets({0: 1}, JOINED)
    with pytest.raises(Retriable, match="did not return"):
        transaction.flush()


def test_what_the_offsets_met_is_raised_whatever_meets_it_first() -> None:
    """After that the client takes no record, and says less well why."""
    refused = raised.CommitFailedError("the generation has passed")
    producer = Producer(send_offsets=throws(refused), send=throws(raised.KafkaError("no more")))
    transaction = KafkaTransaction(KafkaPython(), producer, SETTINGS)
    transaction.send_offsets({0: 1}, JOINED)
    with pytest.raises(Retriable, match="has passed"):
        transaction.send(RECORD)
    with pytest.raises(Retriable, match="has passed"):
        transaction.flush()
    assert producer.calls == ["send_offsets", "send"]


def test_a_member_without_a_generation_is_refused_before_the_broker_accepts_it() -> None:
    producer = Producer()
    for member in (Member(-1, "m"), Member(3, "")):
        with pytest.raises(Retriable):
            KafkaTransaction(KafkaPython(), producer, SETTINGS).send_offsets({0: 1}, member)
    assert producer.calls == []


@pytest.fixture
def produced(monkeypatch: pytest.MonkeyPatch) -> list[Producer]:
    """The producers a sink makes, in order; the next ones come from ``coming``."""
    made: list[Producer] = []

    def make(**settings: Any) -> Producer:
        made.append(Producer())
        return made[-1]

    make.DEFAULT_CONFIG = {}  # type: ignore[attr-defined]
    monkeypatch.setattr(clients_module, "KafkaProducer", make)
    monkeypatch.setattr(sink_module, "end_orphans", lambda *_: made[-1].calls.append("orphans"))
    return made


def test_abandon_closes_and_open_makes_a_new_producer(produced: list[Producer]) -> None:
    sink = KafkaSink(Cluster("b:1"), SETTINGS)
    sink.open()
    sink.begin()
    sink.abandon()
    sink.abandon()
    with pytest.raises(Retriable):
        sink.begin()
    sink.open()
    assert [producer.calls for producer in produced] == [
        ["init", "orphans", "begin", "close"],
        ["init", "orphans"],
    ]


def test_a_producer_is_not_used_before_lost_transactions_are_ended(
    produced: list[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_module, "end_orphans", lambda *_: hangs())
    sink = KafkaSink(Cluster("b:1"), SETTINGS)
    with pytest.raises(Retriable, match="end_orphans did not return"):
        sink.open()
    assert produced[0].calls == ["init", "close"]
    with pytest.raises(Retriable, match="not open"):
        sink.begin()


def test_a_fence_right_after_opening_is_no_sign_of_a_second_worker(
    produced: list[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was given up in an outage may reach the broker later and fence once; so may the next."""
    fenced = throws(raised.ProducerFencedError())
    monkeypatch.setattr(sink_module, "end_orphans", lambda *_: fenced())
    with pytest.raises(Retriable) as late:
        KafkaSink(Cluster("b:1"), SETTINGS).open()
    assert not isinstance(late.value, Fenced)
    assert produced[0].calls == ["init", "close"]


def test_a_close_that_times_out_or_hangs_is_tolerated() -> None:
    sink_module.close_quietly(KafkaPython(), Producer(close=throws(raised.KafkaTimeoutError())))
    began = time.monotonic()
    sink_module.close_quietly(KafkaPython(), Producer(close=hangs))
    assert time.monotonic() - began < 10


def test_a_producer_that_comes_into_being_too_late_never_takes_the_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would fence the one that was made in its place."""
    late, done = Producer(), threading.Event()

    def make(**settings: Any) -> Producer:
        assert done.wait(10)
        return late

    make.DEFAULT_CONFIG = {}  # type: ignore[attr-defined]
    monkeypatch.setattr(clients_module, "KafkaProducer", make)
    with pytest.raises(Retriable, match="did not return"):
        KafkaSink(Cluster("b:1"), SETTINGS).open()
    done.set()
    for _ in range(100):
        if late.calls:
            break
        time.sleep(0.02)
    assert late.calls == ["close"]


def test_the_producers_log_is_restored(produced: list[Producer]) -> None:
    sink = KafkaSink(Cluster("b:1"), SETTINGS)
    sink.open()
    producer_module.log = None  # what a garbage-collected producer leaves, in effect
    sink.begin()
    assert isinstance(producer_module.log, logging.Logger)


@pytest.mark.parametrize(
    "error",
    [
        raised.CoordinatorLoadInProgressError(),
        raised.CoordinatorNotAvailableError(),
        raised.NotCoordinatorError(),
        raised.NotLeaderForPartitionError(),
    ],
)
def test_what_passes_by_itself_is_waited_out(
    monkeypatch: pytest.MonkeyPatch, error: raised.KafkaError
) -> None:
    """As a group's offsets are read on a broker that has just started."""
    answers: list[Any] = [error, error, 7, None]

    class Consumer:
        def __init__(self, **settings: Any) -> None:
            assert settings["isolation_level"] in ("read_committed", "read_uncommitted")

        def partitions_for_topic(self, topic: str) -> set[int]:
            return {2, 3}

        def committed(self, at: TopicPartition, timeout_ms: int) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setattr(clients_module, "KafkaConsumer", Consumer)
    assert KafkaReader(Cluster("b:1")).committed("app", "e") == {2: 7}
    assert answers == []


def test_a_consumer_that_got_no_answer_about_offsets_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a broker was stopped and went on, it may never get one, though others do."""
    made: list[Any] = []

    class Consumer:
        def __init__(self, **_: Any) -> None:
            self.closed, self.silent = False, not made
            made.append(self)

        def beginning_offsets(self, ats: list[Any], timeout_ms: int) -> Any:
            if self.silent:
                raise raised.KafkaTimeoutError("no answer")
            return dict.fromkeys(ats, 3)

        def end_offsets(self, ats: list[Any], timeout_ms: int) -> Any:
            return dict.fromkeys(ats, 9)

        def close(self, **_: Any) -> None:
            self.closed = True

    monkeypatch.setattr(clients_module, "KafkaConsumer", Consumer)
    reader = KafkaReader(Cluster("b:1"))
    with pytest.raises(Retriable, match="no answer"):
        reader.bounds("t", 0)
    assert made[0].closed
    assert reader.bounds("t", 0) == (3, 9)


def test_it_is_not_waited_for_ever() -> None:
    with pytest.raises(raised.NotCoordinatorError):
        patiently(KafkaPython(), 0.2, throws(raised.NotCoordinatorError()))


def test_a_call_that_is_started_is_waited_for_when_asked() -> None:
    go = threading.Event()
    wait = KafkaPython().started("it", 5, lambda: go.wait(5))
    go.set()
    assert wait()


def test_bounded_hands_over_results_and_errors() -> None:
    assert KafkaPython().bounded("it", 5, lambda: 42) == 42
    assert KafkaPython().bounded("it", 5, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        KafkaPython().bounded("it", 5, lambda: 1 // 0)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (raised.KafkaTimeoutError(), Retriable),
        (raised.NotLeaderForPartitionError(), Retriable),
        (raised.CommitFailedError(), Retriable),
        (raised.UnknownMemberIdError(), Retriable),
        (raised.ProducerFencedError(), Fenced),
        (raised.InvalidProducerEpochError(), Fenced),
        (raised.RecordListTooLargeError(), Poison),
        (raised.TopicAuthorizationFailedError(), Fatal),
        (raised.SaslAuthenticationFailedError(), Fatal),
        (raised.FencedInstanceIdError(), Fatal),
        (raised.KafkaConfigurationError(), Fatal),
    ],
)
def test_errors_by_remedy(error: Exception, remedy: type[Exception]) -> None:
    assert type(translated("sending", error)) is remedy


def test_options_go_to_the_clients_that_know_them() -> None:
    class Client:
        DEFAULT_CONFIG: ClassVar = {"bootstrap_servers": None, "ssl_cafile": None, "linger_ms": 0}

    cluster = Cluster("a:1, b:2", {"ssl_cafile": "ca.pem", "fetch_max_bytes": 5, "linger_ms": 9})
    cluster.check()
    assert cluster.settings(Client, {"linger_ms": 5}) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "ssl_cafile": "ca.pem",
        "linger_ms": 9,
    }


@pytest.mark.parametrize("option", ["transactional_id", "isolation_level", "group_id"])
def test_what_exactness_rests_on_is_not_the_users(option: str) -> None:
    with pytest.raises(Fatal, match=option):
        Cluster("a:1", {option: "x"}).check()


def test_a_fence_that_the_producer_met_in_its_own_thread_is_a_fence() -> None:
    wrapped = raised.KafkaError("an earlier request has failed", raised.ProducerFencedError())
    assert type(translated("sending", wrapped)) is Fenced
