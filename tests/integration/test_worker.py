"""The worker over a real Kafka: transactions, restarts, two workers, bad records, and the proof."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from pipeline.deadletter import read_letters
from pipeline.errors import Fatal
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.reader import KafkaReader
from pipeline.simulate import fleet
from pipeline.topics import ROLES, Names, specs
from pipeline.verify import Verdict, verify
from pipeline.wiring import Running, WorkerSettings, build
from tests.pipeline.world import interleaved, partition_of

PARTITIONS = 6
LINES = interleaved(fleet(41, 12, events=120))
BAD: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]] = [
    (0, None, b"{}", []),
    (1, b"\xff", b"{}", []),
    (2, b"sim-00000041", b"{torn", []),
    (3, b"sim-00000041", b"{}", [("epoch", b"one")]),
    (4, b"other", LINES[0][1], []),
    (5, b"sim-00000042", None, []),
]


class Deployment:
    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = Cluster(bootstrap)
        self.names = Names(prefix, f"{prefix}app")
        self.stop = threading.Event()
        with KafkaTopics(self.cluster) as topics:
            topics.create(specs(self.names, PARTITIONS))
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)

    def feed(self, lines: list[tuple[str, bytes]]) -> None:
        for session, line in lines:
            partition = partition_of(session, PARTITIONS)
            self.append(partition, session.encode(), line, [])
        self.producer.flush(30)

    def append(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
    ) -> None:
        events = self.names.of("events")
        if key is None and value is None:
            raise ValueError("kafka-python sends no such record")
        self.producer.send(events, value, key=key, headers=headers, partition=partition)

    def make_anew(self, names: list[str]) -> None:
        """Deleted and created, all empty."""
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            admin.delete_topics(names)
        with KafkaTopics(self.cluster) as topics:
            deadline = time.monotonic() + 30
            while topics.describe(names):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            topics.create(specs(self.names, PARTITIONS))

    def worker(
        self,
        instance: str = "1",
        *,
        batch: int = 100,
        at_end: bool = True,
        stop: threading.Event | None = None,
    ) -> Running:
        return build(
            WorkerSettings(
                broker=self.bootstrap,
                instance=instance,
                prefix=self.names.prefix,
                application=self.names.application,
                batch_records=batch,
                stop=stop or self.stop,
                stop_at_end=at_end,
            )
        )

    def verify(self) -> Verdict:
        with closing(KafkaReader(self.cluster)) as reader:
            return verify(reader, self.names)

    def values(self, role: str, isolation: str = "read_committed") -> list[bytes | None]:
        """What a plain consumer reads of a topic."""
        topic = self.names.of(role)
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level=isolation, group_id=None
        )
        with closing(consumer):
            at = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
            consumer.assign(at)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(at)
            found = []
            while any(consumer.position(it) < ends[it] for it in at):
                for records in consumer.poll(timeout_ms=200).values():
                    found += [record.value for record in records]
            return found

    def close(self) -> None:
        self.producer.close(timeout=2)


class StopAfter:
    """A tap that stops its worker after so many batches."""

    def __init__(self, batches: int, stop: threading.Event) -> None:
        self._left = batches
        self._stop = stop

    def __call__(self, _: object) -> None:
        self._left -= 1
        if self._left <= 0:
            self._stop.set()


@pytest.fixture
def deployment(kafka: str, topic_prefix: str) -> Iterator[Deployment]:
    with closing(Deployment(kafka, topic_prefix)) as made:
        yield made


def test_all_is_folded_bad_records_are_dead_letters_and_verify_agrees(
    deployment: Deployment,
) -> None:
    deployment.feed(LINES)
    for bad in BAD:
        deployment.append(*bad)
    deployment.producer.flush(10)
    running = deployment.worker()
    running.run()
    verdict = deployment.verify()
    assert verdict.ok, verdict.mismatch
    assert (verdict.events, verdict.behind) == (len(LINES) + len(BAD), 0)
    assert running.totals["records"] == len(LINES) + len(BAD)
    with closing(KafkaReader(deployment.cluster)) as reader:
        listed = list(read_letters(reader, deployment.names.of("deadletter")))
    letters = [it.letter for it in listed if it.letter is not None]
    reasons = {letter.reason for letter in letters}
    assert {"no-session", "not-json", "bad-envelope", "key-mismatch"} <= reasons
    assert len(letters) == verdict.dead_letters
    bad_values = {letter.value for letter in letters}
    assert {value for _, _, value, _ in BAD} <= bad_values


def test_a_plain_restart_in_the_middle_is_exact(deployment: Deployment) -> None:
    deployment.feed(LINES)
    for batches in (1, 2, 3):
        running = deployment.worker(batch=60, at_end=False)
        running.committed.subscribe(StopAfter(batches, deployment.stop))
        running.run()
        deployment.stop.clear()
    assert deployment.verify().behind > 0
    assert deployment.verify().mismatch is None
    deployment.worker().run()
    verdict = deployment.verify()
    assert verdict.ok, verdict.mismatch
    assert verdict.behind == 0


def test_two_workers_share_six_partitions_and_one_is_restarted(deployment: Deployment) -> None:
    """The second joins while the first works, is stopped midway and comes back."""
    deployment.feed(LINES[: len(LINES) // 2])
    first = deployment.worker("1", batch=40, at_end=False)
    stop_second = threading.Event()
    second = deployment.worker("2", batch=40, at_end=False, stop=stop_second)
    threads = [threading.Thread(target=worker.run) for worker in (first, second)]
    for thread in threads:
        thread.start()
    deployment.feed(LINES[len(LINES) // 2 : -200])
    stop_second.set()
    threads[1].join(60)
    deployment.feed(LINES[-200:])
    again = deployment.worker("2", batch=40)
    again.run()
    deployment.stop.set()
    threads[0].join(60)
    assert not any(thread.is_alive() for thread in threads)
    deployment.stop.clear()
    deployment.worker("1").run()
    verdict = deployment.verify()
    assert verdict.ok, verdict.mismatch
    assert (verdict.events, verdict.behind) == (len(LINES), 0)


def test_verify_names_the_first_difference(deployment: Deployment) -> None:
    deployment.feed(LINES)
    deployment.worker().run()
    session = LINES[0][0]
    partition = partition_of(session, PARTITIONS)
    overview = deployment.names.of("overview")
    sent = deployment.producer.send(
        overview, b"corrupt", key=session.encode(), partition=partition
    ).get(10)
    mismatch = deployment.verify().mismatch
    assert mismatch is not None
    assert (mismatch.topic, mismatch.partition, mismatch.offset) == (
        overview,
        partition,
        sent.offset,
    )
    assert mismatch.session == session


def test_nothing_of_an_abandoned_batch_is_read(deployment: Deployment) -> None:
    """The worker dies with a transaction open; its successor of the same name ends that."""
    deployment.feed(LINES)
    running = deployment.worker(batch=50)

    class Killed(BaseException):
        pass

    def die(_: object) -> None:
        raise Killed

    # Dies right after its first commit, as the graph's tap; what a kill -9 leaves is the same but
    # for the group membership, which then expires.
    running.committed.subscribe(die)
    with pytest.raises(Killed):
        running.run()
    landed = deployment.verify()
    assert landed.ok, landed.mismatch
    assert landed.behind > 0
    deployment.worker().run()
    assert deployment.verify().ok


def test_a_lost_state_topic_is_refused_and_its_remedy_works(deployment: Deployment) -> None:
    deployment.feed(LINES[:400])
    deployment.worker().run()
    names = deployment.names
    deployment.make_anew([names.of("state")])
    deployment.feed(LINES[400:800])
    with pytest.raises(Fatal, match="was deleted and made again") as refused:
        deployment.worker().run()
    assert "delete the consumer group" in refused.value.remedy
    with closing(KafkaAdminClient(bootstrap_servers=deployment.bootstrap)) as admin:
        admin.delete_groups([names.application])
    deployment.make_anew([names.of(role) for role in ROLES if role != "events"])
    deployment.worker().run()
    verdict = deployment.verify()
    assert verdict.ok, verdict.mismatch
    assert (verdict.events, verdict.behind) == (800, 0)


def test_a_worker_beside_another_ends_when_all_is_folded(deployment: Deployment) -> None:
    """Not when it has nothing to do yet: the other holds all partitions and then lets some go."""
    first = deployment.worker("1", batch=40, at_end=False)
    thread = threading.Thread(target=first.run)
    thread.start()
    try:
        deployment.feed(LINES)
        deployment.worker("2", batch=40).run()
        assert deployment.verify().behind == 0
    finally:
        deployment.stop.set()
        thread.join(60)
    assert deployment.verify().ok


def test_a_worker_refuses_topics_that_are_missing_or_differ(
    deployment: Deployment, topic_prefix: str
) -> None:
    settings = WorkerSettings(
        broker=deployment.bootstrap, instance="1", prefix=f"{topic_prefix}no."
    )
    with pytest.raises(Fatal, match="topics create"):
        build(settings)
    names = Names(f"{topic_prefix}odd.", f"{topic_prefix}odd")
    odd = [
        msgspec.structs.replace(spec, partitions=2) if spec.role == "overview" else spec
        for spec in specs(names, 4)
    ]
    with KafkaTopics(deployment.cluster) as topics:
        topics.create(odd)
        (difference,) = topics.check(specs(names, 4))
        assert difference.fatal
        assert topics.check(specs(deployment.names, PARTITIONS)) == []
    with pytest.raises(Fatal, match=r"odd\.overview has 2 partitions, should have 4"):
        build(msgspec.structs.replace(settings, prefix=names.prefix, application=names.application))


def test_a_wrong_setting_on_a_topic_is_said(deployment: Deployment, topic_prefix: str) -> None:
    names = Names(f"{topic_prefix}set.", f"{topic_prefix}set")
    wanted = specs(names, 1)
    made = [
        msgspec.structs.replace(spec, settings={**spec.settings, "cleanup.policy": "delete"})
        for spec in wanted
    ]
    with KafkaTopics(deployment.cluster) as topics:
        topics.create(made)
        told = [str(difference) for difference in topics.check(wanted)]
    assert len(told) == 3
    assert all("cleanup.policy is delete, should be compact" in text for text in told)


def test_an_unreachable_broker_and_a_bad_option_are_said_in_one_line() -> None:
    quick = {"bootstrap_timeout_ms": 500}
    settings = WorkerSettings(broker="127.0.0.1:1", instance="1", client_options=quick)
    with pytest.raises(Fatal, match=r"no Kafka broker answers at 127\.0\.0\.1:1 ") as refused:
        build(settings)
    assert "\n" not in str(refused.value)
    for options, said in (({"sasl_mechanisms": "x"}, "unknown"), ({"acks": 1}, "leave it out")):
        with pytest.raises(Fatal, match=said):
            build(WorkerSettings(broker="127.0.0.1:1", instance="1", client_options=options))
