"""Health: when a worker is alive and ready, why not, and what the HTTP server answers."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from pipeline.config import ConfigError
from pipeline.errors import CommitUnknown, Fatal
from pipeline.health import LIVE_S, Address, Health, Verdict, serve
from pipeline.ports import Member, Polled

JOINED = Polled({}, Member(3, "me"))
AWAY = Polled({}, Member(-1, ""))
EMPTY = Address("127.0.0.1", 0)


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def health(time: Time) -> Health:
    return Health(time.monotonic)


def test_the_loop_is_alive_while_it_says_something(time: Time, health: Health) -> None:
    signs = (
        health.turned,
        lambda: health.polled(JOINED),
        lambda: health.restoring(0, 1, 2),
        lambda: health.restored(0, 1, 1, 1, 1.0),
        lambda: health.failed(CommitUnknown("x")),
        lambda: health.rebuilt(1.0),
    )
    for sign in signs:
        time.now += LIVE_S + 1
        assert health.live().why == ["the loop has not turned for 61 s (60 are allowed)"]
        sign()
        assert health.live() == Verdict(True, [], {"turned_seconds_ago": 0.0})
    time.now += LIVE_S
    assert health.live().ok


def test_a_worker_is_ready_once_it_joined_and_all_is_restored(health: Health) -> None:
    assert health.ready().why == ["not in the consumer group"]
    health.polled(JOINED)
    assert health.ready().ok, "more workers than partitions: nothing to do is well, too"
    health.rebalanced((), (0, 2))
    health.restoring(2, 40, 100)
    health.restored(0, 5, 9, 99, 0.1)
    verdict = health.ready()
    assert verdict.why == ["partition 2: 40 of 100 offsets of its states are restored"]
    assert verdict.details == {"restored": [0], "restoring": [2]}
    health.restored(2, 5, 9, 99, 0.1)
    assert health.ready() == Verdict(True, [], {"restored": [0, 2], "restoring": []})


def test_a_failure_a_rebalance_and_a_lost_place_take_readiness_away(health: Health) -> None:
    health.polled(JOINED)
    health.rebalanced((), (0, 1))
    for partition in (0, 1):
        health.restored(partition, 0, 0, 0, 0.0)
    health.failed(CommitUnknown("commit: timed out"))
    waiting = [f"partition {p}: its states are not restored yet" for p in (0, 1)]
    assert health.ready().why == ["starting over: commit: timed out", *waiting]
    health.rebuilt(0.4)
    assert health.ready().why == waiting
    health.rebalanced((0,), ())
    assert health.ready().why == waiting[1:]
    health.restored(1, 0, 0, 0, 0.0)
    assert health.ready().ok
    health.rebalanced((1,), (1,))  # lost and given back
    assert health.ready().why == waiting[1:]
    health.restored(1, 0, 0, 0, 0.0)
    health.polled(AWAY)
    assert health.ready().why == ["not in the consumer group"]


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("9464", "127.0.0.1", 9464, "127.0.0.1:9464"),
        ("0.0.0.0:0", "0.0.0.0", 0, "0.0.0.0:0"),
        ("localhost:65535", "localhost", 65535, "localhost:65535"),
        ("[::1]:80", "::1", 80, "[::1]:80"),
    ],
)
def test_an_address_is_of_this_machine_alone_unless_told_otherwise(
    text: str, host: str, port: int, shown: str
) -> None:
    address = Address.of(text)
    assert (address.host, address.port, str(address)) == (host, port, shown)


@pytest.mark.parametrize("text", ["", "host", ":80", "host:", "h:65536", "h:-1", "http://h:x"])
def test_what_is_no_address_is_said_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--listen .* is no address; write HOST:PORT, e\.g\."):
        Address.of(text)


# --- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("foldstream_x", "One.", registry=registry).set(1)
    return registry


@pytest.fixture
def at(health: Health, registry: CollectorRegistry) -> Iterator[str]:
    with serve(EMPTY, health, registry) as address:
        yield address


def ask(at: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(at, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def told(at: str, path: str) -> tuple[int, Any]:
    status, kind, body = ask(at, path)
    assert kind == "application/json"
    return status, json.loads(body)


def test_both_questions_are_answered_with_why_not(at: str, health: Health, time: Time) -> None:
    assert told(at, "/readyz") == (
        503,
        {"ok": False, "why": ["not in the consumer group"], "restored": [], "restoring": []},
    )
    health.polled(JOINED)
    assert told(at, "/readyz?verbose") == (
        200,
        {"ok": True, "why": [], "restored": [], "restoring": []},
    )
    assert told(at, "/livez") == (200, {"ok": True, "why": [], "turned_seconds_ago": 0.0})
    time.now += 2 * LIVE_S
    status, document = told(at, "/livez")
    assert (status, document["ok"]) == (503, False)
    assert document["why"] == ["the loop has not turned for 120 s (60 are allowed)"]


def test_metrics_are_given_in_the_form_that_was_asked_for(at: str) -> None:
    status, kind, body = ask(at, "/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert b"\nfoldstream_x 1.0\n" in body
    _, kind, body = ask(at, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_other_questions_are_refused_and_a_head_has_no_body(at: str) -> None:
    assert told(at, "/")[0] == 404
    assert told(at, "/../livez")[1] == {"paths": ["/livez", "/metrics", "/readyz"]}
    assert ask(at, "/livez", "HEAD")[0::2] == (200, b"")
    assert ask(at, "/metrics", "POST")[0] == 501


def test_it_listens_on_the_address_given_and_nowhere_else(
    health: Health, registry: CollectorRegistry
) -> None:
    with serve(EMPTY, health, registry) as at:
        host, _, port = at.rpartition(":")
        assert host == "127.0.0.1"
        with pytest.raises(Fatal, match=rf"--listen {at}: .*in use; name a free port"):  # noqa: SIM117
            with serve(Address.of(at), health, registry):
                pass
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", int(port)), timeout=5).close()
    with pytest.raises(OSError, match="refused"):
        ask(at, "/livez")
    with pytest.raises(Fatal, match=r"--listen 192\.0\.2\.1:1: "):  # noqa: SIM117
        with serve(Address("192.0.2.1", 1), health, registry):
            pass


def test_clients_that_linger_or_leave_trouble_nobody(
    health: Health, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(EMPTY, health, registry) as at:
        host, _, port = at.rpartition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(20)]
        try:
            for _ in range(20):
                with socket.create_connection((host, int(port))) as leaving:
                    leaving.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                    leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            assert told(at, "/livez")[0] == 200
        finally:
            for each in silent:
                each.close()
    assert [r for r in caplog.records if r.levelno > logging.DEBUG] == []
    assert not any(thread.name == "health" for thread in threading.enumerate())
