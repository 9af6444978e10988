"""``watch`` as a process on a terminal: what it shows, how it ends, what it refuses."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pipeline.commands.watch import made
from pipeline.config import Config, ConfigError
from pipeline.simulate import simulate
from tests.pipeline.gateway.test_streams import WAIT_S, Serving
from tests.pipeline.test_cli import elsewhere, process, run

__all__ = ["elsewhere"]

SESSION = simulate(2, events=120)
OTHER_SCREEN, BACK = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Serving]:
    stage = Serving(tmp_path)
    stage.begin(SESSION)
    with stage.serving():
        yield stage
    stage.store.close()


class OnATerminal:
    def __init__(self, child: subprocess.Popen[bytes], ours: int) -> None:
        self.child = child
        self._ours = ours
        self.got = b""

    def until(self, text: bytes) -> None:
        end = time.monotonic() + WAIT_S
        while text not in self.got:
            ready, _, _ = select.select([self._ours], [], [], max(end - time.monotonic(), 0))
            assert ready, self.got[-2000:]
            self.got += os.read(self._ours, 65536)

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def ended(self) -> int:
        """Its exit code, once all it wrote is read."""
        with suppress(OSError):  # the other end is closed
            while got := os.read(self._ours, 65536):
                self.got += got
        return self.child.wait(WAIT_S)


@contextmanager
def terminal(gateway: Serving, *argv: str, **environ: str) -> Iterator[OnATerminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TERM": "xterm-256color", **environ}.items():
            patch.setenv(name, value)
        patch.delenv("COLUMNS", raising=False)
        command = ("watch", *argv, "--gateway", gateway.url_of_gateway)
        with process(*command, stdin=theirs, stdout=theirs, stderr=theirs) as child:
            os.close(theirs)
            try:
                yield OnATerminal(child, ours)
            finally:
                child.kill()
    os.close(ours)


@pytest.mark.parametrize("way", ["q", "Ctrl-C", "SIGTERM"])
def test_it_shows_a_session_and_puts_the_terminal_back(gateway: Serving, way: str) -> None:
    with terminal(gateway, SESSION.id) as shown:
        shown.until(b"following")
        assert OTHER_SCREEN in shown.got
        if way == "SIGTERM":
            shown.child.send_signal(signal.SIGTERM)
        else:
            shown.press(b"q" if way == "q" else b"\x03")
        assert shown.ended() == 0
        assert BACK in shown.got


GREYS = {16, 59, 102, 145, 188, 231, *range(232, 256)}


def colours(gateway: Serving, no_color: str) -> set[int]:
    """Of the 256 of xterm, those that are used."""
    with terminal(gateway, SESSION.id, NO_COLOR=no_color) as shown:
        shown.until(b"following")
        shown.press(b"q")
        shown.ended()
    return {int(found) for found in re.findall(rb"[34]8;5;(\d+)", shown.got)}


def test_no_color_means_greys_alone(gateway: Serving) -> None:
    assert colours(gateway, "1") <= GREYS
    assert not colours(gateway, "") <= GREYS


def test_without_a_terminal_it_names_what_a_script_asks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = run(capsys, "watch", "--gateway", "http://127.0.0.1:1")
    assert ran.code == 2
    assert "curl http://127.0.0.1:1/v1/sessions" in ran.err


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", ""])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no URL"):
        made(Config(gateway=url), None)


def test_the_token_is_the_first_of_the_gateways_own_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abcdefghijklmnopqrstuvwxyz\n")
    app = made(Config(token_file=str(tmp_path / "token")), None)
    sent = app.connect((), "overview")._http.headers["Authorization"]
    assert sent == "Bearer abcdefghijklmnopqrstuvwxyz"


def test_what_is_not_installed_is_named() -> None:
    # In a process of its own: a package that was taken out and comes again is another one.
    code = (
        "import sys; sys.modules['textual.app'] = None\n"
        "from pipeline.commands.watch import made; from pipeline.config import Config\n"
        "made(Config(), None)"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ConfigError: " in ran.stderr
    assert "pip install 'foldstream[watch]'" in ran.stderr
