"""What `make` does with the terminal that it has, or has not."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: What stands for the command: its arguments, one line.
STAND_IN = '#!/bin/sh\necho "given: $*"\n'

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")


@pytest.fixture
def demo(tmp_path: Path) -> list[str]:
    """`make demo` with a virtual environment in which foldstream only says how it was called."""
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").touch()
    (programs.parent / ".run").touch()
    command = programs / "foldstream"
    command.write_text(STAND_IN)
    command.chmod(0o755)
    return ["make", "-C", str(ROOT), "demo", f"VENV={programs.parent}", "ARGS=--sessions 3"]


def test_the_demo_stays_where_there_is_a_terminal(demo: list[str]) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(demo, stdout=theirs, stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate()
    os.close(theirs)
    printed = os.read(ours, 65536).decode()
    os.close(ours)
    assert process.returncode == 0, said
    assert "given: up --broker auto --demo --sessions 3\r\n" in printed
    assert "no terminal" not in said


def test_the_demo_ends_where_there_is_none_and_says_how_to_stay(demo: list[str]) -> None:
    done = subprocess.run(demo, capture_output=True, text=True, check=True)
    assert "given: up --broker auto --demo --once --sessions 3\n" in done.stdout
    assert "foldstream up --demo" in done.stderr.partition("to stay: ")[2]
