"""What a client makes of refusals: what passes is waited for, what does not is raised."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from pipeline.gateway.client import REQUEST_S, SILENCE_S, Client, ClientError


@pytest.mark.parametrize("passing", [429, 500, 502, 503, 504])
def test_it_comes_again_after_what_passes(monkeypatch: pytest.MonkeyPatch, passing: int) -> None:
    monkeypatch.setattr("pipeline.gateway.client.RETRY_FIRST_S", 0.0)
    answers = [passing, passing, 403]
    asked = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(answers[asked - 1], json={"detail": "no"})

    async def work() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        async with Client("http://gateway", ["s"], http=http) as client:
            with pytest.raises(ClientError, match="403: no"):
                async for _ in client:
                    pass

    asyncio.run(work())
    assert asked == 3


@pytest.mark.parametrize(("status", "raises"), [(404, False), (502, False), (403, True)])
def test_a_row_that_cannot_be_had_now_stays_wanted(status: int, *, raises: bool) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json={"detail": "no"})

    async def work() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        async with Client("http://gateway", ["s"], http=http) as client:
            client.store.session("s").wanted["assistant:1"] = 4
            if raises:
                with pytest.raises(ClientError):
                    await client.fetch()
            else:
                assert await client.fetch() == []
            assert client.store.session("s").wanted == {"assistant:1": 4}

    asyncio.run(work())


def test_a_row_is_not_waited_for_as_long_as_a_stream() -> None:
    """A stream may be silent between pings; a request that is cannot be told from a dead one."""
    waits: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        waits.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("nothing came")

    async def work() -> None:
        http = httpx.AsyncClient(
            transport=httpx.MockTransport(answer), timeout=httpx.Timeout(10, read=SILENCE_S)
        )
        async with Client("http://gateway", ["s"], http=http) as client:
            client.store.session("s").wanted["assistant:1"] = 4
            with pytest.raises(httpx.ReadTimeout):
                await client.fetch()

    asyncio.run(work())
    assert waits == [REQUEST_S]
