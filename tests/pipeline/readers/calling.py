"""A command line as a user calls it, in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pipeline import cli

Call: TypeAlias = Callable[..., tuple[int, str, str]]


def calling(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> Call:
    """Runs a command line: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FOLDSTREAM_")]:
        monkeypatch.delenv(name)

    def call_it(*argv: str) -> tuple[int, str, str]:
        try:
            code = cli.main([str(each) for each in argv])
        except SystemExit as left:
            code = int(left.code or 0)
        said = capsysbinary.readouterr()
        return code, said.out.decode(), said.err.decode()

    return call_it
