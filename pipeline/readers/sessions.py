"""Many sessions by their headers: those of files and those on the topics (readers.md §12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from operators.changes import SessionOverview
from operators.events import Header
from operators.readers.lineage import SessionRecord
from operators.text import well_formed
from schemas.directory import scan
from schemas.inbound import read_line
from schemas.jsonl import open_log

Say: TypeAlias = Callable[[str], None]
LEFT_OUT = ("duplicate-id", "unreadable", "stray-file", "flat-file")
NAMED = 10  #: files of a root that are left out


def in_files(roots: Iterable[Path], say: Say) -> Iterator[SessionRecord]:
    """The sessions below some folders; of each the first line is read."""
    return (record for _, record in stored(roots, say))


def stored(roots: Iterable[Path], say: Say) -> Iterator[tuple[Path, SessionRecord]]:
    """The same with the file of each; ``say`` is told of files that are left out."""
    for root in roots:
        found = scan(root)
        left_out = [each.message for each in found.problems if each.code in LEFT_OUT]
        for message in left_out[:NAMED]:
            say(f"note: {message}")
        if (more := len(left_out) - NAMED) > 0:
            say(f"note: {root}: {more} more files are left out")
        for each in found.sessions:
            yield each.path, of_header(each.session, _header(each.path))


def _header(path: Path) -> Header | None:
    log = open_log(path)
    first = next(log.lines, None)
    log.lines.close()
    line = None if first is None else read_line(first.raw)
    return line if isinstance(line, Header) else None


def of_header(session: str, header: Header | None) -> SessionRecord:
    """A stored session; without a header little is known of it."""
    session = well_formed(session)
    if header is None:
        return SessionRecord(session, partial=True, persisted=True)
    return SessionRecord(
        session,
        header.created_at,
        header.cwd,
        header.parent,
        header.version,
        header.origin,
        header.seed_length,
        header.depth,
        persisted=True,
    )


def on_topics(overviews: Iterable[SessionOverview]) -> Iterator[SessionRecord]:
    """The sessions that workers have published."""
    return (of_overview(each) for each in overviews if each.session is not None)


def of_overview(overview: SessionOverview) -> SessionRecord:
    """An overview has no format version, and says of a seed only where it ended."""
    return SessionRecord(
        overview.session or "",
        overview.created_at,
        overview.cwd,
        overview.parent,
        origin=overview.origin,
        seed_length=overview.inherited_until,
        depth=overview.depth,
        partial=True,
        live=True,
    )
