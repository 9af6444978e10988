"""doctor on a real broker: a wrong setting, lag, a transaction that hangs, and good health."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import InvalidTxnStateError

from pipeline.doctor import Finding, Surroundings, examine
from pipeline.kafka.client import Cluster
from pipeline.kafka.doctor import KafkaProbe
from tests.integration.test_orphans import CHECKED, leave_open
from tests.integration.test_worker import LINES, PARTITIONS, Deployment

LATER_MS = 60_000  #: the doctor's clock, so that what is open is long overdue


@pytest.fixture
def deployment(kafka: str, topic_prefix: str) -> Iterator[Deployment]:
    with closing(Deployment(kafka, topic_prefix)) as made:
        yield made


def findings(deployment: Deployment, later_ms: int = 0) -> dict[str, list[Finding]]:
    about = Surroundings(
        deployment.names,
        deployment.bootstrap,
        lambda: time.time_ns() // 1_000_000 + later_ms,
        lambda: time.sleep(0.5),
    )
    found: dict[str, list[Finding]] = {}
    with KafkaProbe(Cluster(deployment.bootstrap)) as probe:
        for finding in examine(probe, about):
            found.setdefault(finding.check, []).append(finding)
    return found


def test_a_worker_at_work_is_in_good_health(deployment: Deployment) -> None:
    deployment.feed(LINES)
    worker = deployment.worker(at_end=False)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until = time.monotonic() + 60
        while worker.totals["records"] < len(LINES):
            assert time.monotonic() < until
            time.sleep(0.1)
        found = findings(deployment)
    finally:
        deployment.stop.set()
        thread.join(60)
    assert all(one.level != "fail" for some in found.values() for one in some), found
    (group,) = found["group"]
    assert group.what == f"1 member have all {PARTITIONS} partitions"
    assert found["lag"][0].what == "all is folded"
    assert "3." in found["broker"][0].what or "4." in found["broker"][0].what
    del found["clock"]  # of which little can be told when nobody has anything to do
    assert all("cannot be told" not in one.what for some in found.values() for one in some)


def test_lag_of_nobody_and_a_wrong_setting(deployment: Deployment) -> None:
    deployment.feed(LINES)
    overview = deployment.names.of("overview")
    with closing(KafkaAdminClient(bootstrap_servers=deployment.bootstrap)) as admin:
        wrong = {"cleanup.policy": "delete", "unclean.leader.election.enable": "true"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, overview, wrong)])
    found = findings(deployment)
    told = {(one.level, one.where, one.what.split(" ")[0]) for one in found["topic"]}
    assert ("warn", overview, "cleanup.policy") in told
    assert ("fail", overview, "unclean.leader.election.enable") in told
    (group,) = found["group"]
    assert f"{len(LINES)} records wait" in group.what
    assert found["lag"][0].what.startswith(f"{len(LINES)} records wait")


@contextmanager
def unchecked(bootstrap: str) -> Iterator[None]:
    """The broker takes a transaction's records without asking its coordinator."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        brokers = [str(one["broker_id"]) for one in admin.describe_cluster()["brokers"]]

        def check(value: str) -> None:
            kind = ConfigResourceType.BROKER
            admin.alter_configs([ConfigResource(kind, one, {CHECKED: value}) for one in brokers])

        check("false")
        try:
            yield
        finally:
            check("true")


def test_a_hanging_transaction(deployment: Deployment) -> None:
    """Left behind by a killed broker: its coordinator knows nothing of it."""
    surface = deployment.names.of("surface")
    transactional_id = f"{deployment.names.application}-a"
    with unchecked(deployment.bootstrap):
        until = time.monotonic() + 20
        while True:  # the setting reaches the broker a moment after it was answered
            try:
                leave_open(deployment.bootstrap, deployment.names, transactional_id)
            except InvalidTxnStateError:
                assert time.monotonic() < until
            else:
                break
    assert findings(deployment)["hanging"][0].level == "ok", "it may be under way"
    (finding,) = findings(deployment, LATER_MS)["hanging"]
    assert (finding.level, finding.where) == ("fail", f"{surface}[1]")
    assert "--instance a again" in finding.remedy
    assert f"--topic {surface} --partition 1 --start-offset 0" in finding.remedy
