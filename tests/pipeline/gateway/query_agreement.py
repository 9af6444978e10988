"""Whether the endpoints answer a log's questions as its file does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from operators.readers.references import BUDGET, Subject, mention, reference
from pipeline.gateway.jsonout import safe
from pipeline.readers import query
from pipeline.readers.asked import Asked, everything
from tests.pipeline.gateway.asking import Client


def differences(client: Client, session: str, lines: Sequence[bytes]) -> list[str]:
    """The questions whose answers differ."""
    log = Asked(everything, keep_lines=True, messages=True)
    log.session.session = session
    log.take_all(log.seen(enumerate(lines, 1)), [])
    log.session.session = session
    base = f"/v1/sessions/{quote(session, safe='')}"
    return [
        f"{path}: {told!r:.300} is not {right!r:.300}"
        for path, told, right in _answers(client, base, log)
        if told != right
    ]


def _plain(found: Any) -> Any:
    return json.loads(safe(msgspec.json.encode(found)))


def _safe(message: Raw | None) -> Raw | None:
    return None if message is None else Raw(safe(bytes(message)))


def _answers(client: Client, base: str, log: Asked) -> Iterator[tuple[str, Any, Any]]:
    """Path, what it answers, what the log says."""
    for text in ({}, {"surface": ["shadowed"]}, {"surface": ["current", "log-only"]}):
        given: dict[str, list[str]] = {"type": ["user/message", "tool/result", "tool/call"], **text}
        path = f"{base}/query/search?limit=500" + "".join(
            f"&{name}={quote(value)}" for name, values in given.items() for value in values
        )
        yield path, client.json(path)["hits"], _plain(list(query.search(log, given, 500)))
    end = log.session.next_seq
    for at in sorted({0, end // 3, end - 1} & set(range(end))):
        path = f"{base}/query/window?at={at}&around=4"
        yield path, client.json(path)["events"], _plain(list(query.window(log, at, 4)))
    replacements = [each.seq for each in log.surface_view.replacements]
    for at in [*log.surface_view.nodes[:2], *log.surface_view.shadowed[:3], *replacements[:2]]:
        path = f"{base}/query/trace?at={at}"
        yield path, client.json(path), _plain(query.trace(log, at))
    path = f"{base}/query/contexts"
    yield path, client.json(path)["contexts"], _plain(query.contexts(log))
    path = f"{base}/query/cuts"
    right = {**_plain(query.surface_cuts(log)), "seqs": log.surface_view.nodes}
    yield path, client.json(path), right
    yield from _references(client, base, log)


def _references(client: Client, base: str, log: Asked) -> Iterator[tuple[str, Any, Any]]:
    """Of what leaves: a half of a surrogate pair is U+FFFD there (streams.md §4)."""
    told, session = log.session.overview(), log.session.session or ""
    view = log.surface_view
    nodes = [(view.types[seq], _safe(view.message(seq))) for seq in view.nodes]
    label = told.title or session
    through = log.session.next_seq - 1 if log.session.next_seq else None
    for most in (BUDGET, 1_024, 60):
        path = f"{base}/reference?max_bytes={most}"
        made = reference(nodes, Subject(session, label, told.cwd, through), most)
        right = made and {"bytes": made.bytes, "data": json.loads(made.data)}
        answer = client.json(path)
        found = answer["reference"]
        if found is not None:
            del found["stats"]
        yield path, found, right
        yield path, answer["mention"], mention(session, label)
