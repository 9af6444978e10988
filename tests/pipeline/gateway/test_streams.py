"""The streams of a gateway that serves: a real server, real sockets, topics in memory."""

from __future__ import annotations

import asyncio
import json
import queue
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from httpx_sse import EventSource, ServerSentEvent
from websockets.asyncio.client import connect

from pipeline.gateway import sessions
from pipeline.gateway.app import application
from pipeline.gateway.client import Client, ClientError
from pipeline.gateway.client_rx import Changed, observed
from pipeline.gateway.cursor import Position, to_text
from pipeline.gateway.hub import Limits
from pipeline.gateway.live import Live, Pace, cursor_of
from pipeline.gateway.security import rules_for
from pipeline.gateway.service import Service
from pipeline.gateway.streams import routes
from pipeline.health import Address
from pipeline.simulate import SimulatedSession, simulate
from pipeline.simulate.session import session_id
from tests.pipeline.gateway.stage import Stage
from tests.pipeline.world import interleaved

QUICK = Pace(flush_s=0.01, tick_s=0.02, ping_s=0.05)
WAIT_S = 30.0  #: for what comes at once on a machine that has time


class Serving(Stage):
    """A stage whose read model is served, and told of all that is read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url_of_gateway = ""
        self.lines: list[tuple[str, bytes]] = []

    def begin(self, *sessions: SimulatedSession, share: float = 1.0) -> None:
        lines = interleaved(sessions)
        cut = int(len(lines) * share)
        self.lines = lines[cut:]
        self.play_lines(lines[:cut])

    def play_lines(self, lines: list[tuple[str, bytes]]) -> None:
        self.feed(lines)
        self.run(batch=20)
        self.read_on()

    def go_on(self, count: int = 1_000_000) -> None:
        now, self.lines = self.lines[:count], self.lines[count:]
        self.play_lines(now)

    @contextmanager
    def serving(self, pace: Pace = QUICK) -> Iterator[Live]:
        live = Live(pace)
        self.feeding._listener = live.heard
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        rules = rules_for(Address("127.0.0.1", port), port)
        service = Service(self.store, self.feeding, rules, "1", cursor=cursor_of)
        app = application(service, routes(live, service))
        config = uvicorn.Config(
            app,
            log_config=None,
            lifespan="off",
            timeout_graceful_shutdown=2,
            ws="websockets-sansio",
        )
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        thread = threading.Thread(target=_run, args=(server, listening), daemon=True)
        thread.start()
        self.url_of_gateway = f"http://127.0.0.1:{port}"
        try:
            yield live
        finally:
            live.end()
            server.should_exit = True
            thread.join(WAIT_S)
            listening.close()

    def store_overview(self, session: str) -> dict[str, Any]:
        """As published."""
        with self.store.read() as connection:
            held = sessions.find(connection, session)
        assert held is not None
        assert held.overview is not None
        found: dict[str, Any] = json.loads(held.overview)
        return found

    def page(self, session: str) -> list[Any]:
        """The whole transcript, as a reload shows it."""
        path = f"/v1/sessions/{session}/transcript?max_messages=1000&max_bytes=16777216"
        rows: list[Any] = httpx.get(self.url_of_gateway + path, timeout=WAIT_S).json()["rows"]
        return rows


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    asyncio.run(server.serve([listening]))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Serving]:
    stage = Serving(tmp_path)
    yield stage
    stage.store.close()


ONE, TWO = session_id(3), session_id(5)


def one() -> SimulatedSession:
    return simulate(3, events=120, shape="v0")


def two() -> SimulatedSession:
    return simulate(5, events=120)


class Watched(Client):
    """Says when it was told something."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.told = asyncio.Event()

    def _take(self, event: ServerSentEvent) -> str | None:
        changed = super()._take(event)
        self.told.set()
        return changed


async def until(client: Watched, is_so: Callable[[], bool]) -> None:
    """Read the stream until it is so."""

    async def reading() -> None:
        async for _ in client:
            client.told.set()

    async def looking() -> None:
        while not is_so():
            client.told.clear()
            await client.told.wait()

    tasks = [asyncio.create_task(reading()), asyncio.create_task(looking())]
    done, waiting = await asyncio.wait(tasks, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert done, "it does not become so"
    done.pop().result()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


async def everything(client: Client, name: str) -> list[Any]:
    while await client.older(name):
        pass
    return list(client.store.session(name).rows)


def test_live_equals_reloaded(gateway: Serving) -> None:
    gateway.begin(one(), share=0.5)
    with gateway.serving():

        async def work() -> None:
            async with Watched(gateway.url_of_gateway, [ONE]) as client:
                held = client.store.session(ONE)
                await until(client, lambda: client.store.cursor is not None)
                while gateway.lines:
                    await asyncio.to_thread(gateway.go_on, 7)
                overview = gateway.store_overview(ONE)
                await until(client, lambda: held.overview == overview and not held.wanted)
                assert await everything(client, ONE) == gateway.page(ONE)

        run(work)


def test_a_client_goes_on_from_its_cursor(gateway: Serving) -> None:
    gateway.begin(one(), share=0.5)
    with gateway.serving():

        async def work() -> None:
            async with Watched(gateway.url_of_gateway, [ONE]) as first:
                await until(first, lambda: first.store.cursor is not None)
                cursor = first.store.cursor
            await asyncio.to_thread(gateway.go_on, 5)
            told = await frames(gateway, f"session={ONE}", cursor, "cursor")
            kinds = [frame["t"] for frame in told]
            assert kinds[:2] == ["hello", "replay"]
            assert told[1]["frames"] == len(kinds) - 3
            async with asyncio.timeout(WAIT_S):
                while told[1]["t"] != "current":  # the hub hears of a commit after the store
                    told = await frames(gateway, f"session={ONE}", told[-1]["cursor"], "cursor")
            assert [frame["t"] for frame in told] == ["hello", "current", "cursor"]

        run(work)


async def frames(
    gateway: Serving, query: str, cursor: str | None, last: str, path: str = "/v1/stream"
) -> list[Any]:
    """What a stream tells up to a frame of the kind ``last``."""
    found = []
    headers = {} if cursor is None else {"Last-Event-ID": cursor}
    url = f"{gateway.url_of_gateway}{path}?{query}"
    async with (
        httpx.AsyncClient(timeout=WAIT_S) as http,
        http.stream("GET", url, headers=headers) as answer,
    ):
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in answer.headers
        async for event in EventSource(answer).aiter_sse():
            found.append(json.loads(event.data))
            if found[-1]["t"] == last:
                return found
    return found


def test_a_page_and_its_cursor_are_one_cut(gateway: Serving) -> None:
    gateway.begin(one(), share=0.5)
    with gateway.serving():
        page = httpx.get(f"{gateway.url_of_gateway}/v1/sessions/{ONE}/transcript").json()

        async def work() -> None:
            told = await frames(gateway, f"session={ONE}&cursor={page['cursor']}", None, "current")
            assert told[-1]["t"] == "current"

        run(work)


def test_pings_come_and_a_connection_that_is_old_ends_resumably(gateway: Serving) -> None:
    gateway.begin(one())
    with gateway.serving(Pace(flush_s=0.01, tick_s=0.02, ping_s=0.05, max_age_s=0.5)):

        async def work() -> None:
            told = await frames(gateway, f"session={ONE}", None, "bye")
            kinds = [frame["t"] for frame in told]
            assert "ping" in kinds
            assert told[-1] == {"t": "bye", "code": "max-age", "retry_ms": 250}

        run(work)


def test_all_sessions_are_told_by_their_overviews(gateway: Serving) -> None:
    gateway.begin(one(), two(), share=0.5)
    with gateway.serving():

        async def work() -> None:
            async with Watched(gateway.url_of_gateway, view="overview") as client:
                await until(client, lambda: client.store.cursor is not None)
                await asyncio.to_thread(gateway.go_on)
                wanted = {name: gateway.store_overview(name)["seq"] for name in (ONE, TWO)}

                def there() -> bool:
                    held = client.store.sessions
                    overviews = {n: held[n].overview for n in wanted if n in held}
                    return {n: o["seq"] for n, o in overviews.items() if o} == wanted

                await until(client, there)

        run(work)


def test_the_surface_is_told_step_by_step(gateway: Serving) -> None:
    gateway.begin(one(), share=0.5)
    with gateway.serving():

        async def work() -> None:
            async with Watched(gateway.url_of_gateway, [ONE], "surface") as client:
                held = client.store.session(ONE)
                await until(client, lambda: client.store.cursor is not None)
                while gateway.lines:
                    await asyncio.to_thread(gateway.go_on, 7)
                overview = gateway.store_overview(ONE)
                await until(client, lambda: held.overview == overview)
                path = f"{gateway.url_of_gateway}/v1/sessions/{ONE}/surface"
                now = (await asyncio.to_thread(httpx.get, path, timeout=WAIT_S)).json()
                assert held.surface is not None
                seqs = [node["seq"] for node in held.surface["nodes"]]
                assert seqs == [node["seq"] for node in now["nodes"]]
                assert held.surface["generation"] == now["generation"]

        run(work)


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/v1/stream", 400, "session"),
        ("/v1/stream?session=nobody", 404, "no such session"),
        (f"/v1/stream?session={ONE}&view=all", 400, "view"),
        (f"/v1/stream?session={ONE}&cursor=nonsense", 400, "cursor"),
        (f"/v1/stream?session={ONE}&color=red", 400, "color"),
        (f"/v1/overview/stream?session={ONE}", 400, "session"),
    ],
)
def test_what_cannot_be_streamed_is_refused(
    gateway: Serving, path: str, status: int, word: str
) -> None:
    gateway.begin(one())
    with gateway.serving():
        answer = httpx.get(gateway.url_of_gateway + path, timeout=WAIT_S)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert word in answer.json()["detail"]


def test_a_cursor_from_the_future_is_refused(gateway: Serving) -> None:
    gateway.begin(one())
    with gateway.serving():
        name = gateway.feeding.board.now.log
        offsets = {("transcript", p): 10**9 for p in range(3)} | {("overview", 0): 0}
        cursor = to_text(Position(name, offsets, {ONE: 0}))

        async def work() -> None:
            async with Watched(gateway.url_of_gateway, [ONE], cursor=cursor) as client:
                with pytest.raises(ClientError, match="future"):
                    await until(client, lambda: False)

        run(work)


def test_a_principal_has_so_many_streams_at_once(gateway: Serving) -> None:
    gateway.begin(one())
    with gateway.serving(Pace(flush_s=0.01, tick_s=0.02, ping_s=0.05, connections=1)) as live:

        async def work() -> None:
            url = f"{gateway.url_of_gateway}/v1/stream?session={ONE}"
            async with (
                httpx.AsyncClient(timeout=WAIT_S) as http,
                http.stream("GET", url) as first,
            ):
                assert first.status_code == 200
                second = await http.get(url)
                assert second.status_code == 429
                assert second.headers["retry-after"] == "5"

        run(work)
        assert len(live._links) <= 1


def test_subscriptions_come_and_go_over_a_websocket(gateway: Serving) -> None:
    gateway.begin(one(), two(), share=0.5)
    with gateway.serving():

        async def work() -> None:
            url = gateway.url_of_gateway.replace("http", "ws") + "/v1/ws"
            async with connect(url) as socket:
                hello = json.loads(await socket.recv())
                assert hello["frames"][0]["t"] == "hello"
                asked = {"op": "subscribe", "id": "a", "gen": 1, "sessions": [ONE]}
                await socket.send(json.dumps(asked))
                first = await next_of(socket, "snapshot")
                assert (first["id"], first["gen"]) == ("a", 1)
                await socket.send(json.dumps({**asked, "gen": 2, "sessions": [TWO]}))
                second = await next_of(socket, "snapshot")
                assert second["gen"] == 2
                assert second["frames"][0]["session"] == TWO
                await socket.send("nonsense")
                assert (await next_of(socket, "problem"))["frames"][0]["code"] == "message"
                await socket.send(json.dumps({"op": "unsubscribe", "id": "a"}))
                await next_of(socket, "ping")

        run(work)


async def next_of(socket: Any, kind: str) -> Any:
    async with asyncio.timeout(WAIT_S):
        while True:
            message = json.loads(await socket.recv())
            if any(frame["t"] == kind for frame in message["frames"]):
                return message


def test_a_websocket_from_another_site_is_refused(gateway: Serving) -> None:
    from websockets.exceptions import InvalidStatus

    gateway.begin(one())
    with gateway.serving():

        async def work() -> None:
            url = gateway.url_of_gateway.replace("http", "ws") + "/v1/ws"
            with pytest.raises(InvalidStatus):
                await connect(url, origin="http://evil.example")  # type: ignore[arg-type]

        run(work)


def test_corpus_43_a_client_that_does_not_read_gets_a_resync_and_others_all(
    gateway: Serving,
) -> None:
    gateway.begin(one(), share=0.3)
    pace = Pace(flush_s=0.0, tick_s=0.02, ping_s=5.0, limits=Limits(frames=8))
    with gateway.serving(pace) as live:

        async def work() -> None:
            url = f"{gateway.url_of_gateway}/v1/stream?session={ONE}"
            async with (
                httpx.AsyncClient(timeout=WAIT_S) as http,
                http.stream("GET", url),  # and nothing is read of it
                Watched(gateway.url_of_gateway, [ONE]) as client,
            ):
                held = client.store.session(ONE)
                await until(client, lambda: client.store.cursor is not None)
                while gateway.lines:
                    await asyncio.to_thread(gateway.go_on, 3)
                overview = gateway.store_overview(ONE)
                await until(client, lambda: held.overview == overview and not held.wanted)
                assert await everything(client, ONE) == gateway.page(ONE)
                assert all(each.frames <= 8 for each in live.hub.clients)

        run(work)


def test_an_observable_gives_each_change_and_says_what_is_refused(gateway: Serving) -> None:
    gateway.begin(one())
    with gateway.serving():
        seen: queue.Queue[Changed] = queue.Queue()
        watching = observed(gateway.url_of_gateway, [ONE]).subscribe(seen.put)
        first = seen.get(timeout=WAIT_S)
        watching.dispose()
        assert first.session == ONE
        assert first.held.rows
        errors: queue.Queue[Exception] = queue.Queue()
        observed(gateway.url_of_gateway, ["nobody"]).subscribe(on_error=errors.put)
        error = errors.get(timeout=WAIT_S)
        assert isinstance(error, ClientError)
        assert error.status == 404


def broken(*_: object, **__: object) -> Any:
    raise KeyError("nothing")


def test_a_fault_of_ours_ends_the_streams_and_they_begin_again(
    gateway: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.begin(one(), share=0.5)
    with gateway.serving() as live:

        async def work() -> None:
            async with Watched(gateway.url_of_gateway, [ONE]) as client:
                held = client.store.session(ONE)
                await until(client, lambda: client.store.cursor is not None)
                before = live.hub
                before.flush = broken  # type: ignore[method-assign]
                await asyncio.to_thread(gateway.go_on)
                overview = gateway.store_overview(ONE)
                await until(client, lambda: held.overview == overview and not held.wanted)
                assert live.hub is not before
                assert await everything(client, ONE) == gateway.page(ONE)

        run(work)
    assert "the streams ended by a fault of the service" in caplog.text


def test_sockets_that_are_half_open_hold_nobody_up(gateway: Serving) -> None:
    """Half a request, no request, a stream whose client says no more, one that reads nothing."""
    gateway.begin(one(), share=0.5)
    begun = f"GET /v1/stream?session={ONE} HTTP/1.1\r\nHost: {{}}\r\n"
    with gateway.serving(), ExitStack() as ends:
        host = gateway.url_of_gateway.removeprefix("http://")
        port = int(host.rpartition(":")[2])

        def opened(sent: str) -> socket.socket:
            made = ends.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
            made.sendall(sent.format(host).encode())
            return made

        for _ in range(20):
            opened("")
            opened(begun)
            opened(begun + "\r\n")
            opened(begun + "\r\n").shutdown(socket.SHUT_WR)

        async def work() -> None:
            async with Watched(gateway.url_of_gateway, [ONE]) as client:
                held = client.store.session(ONE)
                await until(client, lambda: client.store.cursor is not None)
                await asyncio.to_thread(gateway.go_on)
                overview = gateway.store_overview(ONE)
                await until(client, lambda: held.overview == overview and not held.wanted)
                assert await everything(client, ONE) == gateway.page(ONE)

        run(work)


def test_a_cursor_of_another_epoch_gets_everything_anew(gateway: Serving) -> None:
    gateway.begin(one())
    with gateway.serving():

        async def work() -> None:
            told = await frames(gateway, f"session={ONE}", None, "cursor")
            gateway.feed(((ONE, line) for line in two().lines[1:]), epoch=1)
            await asyncio.to_thread(gateway.play_lines, [])
            again = await frames(gateway, f"session={ONE}", told[-1]["cursor"], "cursor")
            assert (again[1]["t"], again[1]["reason"]) == ("snapshot", "epoch")
            assert again[1]["epoch"] == 1

        run(work)
