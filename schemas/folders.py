"""Which files of one folder are logs, and what a log without a header is called (streams.md §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from .jsonl import open_log
from .names import Encoding, Transcript, is_log, transcript


class Found(Struct, frozen=True):
    """One session: its id (of the header, else of its directory, folder or file), the transcript
    that counts (its highest generation; None: a plain file) and the others, newest first."""

    session: str
    path: Path
    encoding: Encoding
    generation: int | None = None
    older: tuple[Path, ...] = ()


def newest(kinds: dict[Transcript, Path], rooted: Encoding) -> tuple[Transcript, Found]:
    """The highest generation wins, and of two encodings of it the one that the root uses."""
    order = sorted(kinds, key=lambda kind: (kind.generation, kind.encoding == rooted), reverse=True)
    best = order[0]
    older = tuple(kinds[kind] for kind in order[1:])
    return best, Found("", kinds[best], best.encoding, best.generation, older)


def logs(folder: Path, names: Iterable[str]) -> Iterator[Found]:
    """The logs among a folder's files; of transcripts as a harness names them the newest."""
    kinds: dict[Transcript, Path] = {}
    for name in sorted(names):
        kind = transcript(name)
        if kind is not None:
            kinds[kind] = folder / name
        elif is_log(name):
            yield Found("", folder / name, "zstd" if name.endswith(".zstd") else "raw")
    if kinds:
        yield newest(kinds, "raw")[1]


def peers(path: Path) -> bool:
    """Whether a folder has logs without a header beside this one."""
    folder = path.parent
    try:
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    except OSError:
        return False
    mine = transcript(path.name)
    for found in logs(folder, names):
        if found.path.name == path.name or (mine and transcript(found.path.name)):
            continue
        log = open_log(found.path)
        next(log.lines, None)
        log.lines.close()
        if not log.session:
            return True
    return False


def stem(path: Path) -> str:
    """A log's name without its endings."""
    return path.name.removesuffix(".zstd").removesuffix(".jsonl") or path.name
