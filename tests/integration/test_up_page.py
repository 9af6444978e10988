"""``up`` as a process: its page is there, and sessions go on while somebody looks."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from pipeline.commands.playing import AT_ONCE
from pipeline.documents import fold_lines
from pipeline.gateway.client import Client
from pipeline.gateway.keyed import KeyedSession
from pipeline.simulate import simulate, transcript_path

PATIENCE_S = 120.0
SESSIONS = 3


@contextmanager
def up(tmp_path: Path, *argv: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it printed."""
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen(
            [sys.executable, "-m", "pipeline.cli", "up", *argv],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            found = next(
                (at for line in lines if (at := re.match(r"dashboard: (http://\S+)", line))), None
            )
            assert found is not None, (tmp_path / "said").read_text()
            yield process, found[1]
        finally:
            process.kill()


def demo(
    tmp_path: Path, *more: str, broker: str = "memory"
) -> AbstractContextManager[tuple[subprocess.Popen[str], str]]:
    return up(tmp_path, "--broker", broker, "--demo", "--sessions", str(SESSIONS), *more)


def ended(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(PATIENCE_S)


def sessions(page: str) -> dict[str, int]:
    """How far each session is known."""
    with urlopen(f"{page}v1/sessions?limit=100", timeout=PATIENCE_S) as answer:
        told = json.load(answer)
    return {each["session"]: each["next_seq"] for each in told["sessions"]}


def test_running_sessions_are_seen_to_go_on(tmp_path: Path) -> None:
    with demo(tmp_path, "--listen", "127.0.0.1:0") as (process, page):
        with urlopen(page, timeout=PATIENCE_S) as answer:
            assert "text/html" in answer.headers["content-type"]
        until, before = time.monotonic() + PATIENCE_S, sessions(page)
        while len(now := sessions(page)) < SESSIONS + AT_ONCE or now == before:
            assert time.monotonic() < until, now
        proven = {name for name in now if int(name.removeprefix("sim-"), 16) < SESSIONS}
        assert len(proven) == SESSIONS
        assert ended(process) == 0


def test_another_port_where_the_usual_one_is_taken(tmp_path: Path) -> None:
    with (
        demo(tmp_path) as (_, one),
        demo(tmp_path) as (_, two),
    ):
        assert one != two
        assert len(sessions(one)) >= SESSIONS <= len(sessions(two))


# --- on its stream, over a real broker ------------------------------------------------------------


def rows_on_the_stream(page: str, session: str, enough: Callable[[KeyedSession], bool]) -> None:
    """Return when what the stream told is enough."""

    async def watching() -> None:
        async with asyncio.timeout(PATIENCE_S), Client(page, [session]) as client:
            async for _ in client:
                if enough(client.store.session(session)):
                    return

    asyncio.run(watching())


def listed(page: str, wanted: Callable[[str], bool]) -> str:
    """The first session of that name, once it is there."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with suppress(HTTPError):  # 503: the topics are not read yet
            for name in filter(wanted, sessions(page)):
                return name
        time.sleep(0.1)
    raise AssertionError("no such session comes")


def goes_on(name: str) -> bool:
    """Whether it is none of those that were proven."""
    return int(name.removeprefix("sim-"), 16) >= SESSIONS


def test_over_kafka_a_session_grows_on_its_stream(
    tmp_path: Path, kafka: str, topic_prefix: str
) -> None:
    at = ("--listen", "127.0.0.1:0", "--prefix", topic_prefix)
    with demo(tmp_path, *at, broker=kafka) as (process, page):
        with urlopen(page, timeout=PATIENCE_S) as answer:
            assert "text/html" in answer.headers["content-type"]
        seen: set[int] = set()

        def grew(held: KeyedSession) -> bool:
            seen.add(max((row["rev"] for row in held.rows), default=0))
            return len(seen) > 3

        rows_on_the_stream(page, listed(page, goes_on), grew)
        assert ended(process) == 0
    assert "Traceback" not in (tmp_path / "said").read_text()


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_session_of_ones_own_is_seen_as_it_is_written(
    tmp_path: Path, kafka: str, topic_prefix: str, in_memory: bool
) -> None:
    folder = tmp_path / "logs"
    session = simulate(8, events=60)
    path = transcript_path(folder, session)
    path.parent.mkdir(parents=True)
    half = len(session.lines) // 2
    path.write_bytes(b"".join(line + b"\n" for line in session.lines[:half]))
    broker = ("--broker", "memory") if in_memory else ("--broker", kafka, "--prefix", topic_prefix)
    last = json.loads(fold_lines(session.lines))["overview"]["seq"]
    with up(tmp_path, *broker, "--ingest", str(folder), "--listen", "127.0.0.1:0") as (child, page):
        listed(page, session.id.__eq__)
        rows_on_the_stream(page, session.id, lambda held: bool(held.rows))
        with path.open("ab") as file:
            for line in session.lines[half:]:
                file.write(line + b"\n")
                file.flush()
        rows_on_the_stream(
            page,
            session.id,
            lambda held: held.overview is not None and held.overview["seq"] == last,
        )
        assert ended(child) == 0
