"""Snapshots as earlier programs wrote them stay readable, and none is newer than it has to be.

``golden/snapshot.v<N>.json``: the segments of one session by name, written once by the program of
that version; none is edited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operators.parking import Mark, take
from operators.session import Out, Session
from schemas import snapshot
from schemas.inbound import read_line

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
def test_every_version_is_read(version: int) -> None:
    session = snapshot.load(SESSION, golden(version))
    overview = session.overview()
    assert (overview.next_seq, overview.quality) == (7, {"unannounced_call": 1, "gap": 1})
    assert overview.counts == {"commands": 1, "tool_calls": 1, "user": 1}
    assert overview.state == ("running" if version == 1 else "parked")


@pytest.mark.parametrize("version", [1, 2])
def test_what_was_read_is_written_as_it_was(version: int) -> None:
    session = snapshot.load(SESSION, golden(version))
    assert said(snapshot.save(session)) == said(golden(version))


def test_a_parked_session_is_nothing_for_a_program_that_would_fold_it_on() -> None:
    session = parked()
    assert said(snapshot.save(session)) == said(golden(2))
    restored = snapshot.load(SESSION, golden(2))
    assert restored.parked == session.parked
    assert (restored.parks, restored.cleared) == (False, -1)


def test_what_was_cleared_is_remembered() -> None:
    session, out = parked(), Out()
    take(session, read_line(b"{"), Mark(41, replay=True, skip=True), out)
    assert session.cleared == 41
    restored = snapshot.load(SESSION, {name: v for name, v in snapshot.save(session).items() if v})
    assert (restored.cleared, restored.parked) == (41, session.parked)
    take(restored, read_line(b"{"), Mark(41, replay=True), again := Out())
    assert again.refused == []
