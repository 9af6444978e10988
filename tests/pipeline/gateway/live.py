"""Changes, a read model and frames for the tests of the live core."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw

from pipeline.gateway.changes import (
    Change,
    Committed,
    Offsets,
    OverviewChanged,
    Place,
    RowChanged,
    SurfaceChanged,
    TextAppended,
)
from pipeline.gateway.cursor import Position, parse
from pipeline.gateway.hub import Hub
from pipeline.gateway.protocol import EVERYTHING, Answered, Known, Subscribe, View, Whole
from pipeline.gateway.queues import Client, Taken
from pipeline.gateway.subscriptions import Subscription

OFFSETS: dict[Place, int] = {
    (role, 0): 10 for role in ("transcript", "partials", "overview", "surface")
}


def row(key: str = "user:1", rev: int = 1, *, session: str = "s", **more: Any) -> RowChanged:
    at = {"epoch": 0, "offset": 10, "deleted": False, "anchor_seq": rev} | more
    body = {"session": session, "key": key, "rev": rev, "anchor_rank": 0, "data": None} | at
    return RowChanged(
        *(session, at["epoch"], key, rev, "user", at["anchor_seq"], 0, "transcript"),
        *(at["deleted"], Raw(json.dumps(body).encode()), 0, at["offset"]),
    )


def text(
    words: str, at: int, rev: int, *, key: str = "assistant:1", block: int = 0, **more: Any
) -> TextAppended:
    of: dict[str, Any] = {"session": "s", "epoch": 0, "offset": 10} | more
    return TextAppended(
        session=of["session"],
        epoch=of["epoch"],
        key=key,
        rev=rev,
        block=block,
        block_type="text",
        at=at,
        text=words,
        first_seq=rev,
        time=None,
        partition=0,
        offset=of["offset"],
    )


def overview(seq: int = 1, *, session: str = "s", epoch: int = 0, offset: int = 10) -> Change:
    body = Raw(json.dumps({"session": session, "epoch": epoch, "seq": seq}).encode())
    return OverviewChanged(session, epoch, seq, "idle", body, 0, offset)


def step(seq: int, *, session: str = "s", offset: int = 10) -> SurfaceChanged:
    return SurfaceChanged(session, 0, seq, "append", Raw(b"{}"), 0, offset)


def committed(*changes: Change, **more: Any) -> Committed:
    """As a poll would: the offsets are those after the changes."""
    roles = {RowChanged: "transcript", TextAppended: "partials", OverviewChanged: "overview"}
    offsets: dict[Place, int] = {}
    for change in changes:
        place = (roles.get(type(change), "surface"), change.partition)
        offsets[place] = max(offsets.get(place, 0), change.offset + 1)
    return Committed(changes, offsets, **more)


class FixedCut:
    """A read model that holds one session, and what was missed as it is told."""

    def __init__(self, missed: list[Change] | None = None, **more: Any) -> None:
        self.log = "log"
        self.offsets = more.get("offsets", OFFSETS)
        self.ends = more.get("ends", {})
        self.epoch = more.get("epoch", 0)
        self.changes = missed
        self.asked: list[object] = []

    def known(self, session: str) -> Known | None:
        return Known(self.epoch, 0) if session == "s" else None

    def missed(self, session: str, view: View, since: Offsets, limit: int) -> list[Change] | None:
        self.asked.append((session, view, dict(since), limit))
        return self.changes

    def whole(self, session: str, view: View) -> Whole:
        if session == EVERYTHING:
            return Whole(overviews=())
        return Whole(rows=(Raw(b"{}"),), has_more=True, overview=Raw(b"{}"))


def at(offsets: dict[Place, int] | None = None, **more: Any) -> Position:
    known = OFFSETS if offsets is None else offsets
    return Position(more.get("log", "log"), known, more.get("epochs", {"s": 0}))


def answered(session: str = "s", offset: int = 10, **more: Any) -> Answered:
    offsets = dict.fromkeys(OFFSETS, offset)
    return Answered(session, more.get("epoch", 0), 0, "log", offsets, more.get("frames", ()))


def watching(hub: Hub, *sessions: str, view: View = "transcript", name: str = "") -> Client:
    """A client that is told of the sessions from now on."""
    client = hub.join()
    subscribe(hub, client, *sessions, view=view, name=name)
    return client


def subscribe(
    hub: Hub, client: Client, *sessions: str, view: View = "transcript", name: str = ""
) -> Subscription:
    asked = Subscribe(view=view, sessions=sessions, id=name)
    subscription = hub.subscribe(client, asked, lambda _: True)
    assert isinstance(subscription, Subscription)
    while (ask := hub.ask(client)) is not None:
        hub.answered(ask, answered(ask.session), 0.0)
        take_all(client)
    return subscription


def take_all(client: Client, most: int = 65_536) -> list[dict[str, Any]]:
    """Everything that waits, as a client reads it; cursors among it."""
    found: list[dict[str, Any]] = []
    while (taken := client.take(most)) is not None:
        found += frames_of(taken)
    return found


def frames_of(taken: Taken) -> list[dict[str, Any]]:
    frames = [json.loads(shared.payload) for shared in taken.frames]
    if taken.cursor is not None:
        frames.append({"t": "cursor", "at": parse(taken.cursor)})
    return frames


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["t"] for frame in frames]
