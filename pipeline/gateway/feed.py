"""From the topics into the store: one thread, one transaction a poll, and nobody else writes.

Whatever fails outside (a broker, the database) is tried again for as long as it takes: what is
served meanwhile says since when it is stale. Reading always goes on from the offsets that stand in
the database, so nothing is lost and nothing is applied twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from pipeline import limits
from pipeline.errors import Fatal, PipelineError, Retriable
from schemas.errors import ReadError

from .applying import Batch, apply
from .changes import Committed, Listener, Offsets
from .records import Incoming, decoded
from .status import Status, StatusBoard
from .store import Store, offsets, write_good
from .tail import Tail, Taken
from .text_after_rows import TextAfterRows

log = logging.getLogger(__name__)

POLL_S = 0.25
LOOK_EVERY_S = 5.0  #: between two looks at the topics' ends
SAME_EVERY_S = limits.SAME_TOPICS_EVERY_S
PAUSE_FIRST_S, PAUSE_LAST_S = 0.2, 5.0


def unheard(_: Committed) -> None:
    """Nobody listens."""


def _log(identity: str) -> str:
    """A short name of the topics."""
    return xxh3_64_hexdigest(identity.encode())


def _told(error: Exception) -> PipelineError:
    if isinstance(error, PipelineError):
        return error
    log.error("a fault of the service", exc_info=error)
    return Fatal(f"a fault of the service ({type(error).__name__})", "its log says more")


class Feed:
    """``run`` blocks until ``stop`` is set. ``counts`` only grow: polls, records, unreadable,
    failures, rebuilds."""

    def __init__(
        self,
        tail: Callable[[], Tail],
        store: Store,
        listener: Listener = unheard,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._new_tail = tail
        self._store = store
        self._listener = listener
        self._now_ms = now_ms
        self._monotonic = monotonic
        self.board = StatusBoard(monotonic)
        self.ends: Offsets = {}
        self.counts = dict.fromkeys(("polls", "records", "unreadable", "failures", "rebuilds"), 0)
        self._told: Offsets | None = None  # up to where listeners know all
        self._good_ms = now_ms()
        self._left = 0

    def run(self, stop: threading.Event) -> None:
        pause = PAUSE_FIRST_S
        while not stop.is_set():
            self.board.alive(self._good_ms)
            tail = self._new_tail()
            try:
                for _ in self._following(tail, stop):
                    pause = PAUSE_FIRST_S
                    self.board.alive(self._good_ms)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is said and tried again
                self._failed(_told(error))
                stop.wait(pause)
                pause = min(2 * pause, PAUSE_LAST_S)
            finally:
                tail.close()
        self.board.ended()

    def catch_up(self) -> None:
        """Everything there is at this moment, once. Raises what `run` would wait out."""
        tail, stop = self._new_tail(), threading.Event()
        try:
            for _ in self._following(tail, stop, wait_s=0):
                if not self._left:
                    stop.set()
        finally:
            tail.close()

    # --- one connection ---------------------------------------------------------------------------

    def _following(
        self, tail: Tail, stop: threading.Event, wait_s: float = POLL_S
    ) -> Iterator[None]:
        """Begins, then yields after each poll."""
        identity = tail.identity()
        records, rebuilt = self._begin(tail, identity)
        look = same = self._monotonic()
        while not stop.is_set():
            taken = records.take(wait_s)
            if taken.offsets:
                self._take(taken, rebuilt=rebuilt)
                rebuilt = False
            now = self._monotonic()
            if now - look >= LOOK_EVERY_S or not wait_s:
                look = now
                self._look(tail)
            if now - same >= SAME_EVERY_S:
                same = now
                if tail.identity() != identity:
                    raise Retriable("the topics were made again: everything is read anew")
            if self._store.moved():
                raise Retriable("the database's file was taken away: it is made anew")
            self._good(bool(taken.offsets))
            yield

    def _begin(self, tail: Tail, identity: str) -> tuple[TextAfterRows, bool]:
        """The records from the place to go on from; whether the database was begun anew."""
        rebuilt = self._store.open(identity)
        self.counts["rebuilds"] += rebuilt
        with self._store.write() as connection:
            held = offsets(connection)
        bounds = tail.bounds()
        for place, at in held.items():
            if place not in bounds or at > bounds[place][1]:
                self._store.forget()
                raise Retriable(f"{place[0]}[{place[1]}] ends before what was read of it")
        start = {place: max(held.get(place, 0), first) for place, (first, _) in bounds.items()}
        tail.start(start)
        self.ends = {place: end for place, (_, end) in bounds.items()}
        self._left = sum(max(end - start[place], 0) for place, (_, end) in bounds.items())
        known, self._told = self._told, dict(held)
        missed = known is not None and any(at > known.get(p, 0) for p, at in held.items())
        if missed or (rebuilt and known is not None):
            self._tell(Committed((), dict(held), {}, rebuilt, missed))
        state = "catching-up" if self._left else "live"
        self.board.put(Status(state, total=self._left, lag=self._left, log=_log(identity)))
        return TextAfterRows(tail, start), rebuilt

    def _take(self, taken: Taken, *, rebuilt: bool) -> None:
        items: dict[str, list[Incoming]] = {}
        for role, records in taken.records.items():
            into = items.setdefault(role, [])
            for record in records:
                self.counts["records"] += 1
                try:
                    found = decoded(record, role)
                except ReadError as error:
                    self._unreadable(record.topic, record.partition, record.offset, error)
                    continue
                if found is not None:
                    into.append(found)
        with self._store.write() as connection:
            self._require_alone(offsets(connection, to_write=True))
            committed = apply(connection, Batch(items, taken.offsets), rebuilt=rebuilt)
            write_good(connection, self._now_ms())
        self.counts["polls"] += 1
        self._told = {**(self._told or {}), **taken.offsets}
        self._tell(committed)

    def _require_alone(self, held: Offsets) -> None:
        """`Retriable` if somebody else wrote: what was read here may have been applied."""
        if held != self._told:
            raise Retriable(
                "another gateway writes this database",
                "give each its own --database: any number may read the same topics",
            )

    def _tell(self, committed: Committed) -> None:
        self._listener(committed)

    def _unreadable(self, topic: str, partition: int, offset: int, error: ReadError) -> None:
        if not self.counts["unreadable"]:
            log.warning("%s[%d] offset %d is none of ours: %s", topic, partition, offset, error)
        self.counts["unreadable"] += 1

    # --- how it stands ----------------------------------------------------------------------------

    def _look(self, tail: Tail) -> None:
        """What is still to read; `Retriable` if nobody answers."""
        bounds = tail.bounds()
        self.ends = {place: end for place, (_, end) in bounds.items()}
        told = self._told or {}
        self._left = sum(max(end - told.get(place, 0), 0) for place, end in self.ends.items())

    def _good(self, moved: bool) -> None:
        self._good_ms = self._now_ms()
        before = self.board.told
        told = self._told or {}
        left = sum(max(end - told.get(place, 0), 0) for place, end in self.ends.items())
        state = "catching-up" if before.state == "catching-up" and left else "live"
        if not moved and state == before.state and before.why is None:
            return
        done = max(before.total - left, 0)
        self.board.put(
            replace(before, state=state, stale_since=None, why=None, done=done, lag=left)
        )

    def _failed(self, error: PipelineError) -> None:
        self.counts["failures"] += 1
        before = self.board.told
        if before.why != str(error):
            level = logging.ERROR if isinstance(error, Fatal) else logging.WARNING
            log.log(level, "what is served is stale: %s", error)
        since = before.stale_since or self._good_ms
        if before.state == "starting":
            before = self._from_before() or before
            since = before.stale_since or since
        state = "starting" if before.state == "starting" else "stale"
        self.board.put(replace(before, state=state, stale_since=since, why=str(error)))

    def _from_before(self) -> Status | None:
        """What an earlier gateway left can be served while the topics are away."""
        try:
            held = self._store.held()
        except PipelineError:
            return None
        if held is None:
            return None
        return Status("stale", held.good_ms, log=_log(held.identity))
