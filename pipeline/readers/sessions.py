"""Many sessions by their headers: those of files and those on the topics (readers.md §12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from operators.changes import SessionOverview
from operators.events import Header
from operators.readers.lineage import SessionRecord
from schemas.directory import scan
from schemas.inbound import read_line
from schemas.jsonl import open_log


def in_files(roots: Iterable[Path]) -> Iterator[SessionRecord]:
    """The sessions below some folders; of each the first line is read."""
    for root in roots:
        for found in scan(root).sessions:
            yield of_header(found.session, _header(found.path))


def _header(path: Path) -> Header | None:
    log = open_log(path)
    first = next(log.lines, None)
    log.lines.close()
    line = None if first is None else read_line(first.raw)
    return line if isinstance(line, Header) else None


def of_header(session: str, header: Header | None) -> SessionRecord:
    """A stored session; without a header little is known of it."""
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
    """The sessions that workers have published. An overview has no format version, and says of a
    seed only where it ended."""
    for overview in overviews:
        if overview.session is not None:
            yield SessionRecord(
                overview.session,
                overview.created_at,
                overview.cwd,
                overview.parent,
                origin=overview.origin,
                seed_length=overview.inherited_until,
                depth=overview.depth,
                partial=True,
                live=True,
            )
