"""What a client holds of the sessions it watches: the keyed store (streams.md §4).

Frames come as decoded JSON, in whatever order, often more than once: a row counts iff (epoch, rev)
is higher than what is held, an overview also if equal, text iff it fits where the block ends. What
did not change stays the very same object, so that a view renders only what did. The page's own
client keeps the same store by the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Raw

from pipeline.images import offload

Json: TypeAlias = dict[str, Any]
Anchor: TypeAlias = tuple[int, int, str]


class KeyedSession:
    """One session. ``epoch`` is None before anything is known."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        #: It rises when what is held becomes void; a reply to what was asked for before is late.
        self.generation = 0
        self.overview: Json | None = None
        self.surface: Json | None = None
        self.has_more = False  # older rows than those held
        #: Rows whose text did not fit, and the revision to be reached: fetch them (`fetched`).
        self.wanted: dict[str, int] = {}
        self._rows: dict[str, Json] = {}
        self._floor: Anchor | None = None  # the oldest row of the pages held; below it are gaps
        self._sorted: tuple[Json, ...] | None = None

    @property
    def rows(self) -> tuple[Json, ...]:
        """The transcript as far as its pages are held, in order; the same tuple until it changes.
        Rows below are held too, for the page that will show them, and so are deleted ones."""
        if self._sorted is None:
            floor = self._floor if self.has_more else None
            shown = (
                row
                for row in self._rows.values()
                if not row["deleted"] and (floor is None or anchor(row) >= floor)
            )
            self._sorted = tuple(sorted(shown, key=anchor))
        return self._sorted

    def row(self, key: str) -> Json | None:
        """A row that is held, deleted or not."""
        return self._rows.get(key)

    # --- frames

    def apply(self, frame: Json) -> bool:
        """Take in a frame about this session; whether anything changed."""
        kind, epoch = frame["t"], frame["epoch"]
        if kind == "snapshot":
            return self._replace(frame)
        if kind not in _KINDS or not self._enter(epoch):
            return False
        if kind == "row":
            return self._upsert(frame["row"])
        if kind == "append":
            return self._append(frame)
        if kind == "overview":
            return self._overview(frame["overview"])
        return self._surface(frame)

    def _enter(self, epoch: int) -> bool:
        """Whether the epoch counts; a higher one voids what is held."""
        if self.epoch is None or epoch > self.epoch:
            self._clear(epoch)
        return epoch == self.epoch

    def _clear(self, epoch: int) -> None:
        self.generation += 1
        self.epoch, self.overview, self.surface = epoch, None, None
        self.has_more, self._floor, self._sorted = False, None, None
        self.wanted.clear()
        self._rows = {}

    def _replace(self, frame: Json) -> bool:
        """What the frame's view shows is replaced, of the same epoch nothing else; rows that are
        as they were stay the same objects."""
        if frame["epoch"] != self.epoch:
            self._clear(frame["epoch"])
        self.generation += 1
        self.overview = frame["overview"] or self.overview
        self.surface = frame["surface"] or self.surface
        if frame["rows"] is None:
            return True
        held, self._rows, self._sorted = self._rows, {}, None
        for row in frame["rows"]:
            before = held.get(row["key"])
            self._rows[row["key"]] = before if before is not None and before == row else row
        self.wanted.clear()
        self.has_more = bool(frame["has_more"])
        self._floor = min(map(anchor, frame["rows"]), default=None)
        return True

    def _upsert(self, row: Json) -> bool:
        key = row["key"]
        held = self._rows.get(key)
        if held is not None and row["rev"] <= held["rev"]:
            return False
        self._put(row)
        return True

    def _put(self, row: Json) -> None:
        self._rows[row["key"]] = row
        self._sorted = None
        if row["rev"] >= self.wanted.get(row["key"], -1):
            self.wanted.pop(row["key"], None)

    def _append(self, frame: Json) -> bool:
        key, rev = frame["key"], frame["rev"]
        held = self._rows.get(key)
        if held is not None and rev <= held["rev"]:
            return False
        longer = None if held is None or key in self.wanted else lengthened(held, frame)
        if longer is None:
            self.wanted[key] = max(rev, self.wanted.get(key, -1))
            return False
        self._put(longer)
        return True

    def told(self, overview: Json | None) -> None:
        """The overview out of a snapshot of all sessions; None: it is not among them."""
        if overview is not None and overview["epoch"] != self.epoch:
            self._clear(overview["epoch"])
        if overview is None and not self._rows and self.surface is None:
            self.epoch = None  # of other topics it may come again, in a lower one
        self.overview = overview

    def _overview(self, overview: Json) -> bool:
        held = self.overview
        if held is not None and (overview["seq"] < held["seq"] or overview == held):
            return False
        self.overview = overview
        return True

    def _surface(self, frame: Json) -> bool:
        surface = self.surface or {"generation": 0, "as_of_seq": -1, "nodes": []}
        if frame["seq"] <= surface["as_of_seq"]:
            return False
        self.surface = stepped(surface, frame["change"])
        return True

    # --- what was asked for

    def fetched(self, row: Json | None, generation: int) -> bool:
        """A row that was `wanted`, as the server holds it now (None: it knows none), and the
        ``generation`` it was asked for in. An older one than is wanted leaves it wanted."""
        if row is None or generation != self.generation or row["epoch"] != self.epoch:
            return False
        return self._upsert(row)

    def older(self, rows: Iterable[Json], generation: int, *, has_more: bool) -> bool:
        """The page above those held, asked for by `before`; False: it is late, so void."""
        page = list(rows)
        if generation != self.generation or self._floor is None or not self.has_more:
            return False
        if any(row["epoch"] != self.epoch for row in page):
            return False
        for row in page:
            self._upsert(row)
        self._floor = min([self._floor, *map(anchor, page)])
        self.has_more, self._sorted = has_more, None
        return True

    @property
    def before(self) -> Anchor | None:
        """Where the page that comes next above begins: below this anchor; None: there is none."""
        return self._floor if self.has_more else None


class KeyedStore:
    """All that one subscription told. ``sessions`` appear with their first frame; ``cursor``: what
    to resume with, None: nothing yet. A snapshot voids it: it may be of an earlier moment."""

    def __init__(self) -> None:
        self.sessions: dict[str, KeyedSession] = {}
        self.cursor: str | None = None

    def session(self, name: str) -> KeyedSession:
        return self.sessions.setdefault(name, KeyedSession())

    def apply(self, frame: Json) -> str | None:
        """Take in a frame; the session that changed, None if nothing did. Frames about no session,
        and kinds that are not known, change nothing."""
        kind = frame.get("t")
        if kind == "cursor":
            self.cursor = frame["cursor"]
            return None
        if kind == "snapshot":
            self.cursor = None
        if kind == "snapshot" and frame["session"] == "":
            told = {overview["session"]: overview for overview in frame["overviews"]}
            for name in self.sessions.keys() | told.keys():
                self.session(name).told(told.get(name))
            return ""
        name = frame.get("session")
        if not name or "epoch" not in frame:
            return None
        return name if self.session(name).apply(frame) else None


_KINDS = frozenset({"row", "append", "overview", "surface"})


def anchor(row: Mapping[str, Any]) -> Anchor:
    """Where a row stands (projection.md §5)."""
    return row["anchor_seq"], row["anchor_rank"], row["key"]


def lengthened(row: Json, frame: Json) -> Json | None:
    """The row with the frame's text behind its block; None: it does not fit."""
    data = row["data"]
    blocks = data.get("blocks") if isinstance(data, dict) else None
    at = frame["block"]
    if not isinstance(blocks, list) or at >= len(blocks) or not isinstance(blocks[at], dict):
        return None
    block = blocks[at]
    name = "arguments" if frame["block_type"] == "tool-call" else "text"
    text = block.get(name)
    if block.get("type") != frame["block_type"] or not isinstance(text, str):
        return None
    if len(text) != frame["offset"]:  # code points, as Python counts
        return None
    longer = [*blocks[:at], {**block, name: text + frame["text"]}, *blocks[at + 1 :]]
    rev = frame["rev"]
    return {**row, "rev": rev, "seq": rev, "data": {**data, "blocks": longer}}


def stepped(surface: Json, change: Json) -> Json:
    """The surface after its next change; node objects that stay are the same."""
    nodes, seq, op = surface["nodes"], change["seq"], change["op"]
    generation = surface["generation"]
    if op == "reset":
        return {"generation": 0, "as_of_seq": seq, "nodes": []}
    if op == "amend":
        marks = {target["seq"]: target["images"] for target in change["targets"]}
        nodes = [_offloaded(node, marks.get(node["seq"], ())) for node in nodes]
        return {"generation": generation, "as_of_seq": seq, "nodes": nodes}
    node = {"seq": seq, "type": change["type"], "message": change["message"]}
    if op == "append":
        nodes = [*nodes, node]
    else:
        leaving, at = set(change["shadowed"]), change["position"]
        nodes = [kept for kept in nodes if kept["seq"] not in leaving]
        nodes.insert(at, node)
        generation = change["generation"]
    return {"generation": generation, "as_of_seq": seq, "nodes": nodes}


def _offloaded(node: Json, images: Collection[int]) -> Json:
    """The node with the marks that whoever holds its message sets (projection.md §4)."""
    if not images:
        return node
    message = Raw(json.dumps(node["message"]).encode())
    return {**node, "message": json.loads(bytes(offload(message, images)))}
