"""Cold sessions on this machine's disk, with the position they stand for (`ports.StateStore`).

Each partition is a RocksDB database of its own, so that what befalls one wipes that one. Keys are
the session (`_key`) and the segment's name, values its bytes; one more record, `origin.Meta`,
holds the position and is written in the same batch. Whatever makes a store unusable is said in one
line, and the partition is read from the topic again.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_digest

from pipeline.errors import Fatal, StoreDamaged
from pipeline.logs import at
from pipeline.ports import Segment

from . import origin as origins
from .folder import Lock
from .origin import FORMAT, Meta, Origin, Unusable
from .rocks import WRITE_BUFFER, Damaged, Memory, batch, by_remedy, from_os, open_database, write

log = logging.getLogger(__name__)

META = b"\0"  #: shorter than every other key
AT_ONCE = 64  #: values looked at together: each may be 1 MiB


class _Part(Struct):
    """One partition: its database, when reading the topic up to its end began (epoch seconds), and
    what the database says of itself; None: nothing yet."""

    path: Path
    database: Any
    since: float
    meta: Meta | None = None


class LocalStore:
    """The store of one worker below ``folder``, which is locked until `close`.

    ``now``: epoch seconds; ``write_buffer``: bytes of one partition that a kill may cost. All
    methods but `close` may raise `StoreFull` and `StoreBroken` (both `Fatal`), and `write` and
    `segments` also `StoreDamaged`."""

    def __init__(
        self,
        folder: Path,
        origin: Origin,
        now: Callable[[], float] = time.time,
        write_buffer: int = WRITE_BUFFER,
    ) -> None:
        self._folder = folder
        self._origin = origin
        self._now = now
        self._lock = Lock(folder)
        self._memory = Memory(write_buffer)
        self._parts: dict[int, _Part] = {}

    def open(self, partition: int) -> int | None:
        part = self._part(partition)
        if part.meta is None:
            return None
        try:
            meta = self._checked(part, origins.encode(part.meta), partition)
        except Unusable as reason:  # this process held it for so long without a batch
            self._start_anew(partition, reason)
            return None
        return meta.position

    def write(
        self,
        partition: int,
        items: Iterable[Segment],
        position: int,
        *,
        current: bool = True,
    ) -> None:
        part = self._part(partition)
        changes, heads = [], {}
        for session, segment, value in items:
            key = _key(session, segment)
            if not segment:
                heads[key] = value is not None
            changes.append((key, value))
        with _in_use(partition, part):
            before = _present(part.database, heads)
            sessions = (part.meta.sessions if part.meta else 0) + sum(heads.values()) - before
            seen = self._now() if current else part.since
            meta = self._meta(partition, position, sessions, seen)
            changes.append((META, origins.encode(meta)))
            self._put(part, changes)
        part.meta = meta

    def _put(self, part: _Part, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        write(part.database, part.path, lambda: batch(changes), self._memory.write_buffer)

    def segments(self, partition: int, session: str) -> Mapping[str, bytes] | None:
        part = self._part(partition)
        start = _key(session, "")
        with _in_use(partition, part):
            if not part.database.key_may_exist(start):  # most are not: sessions that begin
                return None
            found = dict(_rows(part.database.iter(self._memory.one_session), start))
        return found or None

    def sessions(self, partition: int) -> int:
        meta = self._part(partition).meta
        return meta.sessions if meta else 0

    def release(self, partition: int) -> None:
        """Nothing to do at once: a rebalance waits for us. What is buffered is in a database that
        is not written to any more, and is counted in `rocks.WRITE_BUFFERS`."""

    def wipe(self, partition: int) -> None:
        part = self._parts.pop(partition, None)
        path = self._path(partition)
        if part is not None:
            _close(part, flush=False)
        with from_os(f"wiping {path}"):
            if path.exists():
                shutil.rmtree(path)

    def close(self) -> None:
        """Writes out what is buffered. Never raises: whatever is missing is read from the topic."""
        while self._parts:
            _close(self._parts.popitem()[1], flush=True)
        self._lock.close()

    # --- one partition ----------------------------------------------------------------------------

    def _path(self, partition: int) -> Path:
        return self._folder / f"partition-{partition}"

    def _part(self, partition: int) -> _Part:
        return self._parts.get(partition) or self._found(partition) or self._opened(partition)

    def _opened(self, partition: int) -> _Part:
        """Made if there is none."""
        path = self._path(partition)
        part = _Part(path, open_database(path, self._memory), self._now())
        self._parts[partition] = part
        return part

    def _found(self, partition: int) -> _Part | None:
        """What lies on the disk, if it can be used; what cannot is wiped."""
        path = self._path(partition)
        with from_os(str(path)):
            if not path.is_dir() or not any(path.iterdir()):
                return None
        try:
            part = self._opened(partition)
            with by_remedy(path):
                raw = part.database.get(META)
            self._checked(part, raw, partition)
        except (Unusable, Damaged) as reason:
            self._start_anew(partition, reason)
            return None
        return part

    def _checked(self, part: _Part, raw: bytes | None, partition: int) -> Meta:
        """Usable now, and so for as long again: what is deleted from now on is still to be read."""
        part.since = self._now()
        meta = replace(origins.usable(raw, self._origin, partition, part.since), seen=part.since)
        self._put(part, [(META, origins.encode(meta))])
        part.meta = meta
        return meta

    def _meta(self, partition: int, position: int, sessions: int, seen: float) -> Meta:
        of = self._origin
        return Meta(
            *(FORMAT, of.cluster, of.topic, of.application, partition, position, sessions, seen)
        )

    def _start_anew(self, partition: int, reason: Exception) -> None:
        log.warning(
            "the local store in %s cannot be used: %s; the partition is read anew from the state "
            "topic",
            *(self._path(partition), reason),
            extra=at(partition=partition),
        )
        self.wipe(partition)


def _key(session: str, segment: str) -> bytes:
    """A hash of the session, its name and length, and the segment: no session's keys begin with
    those of another, whatever the names."""
    name = session.encode()
    return xxh3_64_digest(name) + len(name).to_bytes(2) + name + segment.encode()


def _rows(rows: Any, start: bytes) -> Iterator[tuple[str, bytes]]:
    """Segment and value of the keys that begin so, and the end of the iterator: an error's
    traceback would keep it, and it would keep the database open."""
    try:
        rows.seek(start)
        while rows.valid():
            key: bytes = rows.key()
            if not key.startswith(start):
                return
            yield key[len(start) :].decode(), rows.value()
            rows.next()
        rows.status()  # raises what ended it, else damage would look like absence
    finally:
        del rows


def _present(database: Any, heads: Collection[bytes]) -> int:
    """How many of the keys there are. A filter answers for most that are not."""
    maybe = [key for key in heads if database.key_may_exist(key)]
    found = 0
    for start in range(0, len(maybe), AT_ONCE):
        some = maybe[start : start + AT_ONCE]
        found += len(some) - database.get(some).count(None)
    return found


@contextmanager
def _in_use(partition: int, part: _Part) -> Iterator[None]:
    """Damage met while a partition is in use, as `StoreDamaged`."""
    try:
        with by_remedy(part.path):
            yield
    except Damaged as error:
        raise StoreDamaged(
            partition, f"the local store in {part.path} is damaged: {error}"
        ) from error


def _close(part: _Part, *, flush: bool) -> None:
    try:
        with by_remedy(part.path):
            if flush:
                part.database.flush()
            part.database.close()
    except (Fatal, Damaged) as error:
        if flush:
            log.warning(
                "%s: what was not written out is read again from the state topic: %s",
                *(part.path, error),
            )
            _close(part, flush=False)
