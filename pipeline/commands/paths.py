"""What a PATH or a SESSION on the command line stands for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import Fatal
from schemas.directory import scan

STANDARD_INPUT = "-"
NAMED = 10  #: logs of a folder that are named


def names_a_path(text: str) -> bool:
    """A SESSION is whatever neither exists as a path nor can only be meant as one."""
    return (
        text == STANDARD_INPUT
        or "/" in text
        or text.endswith((".jsonl", ".jsonl.zstd"))
        or Path(text).exists()
    )


def log_file(path: Path) -> Path:
    """The file to read: a session directory's newest transcript, any other path as it is."""
    if str(path) == STANDARD_INPUT or not path.is_dir():
        return path
    found = scan(path)
    if not found.sessions:
        raise Fatal(f"{path}: no session log in this folder", "name a .jsonl or .jsonl.zstd file")
    twice = [problem.path for problem in found.problems if problem.code == "duplicate-id"]
    logs = sorted([*(session.path for session in found.sessions), *twice])
    if len(logs) == 1:
        return logs[0]
    more = f" … and {len(logs) - NAMED} more" if len(logs) > NAMED else ""
    raise Fatal(
        f"{path}: {len(logs)} sessions in this folder",
        f"name one of them: {', '.join(map(str, logs[:NAMED]))}{more}",
    )


def existing(roots: Iterable[Path]) -> None:
    """`Fatal` on a folder that is not there: a slip of the pen, not a session to report on."""
    for root in roots:
        if not root.exists():
            raise Fatal(f"{root}: no such file or folder", "name a folder with session logs")


def holding_logs(roots: Iterable[Path]) -> None:
    """`Fatal` on a root in which no log is, not even one that cannot be read."""
    for root in roots:
        found = scan(root)
        if not found.sessions and not any(p.code == "unreadable" for p in found.problems):
            raise Fatal(
                f"{root}: no session log in it",
                "name a folder with .jsonl or .jsonl.zstd files, or a harness's sessions",
            )


def trouble(path: Path, message: str) -> str:
    """What is wrong with a file, its name in front once."""
    return message if message.startswith(str(path)) else f"{path}: {message}"
