"""``show`` as a process: what comes, as it comes; colours and a status on a terminal alone."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from tests.pipeline.test_cli import USER, elsewhere, process, run
from tests.schemas.logs import header, line, raw

__all__ = ["elsewhere"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "session.v4.jsonl"
    path.write_bytes(raw([header()]) + USER % (0, 0, b"one"))
    return path


@contextmanager
def showing(*argv: object) -> Iterator[subprocess.Popen[bytes]]:
    with process("show", *argv) as child:
        try:
            yield child
        finally:
            child.kill()


def until(stream: IO[bytes] | None, text: bytes) -> bytes:
    assert stream is not None
    found = b""
    while text not in found:
        got = stream.readline()
        assert got, found
        found += got
    return found


def ended(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    child.send_signal(signal.SIGINT)
    assert child.stdout is not None
    assert child.stderr is not None
    out, err = child.stdout.read(), child.stderr.read()
    assert child.wait(20) == 0, err
    return out, err


def test_following_shows_what_comes_and_ends_cleanly(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with showing(log, "--follow") as child:
        shown = until(child.stdout, b"one\n")
        with log.open("ab") as file:
            file.write(USER % (1, 1, b"two"))
        shown += until(child.stdout, b"two\n")
        rest, err = ended(child)
    assert b"Traceback" not in err
    assert (shown + rest).decode() == run(capsys, "show", log).out


def test_following_tells_when_the_log_begins_anew(log: Path) -> None:
    with showing(log, "--follow") as child:
        until(child.stdout, b"one\n")
        log.write_bytes(raw([header()]) + USER % (0, 0, b"another"))
        shown = until(child.stdout, b"another\n")
        assert b"the log begins anew" in shown
        ended(child)


def test_following_as_json_gives_rows_once_they_are_settled(log: Path) -> None:
    call = {"turn": 1, "step": 1, "callId": "c", "name": "bash", "arguments": "{}"}
    rows = [
        {"type": "turn/start", "seq": 1, "time": 1, "data": {"turn": 1}},
        {"type": "step/start", "seq": 2, "time": 1, "data": {"turn": 1, "step": 1}},
        {"type": "tool/call", "seq": 3, "time": 1, "data": call},
    ]
    with showing(log, "--follow", "--auxiliary", "--json") as child:
        assert json.loads(until(child.stdout, b"\n"))["kind"] == "user"
        with log.open("ab") as file:
            file.write(raw([line(row) for row in rows]) + USER % (4, 4, b"two"))
            end = {"turn": 1, "reason": "interrupted"}
            file.write(raw([line({"type": "turn/end", "seq": 5, "time": 1, "data": end})]))
        got = [json.loads(until(child.stdout, b"\n")) for _ in range(3)]
        ended(child)
    assert [row["kind"] for row in got] == ["tool", "user", "turn"]
    assert got[0]["data"]["status"] == "interrupted"


def test_a_session_to_follow_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "show", "--follow")
    assert (ran.code, "needs a SESSION or PATH" in ran.err) == (2, True)


def on_a_terminal(log: Path, *argv: str, wait_for: bytes = b"one", **environ: str) -> bytes:
    """What a terminal gets of ``show`` until it ends, or Ctrl-C once it got ``wait_for``."""
    ours, theirs = pty.openpty()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TERM": "xterm", "NO_COLOR": "", **environ}.items():
            patch.setenv(name, value)
        with process("show", log, *argv, stdout=theirs) as child:
            os.close(theirs)
            got = b""
            deadline = time.monotonic() + 30
            while wait_for not in got and time.monotonic() < deadline:
                got += os.read(ours, 65536)
            child.send_signal(signal.SIGINT)
            child.wait(20)
            with suppress(OSError):  # the other end is closed
                while more := os.read(ours, 65536):
                    got += more
    os.close(ours)
    return got


ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")


def test_colours_are_for_terminals_alone(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ESCAPE.search(on_a_terminal(log))
    assert not ESCAPE.search(on_a_terminal(log, NO_COLOR="1"))
    assert not ESCAPE.search(on_a_terminal(log, TERM="dumb"))
    assert not ESCAPE.search(on_a_terminal(log, "--color", "never"))
    assert "\x1b" not in run(capsys, "show", log).out
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORCE_COLOR", "1")
        assert "\x1b" not in run(capsys, "show", log).out
    assert "\x1b[" in run(capsys, "show", log, "--color", "always").out


def test_what_is_underway_is_one_turning_cell_that_leaves_nothing(log: Path) -> None:
    start = {"turn": None, "compactionId": "k", "trigger": "auto"}
    log.write_bytes(
        log.read_bytes()
        + raw([line({"type": "compaction/start", "seq": 1, "time": 1, "data": start})])
    )
    got = on_a_terminal(log, "--follow", wait_for=b"compacting").decode()
    assert re.search("\r[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] compacting\x1b\\[K", got)
    assert got.rindex("\r\x1b[K") > got.rindex("compacting")
    with showing(log, "--follow") as child:
        shown = until(child.stdout, b"one\n")
        rest, _ = ended(child)
    assert b"compacting" not in shown + rest
