"""The gateway over a real broker: it follows, is restarted, and finds out about other topics."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.gateway.running import Gateway, Settings, serving
from pipeline.health import Address
from pipeline.kafka.tail import KafkaTail
from pipeline.simulate import fleet
from pipeline.topics import ROLES
from tests.integration.test_worker import Deployment
from tests.pipeline.world import interleaved

LINES = interleaved(fleet(41, 4, events=60))
NAMES = sorted({session for session, _ in LINES})


@pytest.fixture
def deployment(kafka: str, topic_prefix: str) -> Iterator[Deployment]:
    with closing(Deployment(kafka, topic_prefix)) as made:
        yield made


@contextmanager
def gateway(deployment: Deployment, url: str) -> Iterator[Gateway]:
    settings = Settings(url, Address("127.0.0.1", 0))
    with serving(settings, lambda: KafkaTail(deployment.cluster, deployment.names)) as running:
        yield running


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def get(url: str) -> Any:
    answer = httpx.get(url, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def live(running: Gateway) -> bool:
    status = running.service.status
    return status.state == "live" and status.lag == 0


def sessions(url: str) -> dict[str, int]:
    page = get(f"{url}/v1/sessions?limit=500")
    return {each["session"]: each["next_seq"] for each in page["sessions"]}


def test_it_follows_a_worker_and_goes_on_after_a_restart(
    deployment: Deployment, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/read.db"
    half = len(LINES) // 2
    deployment.feed(LINES[:half])
    deployment.worker().run()
    with gateway(deployment, url) as running:
        until(lambda: live(running) and len(sessions(running.url)) == len(NAMES))
        worker = deployment.worker(at_end=False)
        thread = threading.Thread(target=worker.run)
        thread.start()
        deployment.feed(LINES[half : half + 40])
        try:
            before = sum(sessions(running.url).values())
            until(lambda: sum(sessions(running.url).values()) > before)
        finally:
            deployment.stop.set()
            thread.join(60)
    deployment.stop.clear()
    deployment.feed(LINES[half + 40 :])
    deployment.worker().run()
    with gateway(deployment, url) as running:
        assert running.service.feed.counts["rebuilds"] == 0
        until(lambda: live(running))
        first = sessions(running.url)
        assert sorted(first) == NAMES
        assert running.service.feed.counts["rebuilds"] == 0
        pages = [get(f"{running.url}/v1/sessions/{name}/transcript") for name in NAMES]
    with gateway(deployment, f"sqlite:///{tmp_path}/anew.db") as running:  # wiped: the same again
        until(lambda: live(running))
        assert sessions(running.url) == first
        again = [get(f"{running.url}/v1/sessions/{name}/transcript") for name in NAMES]
    assert [page["rows"] for page in pages] == [page["rows"] for page in again]


def test_topics_made_again_are_found_out(deployment: Deployment, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/read.db"
    deployment.feed(LINES[:100])
    deployment.worker().run()
    with gateway(deployment, url) as running:
        until(lambda: live(running) and bool(sessions(running.url)))
    deployment.make_anew([deployment.names.of(role) for role in ROLES])
    with gateway(deployment, url) as running:
        until(lambda: live(running))
        assert sessions(running.url) == {}


def test_the_command_serves_until_it_is_told_to_stop(
    deployment: Deployment, tmp_path: Path
) -> None:
    deployment.feed(LINES[:100])
    deployment.worker().run()
    command = subprocess.Popen(
        [
            *(sys.executable, "-m", "pipeline.cli", "gateway"),
            *("--bootstrap", deployment.bootstrap, "--prefix", deployment.names.prefix),
            *("--listen", "127.0.0.1:0", "--database", f"sqlite:///{tmp_path}/read.db"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert command.stderr is not None
        said = next(line for line in command.stderr if "http://" in line)
        found = re.search(r"http://[\d.:]+", said)
        assert found is not None
        until(lambda: httpx.get(f"{found[0]}/readyz").status_code == 200)
        assert sessions(found[0])
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0
    finally:
        command.kill()
        command.communicate()
