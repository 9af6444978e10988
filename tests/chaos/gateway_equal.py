"""The proof of a gateway's round: what each client holds, and a new one is told, is a fold of the
lines as they were fed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import httpx
import msgspec
from msgspec import Struct

from operators.events import Event
from operators.session import fold
from pipeline.gateway.bodies import paged
from pipeline.gateway.client import Client
from pipeline.gateway.jsonout import safe
from schemas.inbound import read_line

from .viewers import Viewer, rows_of

Json = dict[str, Any]


class Expected(Struct, frozen=True):
    """Of one session; ``surface``: its nodes' seqs."""

    rows: list[Any]
    overview: Json
    surface: list[int]


def expected(fed: Mapping[str, Sequence[bytes]]) -> dict[str, Expected]:
    return {session: _folded(session, lines) for session, lines in fed.items()}


def _folded(session: str, lines: Sequence[bytes]) -> Expected:
    folded = fold(map(read_line, lines), session)
    rows = [json.loads(paged(row).body) for row in folded.rows]
    overview = json.loads(safe(msgspec.json.encode(folded.overview)))
    return Expected(rows, overview, [node.seq for node in folded.session.surface.nodes()])


def targets(fed: Mapping[str, Sequence[bytes]]) -> dict[str, int]:
    """Per session the seq after its last line so far."""
    found = {}
    for session, lines in fed.items():
        for line in reversed(list(lines)):
            event = read_line(line)
            if isinstance(event, Event):
                found[session] = event.seq + event.count
                break
    return found


async def differences(
    viewers: Sequence[Viewer], url: str, wanted: Mapping[str, Expected]
) -> list[str]:
    """Who holds something else than there is, and what; a new client, of each session, too."""
    found, surfaces = [], {}
    async with httpx.AsyncClient(timeout=60) as http:
        for session, one in wanted.items():
            path = f"{url}/v1/sessions/{session}"
            answer = await http.get(f"{path}/surface")
            surfaces[session] = answer.json() if answer.status_code == 200 else {"nodes": []}
            found += _compared("the service", session, "surface", _seqs(surfaces[session]), one)
    for session, one in wanted.items():
        held = await _new(url, session)
        found += _compared("a new client", session, "rows", held, one)
    for viewer in viewers:
        for session in viewer.sessions or wanted:
            found += await _of(viewer, session, wanted[session], surfaces[session])
    return found


async def _new(url: str, session: str) -> list[Any]:
    """What a client is told that comes only now."""
    async with Client(url, [session]) as client, asyncio.timeout(60):
        async with aclosing(cast("AsyncGenerator[str, None]", aiter(client))) as told:
            async for _ in told:
                if not client.store.session(session).wanted:
                    break
        return await rows_of(client, session)


async def _of(viewer: Viewer, session: str, wanted: Expected, surface: Json) -> list[str]:
    held = viewer.client.store.session(session)
    found = _compared(viewer.name, session, "overview", held.overview, wanted)
    if viewer.view == "transcript":
        rows = await rows_of(viewer.client, session)
        found += _compared(viewer.name, session, "rows", rows, wanted)
    if viewer.view == "surface":
        found += _compared(viewer.name, session, "surface", _seqs(held.surface), wanted)
        if (held.surface or {}).get("generation") != surface["generation"]:
            found.append(f"{viewer.name}: {session}: generation of the surface")
    return found


def _seqs(surface: Json | None) -> list[int] | None:
    return None if surface is None else [node["seq"] for node in surface["nodes"]]


def _compared(who: str, session: str, what: str, held: Any, wanted: Expected) -> list[str]:
    should = getattr(wanted, what)
    if held == should:
        return []
    return [f"{who}: {session}: {what}: {_first(held, should)}"]


def _first(held: Any, should: Any) -> str:
    """The first difference, for a person."""
    if not isinstance(held, list) or not isinstance(should, list):
        return f"{str(held)[:300]} is to be {str(should)[:300]}"
    for at, (one, other) in enumerate(zip(held, should, strict=False)):
        if one != other:
            return f"at {at}: {str(one)[:300]} is to be {str(other)[:300]}"
    return f"{len(held)} are to be {len(should)}"
