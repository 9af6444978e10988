"""Snapshots as earlier programs wrote them stay readable; what is written is the newest version.

``golden/snapshot.v<N>.json``: the segments of one session by name, written once by the program of
that version; none is edited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from operators.parking import Mark, take
from operators.session import Out, Session
from schemas import snapshot
from schemas.inbound import read_line

PLACE = {"turn": 1, "step": 1}
TEXT = [{"type": "text", "text": "some text"}]
CALL = {"type": "tool-call", "id": "a", "name": "read", "arguments": "{}"}
APPEND = {"surfaceOp": "append"}
#: The log that ``golden/snapshot.v3.json`` was written of.
ROWS: list[dict[str, Any]] = [
    {"type": "turn/start", "data": {"turn": 1}},
    {"type": "system/message", "data": PLACE | {"message": {"id": "s", "content": TEXT}}} | APPEND,
    {
        "type": "user/message",
        "data": {"id": "u", "content": TEXT, "source": {"kind": "user"}},
    }
    | APPEND,
    {
        "type": "user/message",
        "data": {"id": "i", "content": TEXT, "source": {"kind": "plugin", "plugin": "x"}},
    }
    | APPEND,
    {"type": "request/header", "data": {"header": {"config": {"provider": "p", "model": "m"}}}},
    {"type": "session/title", "data": {"title": "T", "source": {"kind": "user"}}},
    {"type": "todo/write", "data": {"todos": [{"content": "x", "status": "pending"}]}},
    {"type": "step/start", "data": PLACE},
    {"type": "tool/call", "data": PLACE | {"callId": "c", "name": "n", "arguments": ""}},
    {"type": "sandbox/mode", "data": {"mode": "read-only"}},
    {
        "type": "assistant/message",
        "data": PLACE
        | {"message": {"id": "m", "content": [*TEXT, CALL]}, "usage": {"inputTokens": 3}},
    }
    | APPEND,
    {
        "type": "assistant/message",
        "data": PLACE | {"message": {"id": "n", "content": TEXT}},
        "surfaceOp": {"op": "replace", "start": 10, "end": 10},
        "sourceEventSeqs": [10],
    },
]

GOLDEN = Path(__file__).parent / "golden"
SESSION = "s-1"


def golden(version: int) -> dict[str, bytes]:
    found = json.loads((GOLDEN / f"snapshot.v{version}.json").read_text("utf-8"))
    return {name: value.encode() for name, value in found.items()}


def said(segments: dict[str, bytes | None] | dict[str, bytes]) -> dict[str, object]:
    """The segments without the order of their keys, which differs from process to process."""
    return {name: json.loads(value or b"null") for name, value in segments.items()}


def parked() -> Session:
    """The golden session of version 1, parked by a torn line, and with one more put aside."""
    session, out = snapshot.load(SESSION, golden(1)), Out()
    session.park_at_faults(True)
    take(session, read_line(b"{"), Mark(41), out)
    take(session, read_line(b'{"seq":7,"time":6,"type":"turn/end","data":{}}'), Mark(45), out)
    assert [refused.reason for refused in out.refused] == ["not-json", "parked"]
    return session


@pytest.mark.parametrize("version", [1, 2])
def test_what_knows_no_readers_is_read(version: int) -> None:
    """They begin anew, and a quality fact says so; what the snapshot says of times stays."""
    session = snapshot.load(SESSION, golden(version))
    overview = session.overview()
    facts = {"unannounced_call": 1, "gap": 1, "reader:restarted": 1}
    assert (overview.next_seq, overview.quality) == (7, facts)
    assert overview.counts == {"commands": 1, "tool_calls": 1, "user": 1}
    assert overview.state == ("running" if version == 1 else "parked")
    assert dict(session.readers.statistics.pending) == {"c": 4}
    again = snapshot.load(SESSION, {n: v for n, v in snapshot.save(session).items() if v})
    assert again.quality == facts


def test_the_newest_version_is_read() -> None:
    session = snapshot.load(SESSION, golden(3))
    assert said(snapshot.save(session)) == said(golden(3))
    assert session.quality["reader:toolPairing"] == 1
    readers = session.readers
    assert readers.statistics.times.llm_ms == 30
    assert [route.provider for route, _ in readers.billing.table()] == ["p"]
    assert [context.kind for context in readers.small["injected"].contexts()] == ["plugin"]
    assert (session.surface.tokens, readers.systems.last) == (40, 7)


def test_it_is_what_this_program_writes() -> None:
    session, out = Session(SESSION), Out()
    for number, row in enumerate(ROWS):
        line = json.dumps({"seq": number, "time": 10 * number, **row}).encode()
        session.take(read_line(line), out)
    assert not out.refused
    assert said(snapshot.save(session)) == said(golden(3))


def test_a_parked_session_stays_parked() -> None:
    session = parked()
    restored = snapshot.load(SESSION, {n: v for n, v in snapshot.save(session).items() if v})
    assert restored.parked == session.parked == snapshot.load(SESSION, golden(2)).parked
    assert (restored.parks, restored.cleared) == (False, -1)


def test_what_was_cleared_is_remembered() -> None:
    session, out = parked(), Out()
    take(session, read_line(b"{"), Mark(41, replay=True, skip=True), out)
    assert session.cleared == 41
    restored = snapshot.load(SESSION, {name: v for name, v in snapshot.save(session).items() if v})
    assert (restored.cleared, restored.parked) == (41, session.parked)
    take(restored, read_line(b"{"), Mark(41, replay=True), again := Out())
    assert again.refused == []
