"""What must hold when the faults are over: all is folded, and the proof says so."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pipeline.topics import Names

from . import journal
from .stage import Stage

CATCH_UP_S = 75.0
VERIFY_S = 120.0


class Trouble(Exception):  # noqa: N818 - the round's, not the program's
    """It did not go as it must: what was waited for in vain."""


def catch_up(
    stage: Stage,
    names: Names,
    folder: Path,
    ends: Mapping[int, int],
    seconds: float = CATCH_UP_S,
) -> None:
    """Wait until every partition is folded up to its end."""
    deadline = time.monotonic() + seconds
    while behind := _behind(stage, names, folder, ends):
        if time.monotonic() > deadline:
            raise Trouble(f"not folded to the end after {seconds:.0f} s: {behind}")
        time.sleep(0.2)


def _behind(stage: Stage, names: Names, folder: Path, ends: Mapping[int, int]) -> dict[int, int]:
    """Lines left per partition, as the journals say, or the group itself where they lag: a process
    that is killed right after a commit has not written it down."""
    known = journal.folded_to(journal.read(folder))
    if any(known.get(partition, 0) < end for partition, end in ends.items()):
        known = stage.committed(names)
    left = {partition: end - known.get(partition, 0) for partition, end in ends.items()}
    return {partition: lines for partition, lines in left.items() if lines > 0}


def verify(bootstrap: str, names: Names, folder: Path, seconds: float = VERIFY_S) -> str:
    """What ``foldstream verify`` says: ``ok``, or its last line."""
    command = [sys.executable, "-m", "pipeline.cli", "verify", "--json", "--bootstrap", bootstrap]
    command += ["--prefix", names.prefix, "--application-id", names.application]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"no verdict within {seconds:.0f} s"
    (folder / "verify.log").write_text(done.stdout + done.stderr)
    said = [*done.stderr.splitlines(), *done.stdout.splitlines()] or [""]
    if done.returncode:
        return f"exit {done.returncode}: {said[-1]}"
    verdict = msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, Any])
    return f"{verdict['behind']} events not folded" if verdict["behind"] else "ok"
