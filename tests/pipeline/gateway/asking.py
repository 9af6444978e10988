"""Asks an application in process, as a client would."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio
import httpx

from operators.readers.money import Card
from pipeline.gateway.app import application
from pipeline.gateway.changes import Offsets
from pipeline.gateway.security import Authorise, Rules, Token, rules_for
from pipeline.gateway.service import Service
from pipeline.health import Address
from tests.pipeline.gateway.stage import Stage

NOW = 1_900_000_000_000
HERE = "127.0.0.1:8080"


def rules(tokens: Sequence[Token] = (), authorise: Authorise | None = None) -> Rules:
    return rules_for(Address("127.0.0.1", 8080), 8080, tuple(tokens), authorise=authorise)


def cursor(log: str, offsets: Offsets, epochs: Mapping[str, int]) -> str:
    """One that a test can read."""
    places = {f"{role}-{partition}": offset for (role, partition), offset in offsets.items()}
    return json.dumps([log, places, dict(epochs)])


def lines_of(session: str, records: Iterable[Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """A log's lines as they are fed."""
    return [(session, json.dumps(record).encode()) for record in records]


def bearer(token: Token) -> dict[str, Any]:
    """Options of a request with that token."""
    return {"headers": {"Authorization": f"Bearer {token.token}"}}


class Client:
    """``get`` and ``send`` answer when the application did."""

    def __init__(
        self, stage: Stage, with_rules: Rules | None = None, card: Card | None = None
    ) -> None:
        self.service = Service(
            stage.store, stage.feeding, with_rules or rules(), "1", lambda: NOW, cursor, card=card
        )
        self.app = application(self.service)

    def send(self, method: str, url: str, **options: Any) -> httpx.Response:
        client_at = options.pop("client", ("127.0.0.1", 5))

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=client_at)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HERE}") as client:
                return await client.request(method, url, **options)

        return anyio.run(ask)

    def get(self, url: str, **options: Any) -> httpx.Response:
        return self.send("GET", url, **options)

    def json(self, url: str, **options: Any) -> Any:
        answer = self.get(url, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()
