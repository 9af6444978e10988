"""Guards of the live core taken away, each by its name: fault schedules must find every one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from pipeline.gateway import coalescing, keyed, protocol, subscriptions
from pipeline.gateway.coalescing import Shared
from pipeline.gateway.cursor import Position
from pipeline.gateway.frames import Append, Row
from pipeline.gateway.hub import Hub
from pipeline.gateway.keyed import Json, KeyedSession, KeyedStore
from pipeline.gateway.queues import Client
from pipeline.gateway.subscriptions import Step, Subscription
from tests.pipeline.gateway import schedule_world
from tests.pipeline.gateway.schedule_model import LogTail
from tests.pipeline.gateway.schedule_world import Viewer

Patches = Callable[[], Iterable[Any]]


@contextmanager
def applied(name: str) -> Iterator[None]:
    """The core without that guard; "" for the core as it is."""
    with ExitStack() as stack:
        for change in MUTANTS[name]() if name else ():
            stack.enter_context(change)
        yield


# --- the client's store ---------------------------------------------------------------------------


def _any_revision() -> Iterable[Any]:
    def upsert(self: Any, row: Json) -> bool:
        self._put(row)
        return True

    yield patch.object(KeyedSession, "_upsert", upsert)


def _any_offset() -> Iterable[Any]:
    lengthened = keyed.lengthened

    def lenient(row: Json, frame: Json) -> Json | None:
        blocks = (row["data"] or {}).get("blocks", [])
        if frame["block"] < len(blocks):
            frame = {**frame, "offset": len(blocks[frame["block"]]["text"])}
        return lengthened(row, frame)

    yield patch.object(keyed, "lengthened", lenient)


def _misfit_forgotten() -> Iterable[Any]:
    append = KeyedSession._append

    def forgets(self: Any, frame: Json) -> bool:
        changed = append(self, frame)
        self.wanted.clear()
        return changed

    yield patch.object(KeyedSession, "_append", forgets)


def _one_reply_is_enough() -> Iterable[Any]:
    fetched = KeyedSession.fetched

    def content(self: Any, row: Json | None, generation: int) -> bool:
        self.wanted.clear()
        return fetched(self, row, generation)

    yield patch.object(KeyedSession, "fetched", content)


def _offloaded_unmarked() -> Iterable[Any]:
    yield patch.object(keyed, "_offloaded", lambda node, _: node)


def _deleted_forgotten() -> Iterable[Any]:
    put = KeyedSession._put

    def forgets(self: Any, row: Json) -> None:
        put(self, row)
        if row["deleted"]:
            del self._rows[row["key"]]

    yield patch.object(KeyedSession, "_put", forgets)


def _epochs_mixed() -> Iterable[Any]:
    def enters(self: Any, epoch: int) -> bool:
        self.epoch = epoch if self.epoch is None else max(self.epoch, epoch)
        return True

    yield patch.object(KeyedSession, "_enter", enters)


def _snapshot_merged() -> Iterable[Any]:
    def merge(self: Any, frame: Json) -> bool:
        if frame["epoch"] != self.epoch:
            self._clear(frame["epoch"])
        for row in frame["rows"] or ():
            self._upsert(row)
        self.overview = frame["overview"] or self.overview
        self.surface = frame["surface"] or self.surface
        if frame["rows"] is not None:
            self.has_more = frame["has_more"]
            self._floor = min(map(keyed.anchor, frame["rows"]), default=None)
        return True

    yield patch.object(KeyedSession, "_replace", merge)


def _rows_below_dropped() -> Iterable[Any]:
    put = KeyedSession._put

    def above(self: Any, row: Json) -> None:
        if self.before is None or row["deleted"] or keyed.anchor(row) >= self.before:
            put(self, row)
        else:
            self.wanted.pop(row["key"], None)

    yield patch.object(KeyedSession, "_put", above)


def _equal_overview_ignored() -> Iterable[Any]:
    def later(self: Any, overview: Json) -> bool:
        if self.overview is None or overview["seq"] > self.overview["seq"]:
            self.overview = overview
        return True

    yield patch.object(KeyedSession, "_overview", later)


def _late_replies() -> Iterable[Any]:
    fetched, older = KeyedSession.fetched, KeyedSession.older

    def any_row(self: Any, row: Json | None, _: int) -> bool:
        return fetched(self, row, self.generation)

    def any_page(self: Any, rows: Iterable[Json], _: int, *, has_more: bool) -> bool:
        return older(self, rows, self.generation, has_more=has_more)

    yield patch.object(KeyedSession, "fetched", any_row)
    yield patch.object(KeyedSession, "older", any_page)


def _everything_added() -> Iterable[Any]:
    apply = KeyedStore.apply

    def adds(self: Any, frame: Json) -> str | None:
        if frame["t"] == "snapshot" and frame["session"] == "":
            for overview in frame["overviews"]:
                of = {key: overview[key] for key in ("session", "epoch", "seq")}
                apply(self, {"t": "overview", "overview": overview, **of})
            return ""
        return apply(self, frame)

    yield patch.object(KeyedStore, "apply", adds)


def _late_connection_heard() -> Iterable[Any]:
    def hears(self: Any, message: str) -> None:
        import json

        for frame in json.loads(message):
            self.take(frame)

    yield patch.object(Viewer, "hear_late", hears)


# --- coalescing -----------------------------------------------------------------------------------


def _join_over_blocks() -> Iterable[Any]:
    def join(frames: Sequence[Shared]) -> Iterable[Shared]:
        kept: list[Shared] = []
        last: dict[tuple[str, str, int], int] = {}
        for shared in frames:
            frame = shared.frame
            if isinstance(frame, Append):
                key = (frame.session, frame.key, frame.block)
                at = last.get(key)
                before = None if at is None else kept[at].frame
                if at is not None and before is not None and coalescing._continues(before, frame):
                    assert isinstance(before, Append)
                    kept[at] = coalescing._joined(before, frame, shared)
                    continue
                last[key] = len(kept)
            elif isinstance(frame, Row):
                last.clear()
            kept.append(shared)
        return kept

    yield patch.object(coalescing, "_join", join)


def _all_text_superseded() -> Iterable[Any]:
    standing = coalescing._standing

    def hasty(frames: Sequence[Shared]) -> list[Shared]:
        rows = {(s.frame.session, s.frame.key) for s in frames if isinstance(s.frame, Row)}
        return [
            shared
            for shared in standing(frames)
            if not isinstance(shared.frame, Append)
            or (shared.frame.session, shared.frame.key) not in rows
        ]

    yield patch.object(coalescing, "_standing", hasty)


# --- queues and hub -------------------------------------------------------------------------------


def _marked_too_early() -> Iterable[Any]:
    def some(self: Any) -> bool:
        return any(held.live for held in self.held.values())

    yield patch.object(Subscription, "told", property(some))


def _nothing_kept_meanwhile() -> Iterable[Any]:
    answered = Hub.answered

    def forgets(self: Any, ask: Any, found: Any, now: float) -> None:
        held = ask.subscription.held.get(ask.session)
        if held is not None and held.waiting:
            held.waiting.clear()
        answered(self, ask, found, now)

    yield patch.object(Hub, "answered", forgets)


def _dropped_in_silence() -> Iterable[Any]:
    def silent(self: Any, _: str, __: float, *, anew: bool = False) -> None:
        for subscription in self.subscriptions.values():
            subscription.queue.clear()
            for held in subscription.held.values():
                held.waiting = None if held.waiting is None else []
        self.frames = self.bytes = 0

    def relieved(self: Any, now: float) -> bool:
        self.resync("", now)
        return True

    yield patch.object(Client, "resync", silent)
    yield patch.object(Client, "_relieve", relieved)


def _no_bounds() -> Iterable[Any]:
    yield patch.object(Client, "_is_over", lambda *_: False)


def _resumed_from_the_queue() -> Iterable[Any]:
    """What was dropped is taken for sent."""
    restart = Subscription.restart

    def ahead(self: Any, reason: str, *, anew: bool = False) -> int:
        marks = [entry for entry in self.queue if isinstance(entry, Step)]
        if marks:
            self.cursor = self.position(marks[-1])
        return restart(self, reason, anew=anew)

    yield patch.object(Subscription, "restart", ahead)


def _late_answers() -> Iterable[Any]:
    """To what was asked before a resync."""
    answered = Hub.answered

    def any_time(self: Any, ask: Any, found: Any, now: float) -> None:
        answered(self, replace(ask, ticket=ask.subscription.ticket), found, now)

    yield patch.object(Hub, "answered", any_time)


def _dirty_marked() -> Iterable[Any]:
    """Overviews that wait for the second to be over are taken for told."""
    now = property(lambda self: self._offsets, lambda *_: None)
    yield patch.object(Hub, "_ticked", now, create=True)


def _rebuilt_unnoticed() -> Iterable[Any]:
    def goes_on(self: Any, gathered: Any, _: float) -> set[Client]:
        for committed in gathered:
            self._offsets = self._offsets.update(committed.offsets)
        return set()

    yield patch.object(Hub, "_answer_anew", goes_on)


# --- cursors and answers --------------------------------------------------------------------------


def _one_too_far() -> Iterable[Any]:
    position = Subscription.position

    def ahead(self: Any, step: Step) -> Position:
        found = position(self, step)
        return replace(found, offsets={place: n + 1 for place, n in found.offsets.items()})

    yield patch.object(Subscription, "position", ahead)
    yield patch.object(protocol, "_impossible", lambda *_: None)


def _no_partials_in_cursors() -> Iterable[Any]:
    places = protocol.places

    def fewer(*of: Any) -> Any:
        return {place: n for place, n in places(*of).items() if place[0] != "partials"}

    yield patch.object(protocol, "places", fewer)
    yield patch.object(subscriptions, "places", fewer)


def _since_without(**without: Any) -> Iterable[Any]:
    since = protocol._since

    def blind(cut: Any, cursor: Any, session: str, known: Any, offsets: Any) -> Any:
        if cursor is not None:
            if "log" in without:
                cursor = replace(cursor, log=cut.log)
            if "sessions" in without:
                cursor = replace(cursor, epochs={session: known.epoch, **cursor.epochs})
        return since(cut, cursor, session, known, offsets)

    yield patch.object(protocol, "_since", blind)


def _text_at_once() -> Iterable[Any]:
    """Of a row that is still to come, too."""
    yield patch.object(LogTail, "written", lambda _, places: dict.fromkeys(places, 0))


def _pages_from_behind() -> Iterable[Any]:
    yield patch.object(schedule_world, "served", lambda *_: True)


MUTANTS: Mapping[str, Patches] = {
    "a row of any revision counts": _any_revision,
    "text goes on at any offset": _any_offset,
    "text that does not fit is forgotten": _misfit_forgotten,
    "a row is fetched once": _one_reply_is_enough,
    "deleted rows are forgotten": _deleted_forgotten,
    "epochs are mixed": _epochs_mixed,
    "a snapshot is merged": _snapshot_merged,
    "rows below the pages are dropped": _rows_below_dropped,
    "an overview of equal seq is ignored": _equal_overview_ignored,
    "replies of before a snapshot count": _late_replies,
    "a snapshot of all sessions only adds": _everything_added,
    "offloaded images are not marked": _offloaded_unmarked,
    "the connection before is heard": _late_connection_heard,
    "text is joined over blocks": _join_over_blocks,
    "text after its row is superseded": _all_text_superseded,
    "cursors before all is answered": _marked_too_early,
    "nothing is kept while it is looked up": _nothing_kept_meanwhile,
    "frames are dropped in silence": _dropped_in_silence,
    "queues without bounds": _no_bounds,
    "what was dropped is taken for sent": _resumed_from_the_queue,
    "answers of before a resync count": _late_answers,
    "overviews that wait are taken for told": _dirty_marked,
    "a rebuilt read model is not noticed": _rebuilt_unnoticed,
    "a cursor is one too far": _one_too_far,
    "no partials in cursors": _no_partials_in_cursors,
    "other topics are resumed": lambda: _since_without(log=True),
    "sessions not held are resumed": lambda: _since_without(sessions=True),
    "text waits for no row": _text_at_once,
    "pages of a gateway that is behind": _pages_from_behind,
}
