"""Where a worker's store lies, and that no other worker uses it meanwhile."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from pipeline.errors import Fatal

from .rocks import from_os

NONE = "none"  #: instead of a folder: cold sessions stay in memory
LOCK = "lock"


def state_folder(
    configured: str | None, application: str, instance: str, environ: Mapping[str, str]
) -> Path | None:
    """``<base>/<application>/<instance>``; None for memory only. The base is what was configured,
    else ``foldstream`` in the user's folder for state (XDG base directories)."""
    if configured == NONE:
        return None
    if configured is not None:
        base = Path(configured).expanduser()
    else:
        state = Path(environ.get("XDG_STATE_HOME", ""))
        # A relative one is invalid and to be ignored, says the XDG specification.
        home = state if state.is_absolute() else Path("~/.local/state").expanduser()
        base = home / "foldstream"
    return base / _name(application) / _name(instance)


def _name(text: str) -> str:
    """One name of a folder, whatever the text is."""
    safe = quote(text, safe=" @:+=,")
    return safe.replace(".", "%2E") if safe.strip(".") == "" else safe


class Lock:
    """Held until it is closed or the process ends, however that comes."""

    def __init__(self, folder: Path) -> None:
        with from_os(f"the state folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 20, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            raise Fatal(
                f"another worker (process {holder or 'unknown'}) uses the state folder {folder}",
                "give each worker of this machine an --instance, or a --state-dir, of its own",
            ) from error
        os.ftruncate(self._file, 0)
        with from_os(f"the state folder {folder}"):
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
