"""What befalls topics, offsets and groups from outside: a worker stops with the remedy, or goes on
safely; it never skips a record, and never waits without a word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from pipeline import limits
from pipeline.errors import Fatal, PipelineError, Poison
from pipeline.kafka.admin import KafkaTopics
from pipeline.kafka.client import Cluster
from pipeline.kafka.lines import KafkaLineSink
from pipeline.kafka.reader import KafkaReader
from pipeline.loop import Policy
from pipeline.ports import OutRecord
from pipeline.simulate import fleet
from pipeline.topics import Names, specs
from pipeline.wiring import Running, WorkerSettings, build
from tests.integration.test_worker import BAD, PARTITIONS, Deployment
from tests.pipeline.world import interleaved, partition_of

LINES = interleaved(fleet(43, 8, events=60))
HALF = len(LINES) // 2
AGAIN = "deleted and made again"


@pytest.fixture
def deployment(kafka: str, topic_prefix: str) -> Iterator[Deployment]:
    with closing(Deployment(kafka, topic_prefix)) as made:
        yield made


@pytest.fixture
def admin(kafka: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=kafka)) as made:
        yield made


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at once for what is else looked for every few seconds, and gives up soon."""
    monkeypatch.setattr(limits, "SAME_TOPICS_EVERY_S", 0.5)
    monkeypatch.setattr(limits, "LAG_EVERY_S", 0.5)
    monkeypatch.setattr("pipeline.wiring.Policy", partial(Policy, budget_s=6.0))


def worker(deployment: Deployment, **more: Any) -> Running:
    names = deployment.names
    settings: dict[str, Any] = {
        "prefix": names.prefix,
        "application": names.application,
        "batch_records": 20,
        "stop_at_end": True,
        "stop": deployment.stop,
    }
    return build(WorkerSettings(broker=deployment.bootstrap, instance="1", **settings | more))


class Working:
    """A worker in a thread of its own; ``end`` waits for what stopped it."""

    def __init__(self, running: Running) -> None:
        self.error: PipelineError | None = None
        self.committed = threading.Event()
        running.committed.subscribe(lambda _: self.committed.set())
        self._thread = threading.Thread(target=self._run, args=(running.run,))
        self._thread.start()

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except PipelineError as error:
            self.error = error

    def end(self, seconds: float) -> PipelineError:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"it still runs after {seconds} s"
        assert self.error is not None
        return self.error

    def join(self) -> None:
        self._thread.join(60)


@contextmanager
def working(deployment: Deployment, **more: Any) -> Iterator[Working]:
    """A worker that has committed something and goes on waiting for records."""
    made = Working(worker(deployment, stop_at_end=False, **more))
    try:
        assert made.committed.wait(30), made.error
        yield made
    finally:
        deployment.stop.set()
        made.join()
        deployment.stop.clear()


def alter(admin: KafkaAdminClient, topic: str, **settings: str) -> None:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, named)])
    with KafkaTopics(Cluster(admin.config["bootstrap_servers"])) as topics:
        deadline = time.monotonic() + 10
        while not named.items() <= topics.describe([topic])[topic].settings.items():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    time.sleep(0.3)  # described by the controller, applied by the leader right after


def exact(deployment: Deployment, events: int) -> None:
    verdict = deployment.verify()
    assert verdict.ok, verdict.mismatch
    assert (verdict.events, verdict.behind) == (events, 0)


# --- records that are gone ------------------------------------------------------------------------


def expire(deployment: Deployment, admin: KafkaAdminClient, role: str = "events") -> None:
    """All that stands in the topic now, as retention would."""
    topic = deployment.names.of(role)
    at = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    with closing(KafkaReader(deployment.cluster)) as reader:
        ends = {it: reader.bounds(it.topic, it.partition)[1] for it in at}
    admin.delete_records(ends)


def test_records_that_expired_unfolded_stop_a_worker_until_told_otherwise(
    deployment: Deployment, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    deployment.feed(LINES[:HALF])
    worker(deployment).run()
    deployment.feed(LINES[HALF:-40])
    expire(deployment, admin)
    deployment.feed(LINES[-40:])
    with pytest.raises(
        Fatal, match=r"events\[\d\] begins at offset \d+, yet \d+ is the next"
    ) as no:
        worker(deployment).run()
    assert "--skip-expired" in no.value.remedy
    running = worker(deployment, skip_expired=True)
    running.run()
    assert "expired unfolded" in caplog.text
    assert running.totals["records"] == 40


def test_records_that_expire_under_a_running_worker_stop_it(
    deployment: Deployment, admin: KafkaAdminClient
) -> None:
    """One that is slower than the retention: its consumer is told that the offset is gone."""
    deployment.feed(LINES)
    few = {"max_partition_fetch_bytes": 500, "fetch_max_bytes": 500}
    started, held = threading.Event(), threading.Event()
    running = worker(deployment, stop_at_end=False, client_options=few)

    def hold(_: object) -> None:
        started.set()
        held.wait(30)

    running.committed.subscribe(hold)
    made = Working(running)
    assert started.wait(30)
    expire(deployment, admin)
    held.set()
    assert "expired before they were folded" in str(made.end(30))


def test_a_state_topic_that_lost_its_beginning_stops_a_worker(
    deployment: Deployment, admin: KafkaAdminClient
) -> None:
    deployment.feed(LINES)
    worker(deployment).run()
    state = deployment.names.of("state")
    alter(admin, state, cleanup_policy="compact,delete")
    with pytest.raises(Fatal, match=r"cleanup\.policy is compact,delete, should be compact"):
        worker(deployment)
    expire(deployment, admin, "state")
    alter(admin, state, cleanup_policy="compact")
    with pytest.raises(Fatal, match=r"state\[\d\] begins at offset|are gone from"):
        worker(deployment).run()


# --- topics that are not the same ones ------------------------------------------------------------

FOLDED_OVER = ("events", "surface", "transcript", "overview", "state")


@pytest.mark.parametrize("role", FOLDED_OVER)
def test_a_topic_made_again_between_two_runs_stops_the_second(
    deployment: Deployment, role: str
) -> None:
    deployment.feed(LINES[:HALF])
    worker(deployment).run()
    deployment.make_anew([deployment.names.of(role)])
    deployment.feed(LINES[HALF:])
    with pytest.raises(Fatal, match=AGAIN) as no:
        worker(deployment).run()
    assert deployment.names.of(role) in no.value.message
    assert "delete the consumer group" in no.value.remedy


@pytest.mark.parametrize("role", ["partials", "deadletter"])
def test_topics_that_expire_anyway_may_be_made_again(
    deployment: Deployment, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    deployment.feed(LINES[:HALF])
    worker(deployment).run()
    deployment.make_anew([deployment.names.of(role)])
    deployment.feed(LINES[HALF:])
    worker(deployment).run()
    assert f"{deployment.names.of(role)} was made again" in caplog.text
    exact(deployment, len(LINES))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("role", FOLDED_OVER)
def test_a_topic_made_again_under_a_running_worker_stops_it(
    deployment: Deployment, role: str
) -> None:
    deployment.feed(LINES[:HALF])
    with working(deployment) as made:
        deployment.make_anew([deployment.names.of(role)])
        deployment.feed(LINES[HALF:])
        error = made.end(40)
    assert isinstance(error, Fatal)
    assert AGAIN in error.message or "is gone" in error.message
    assert deployment.names.of(role) in error.message


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("role", ["events", "overview"])
def test_a_topic_deleted_under_a_running_worker_stops_it(
    deployment: Deployment, admin: KafkaAdminClient, role: str
) -> None:
    """A consumer waits for its topic for ever, without a word."""
    deployment.feed(LINES[:HALF])
    with working(deployment) as made:
        admin.delete_topics([deployment.names.of(role)])
        if role != "events":
            deployment.feed(LINES[HALF:])
        error = made.end(60)
    assert "is gone" in error.message
    assert deployment.names.of(role) in error.message


def test_more_partitions_of_events_stop_the_next_worker(
    deployment: Deployment, admin: KafkaAdminClient
) -> None:
    deployment.feed(LINES)
    worker(deployment).run()
    admin.create_partitions({deployment.names.of("events"): PARTITIONS + 2})
    with pytest.raises(Fatal, match="has 8 partitions and was folded with 6") as no:
        worker(deployment)
    assert "--prefix" in no.value.remedy


@pytest.mark.usefixtures("hasty")
def test_more_partitions_of_events_stop_a_running_worker(
    deployment: Deployment, admin: KafkaAdminClient
) -> None:
    deployment.feed(LINES)
    with working(deployment) as made:
        admin.create_partitions({deployment.names.of("events"): PARTITIONS + 2})
        assert "has 8 partitions and was folded with 6" in made.end(30).message


# --- offsets and groups ---------------------------------------------------------------------------


def test_without_a_group_a_worker_goes_on_from_where_the_states_stand(
    deployment: Deployment, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    deployment.feed(LINES[:HALF])
    for bad in BAD:
        deployment.append(*bad)
    deployment.producer.flush(10)
    worker(deployment).run()
    before = {role: deployment.values(role) for role in ("surface", "transcript", "overview")}
    admin.delete_groups([deployment.names.application])
    worker(deployment).run()
    assert "the group has no offset, though" in caplog.text
    assert {role: deployment.values(role) for role in before} == before
    deployment.feed(LINES[HALF:])
    for partition in range(PARTITIONS):  # a partition has an offset again with its next batch
        deployment.append(partition, b"other", b"{torn", [])
    deployment.producer.flush(10)
    worker(deployment).run()
    exact(deployment, len(LINES) + len(BAD) + PARTITIONS)


@pytest.mark.parametrize("moved", [-5, 5])
def test_an_offset_set_by_hand_is_refused_and_its_remedy_works(
    deployment: Deployment, admin: KafkaAdminClient, moved: int
) -> None:
    """Behind what is folded it would only cost time; before what is not, records."""
    deployment.feed(LINES[:HALF])
    worker(deployment).run()
    deployment.feed(LINES[HALF:])
    names = deployment.names
    at = TopicPartition(names.of("events"), partition_of(LINES[0][0], PARTITIONS))
    with closing(KafkaReader(deployment.cluster)) as reader:
        folded = reader.committed(names.application, at.topic)[at.partition]
    offset = OffsetAndMetadata(folded + moved, "", -1)
    admin.alter_group_offsets(names.application, {at: offset})
    with pytest.raises(Fatal, match=f"offset {folded + moved} of .* was not committed by a worker"):
        worker(deployment).run()
    admin.delete_group_offsets(names.application, [at])
    worker(deployment).run()
    exact(deployment, len(LINES))


def test_two_deployments_do_not_share_an_application_id(deployment: Deployment) -> None:
    deployment.feed(LINES[:HALF])
    worker(deployment).run()
    names = Names(f"{deployment.names.prefix}other.", deployment.names.application)
    with KafkaTopics(deployment.cluster) as topics:
        topics.create(specs(names, PARTITIONS))
    with pytest.raises(Fatal, match="is that of another deployment too") as no:
        worker(deployment, prefix=names.prefix)
    assert deployment.names.of("events") in no.value.message
    assert "--application-id" in no.value.remedy


def test_states_of_another_deployment_are_refused_without_any_offset(
    deployment: Deployment, admin: KafkaAdminClient
) -> None:
    deployment.feed(LINES[:HALF])
    worker(deployment).run()
    admin.delete_groups([deployment.names.application])
    names = Names(f"{deployment.names.prefix}other.", deployment.names.application)
    with KafkaTopics(deployment.cluster) as topics:
        topics.create(specs(names, PARTITIONS))
    with pytest.raises(Fatal, match="shares the application id"):
        worker(deployment, prefix=names.prefix).run()


# --- sizes and times ------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["surface", "transcript", "state"])
def test_a_record_larger_than_a_topic_takes_stops_a_worker_and_its_remedy_works(
    deployment: Deployment, admin: KafkaAdminClient, role: str
) -> None:
    deployment.feed(LINES)
    topic = deployment.names.of(role)
    alter(admin, topic, max_message_bytes="200")
    with pytest.raises(Poison, match=r"does not take a record of \d+ bytes") as no:
        worker(deployment).run()
    assert topic in no.value.message
    assert f"max.message.bytes to {limits.MAX_OUTPUT_RECORD_BYTES}" in no.value.remedy
    alter(admin, topic, max_message_bytes=str(limits.MAX_OUTPUT_RECORD_BYTES))
    worker(deployment).run()
    exact(deployment, len(LINES))


def test_a_topic_that_takes_little_at_once_is_sent_little_at_once(
    deployment: Deployment, admin: KafkaAdminClient
) -> None:
    """Each record would fit, but not as many as the client puts together by itself."""
    names = deployment.names
    for role in ("events", "surface", "transcript", "state"):
        alter(admin, names.of(role), max_message_bytes="20000")
    with closing(KafkaLineSink(deployment.cluster, names)) as lines:
        for session, line in LINES:
            at = partition_of(session, PARTITIONS)
            lines.send(OutRecord("events", at, session.encode(), line, []))
        lines.flush()
    worker(deployment, batch_records=limits.BATCH_RECORDS).run()
    exact(deployment, len(LINES))


def test_a_line_larger_than_events_takes_is_said(
    deployment: Deployment, admin: KafkaAdminClient
) -> None:
    events = deployment.names.of("events")
    alter(admin, events, max_message_bytes="20000")
    with closing(KafkaLineSink(deployment.cluster, deployment.names)) as lines:
        lines.send(OutRecord("events", 0, b"s", b"x" * 30_000, []))
        with pytest.raises(Poison, match="does not take a record of 30001 bytes") as no:
            lines.flush()
    assert f"max.message.bytes to {limits.MAX_INPUT_RECORD_BYTES}" in no.value.remedy


def test_retention_goes_by_the_brokers_clock(deployment: Deployment) -> None:
    """Whatever a producer says of the time: a backfill of old sessions does not expire at once, and
    a clock that is a year ahead does not keep a record for a year, nor have it refused."""
    events = deployment.names.of("events")
    for ahead_s in (-(10**9), 0, 365 * 24 * 3600):
        told = int((time.time() + ahead_s) * 1000)
        deployment.producer.send(
            events, b"{}", key=b"s", partition=0, timestamp_ms=max(told, 1)
        ).get(10)
    with closing(KafkaReader(deployment.cluster)) as reader:
        times = [record.timestamp / 1000 for record in reader.read(events, 0)]
    assert len(times) == 3
    assert all(abs(it - time.time()) < 60 for it in times)


# --- brokers --------------------------------------------------------------------------------------


def test_a_broker_that_is_too_old_is_said(deployment: Deployment) -> None:
    """The client believes what it is told, and asks for nothing that such a broker lacks."""
    old = {"api_version": (2, 6)}
    with pytest.raises(Fatal, match="does not support the 'DescribeTransactions") as no:
        worker(deployment, client_options=old).run()
    assert no.value.remedy == "a worker needs Apache Kafka 3.0 or newer on every broker"
