"""The streams' routes: the same frames over Server-Sent Events and WebSocket (streams.md §4).

``GET /v1/stream?session=…&view=…`` and ``GET /v1/overview/stream`` are one subscription each,
resumed by ``Last-Event-ID`` or ``?cursor=``. ``/v1/ws`` takes messages of `protocol.Message`; what
it sends is ``{"id", "gen", "frames": […]}``, of the connection itself without the first two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from .frames import Bye, Cursor, Problem, to_event, to_json
from .live import Link, Live
from .problems import Problem as HttpProblem
from .problems import bad_request, not_found
from .protocol import Subscribe, Unsubscribe, check, read_message
from .queues import Taken
from .service import Asking, Service

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
REFUSED = 1_008  #: close codes of a WebSocket
GOING_AWAY = 1_001
_KNOWN = ("session", "view", "cursor")

Deliver = Callable[[Taken], Awaitable[None]]


def routes(live: Live, service: Service) -> Sequence[BaseRoute]:
    return (
        Route("/v1/stream", _Events(live, service)),
        Route("/v1/overview/stream", _Events(live, service, overview=True)),
        WebSocketRoute("/v1/ws", _socket(live, service)),
    )


async def serve(live: Live, link: Link, deliver: Deliver) -> None:
    """Send whatever there is for the connection until it ends."""
    client = link.client
    while True:
        taken = client.take()
        if taken is not None:
            await deliver(taken)
        elif client.closed:
            return
        elif (ask := live.hub.ask(client)) is not None:
            await live.look_up(link, ask)
        else:
            link.woken.clear()
            await link.woken.wait()


# --- Server-Sent Events ---------------------------------------------------------------------------


class _Events:
    """An ASGI application, as what is sent is shared bytes and nothing is to be wrapped."""

    def __init__(self, live: Live, service: Service, *, overview: bool = False) -> None:
        self._live = live
        self._service = service
        self._overview = overview

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method != "GET":
            raise bad_request(f"{request.method} is not for a stream")
        asked = self._asked(request)
        link = await self._live.join(Asking(self._service, request.state.principal))
        watching = asyncio.create_task(_gone(receive, link))
        try:
            await self._begin(link, asked)
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})

            async def deliver(taken: Taken) -> None:
                await send({"type": "http.response.body", "body": events(taken), "more_body": True})

            await serve(self._live, link, deliver)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not link.cut:
                raise
        finally:
            watching.cancel()
            self._live.leave(link)

    def _asked(self, request: Request) -> Subscribe:
        query = request.query_params
        known = ("cursor",) if self._overview else _KNOWN
        for name in query:
            if name not in known:
                raise bad_request(f"no parameter {name!r} here; known: {', '.join(known)}")
        cursor = request.headers.get("last-event-id") or query.get("cursor") or None
        view = "overview" if self._overview else query.get("view", "transcript")
        try:
            fields = {"view": view, "sessions": query.getlist("session"), "cursor": cursor}
            asked = msgspec.convert(fields, Subscribe)
        except msgspec.ValidationError as error:
            raise bad_request(str(error)) from None
        if not self._overview and not asked.sessions:
            raise bad_request("say which: ?session=ID, or GET /v1/overview/stream for all")
        problem = check(asked)
        if problem is not None:
            raise bad_request(problem.message)
        return asked

    async def _begin(self, link: Link, asked: Subscribe) -> None:
        """The first answer is made before the response begins, so that a request for nothing that
        there is, or with a cursor that cannot be, is refused as any other."""
        made = self._live.hub.subscribe(link.client, asked, _sees(link))
        assert not isinstance(made, Problem)
        ask = self._live.hub.ask(link.client)
        assert ask is not None
        await self._live.look_up(link, ask)
        first = made.queue[0].frame if made.queue and hasattr(made.queue[0], "frame") else None
        if isinstance(first, Problem):
            if first.code == "future":
                raise bad_request(first.message)
            if first.code == "unknown-session" and len(asked.sessions) == 1:
                raise not_found(first.message)


async def _gone(receive: Receive, link: Link) -> None:
    """Wait for the client to hang up, and end the task that serves it."""
    while (await receive())["type"] != "http.disconnect":
        pass
    link.end()


def events(taken: Taken) -> bytes:
    """What was taken as Server-Sent Events, the cursor as one more."""
    parts = [shared.event for shared in taken.frames]
    if taken.cursor is not None:
        payload = to_json(Cursor(taken.cursor))
        parts.append(to_event("cursor", payload, taken.cursor))
    for shared in taken.frames:
        if isinstance(shared.frame, Bye) and shared.frame.retry_ms is not None:
            parts.insert(0, b"retry: %d\n" % shared.frame.retry_ms)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _sees(link: Link) -> Callable[[str], bool]:
    return link.asking.visible or (lambda _: True)


# --- WebSocket ------------------------------------------------------------------------------------


class _About(Struct):
    id: str
    gen: int


def message(taken: Taken) -> str:
    """What was taken as one message."""
    frames = [shared.payload for shared in taken.frames]
    if taken.cursor is not None:
        frames.append(to_json(Cursor(taken.cursor)))
    of = taken.subscription
    about = b"{" if of is None else msgspec.json.encode(_About(of.id, of.gen))[:-1] + b","
    return b"".join((about, b'"frames":[', b",".join(frames), b"]}")).decode()


def _socket(live: Live, service: Service) -> Callable[[WebSocket], Awaitable[None]]:
    async def endpoint(socket: WebSocket) -> None:
        asking = Asking(service, socket.state.principal)
        try:
            link = await live.join(asking)
        except HttpProblem as problem:
            await socket.close(REFUSED, problem.detail[:120])
            return
        await socket.accept()
        hearing = asyncio.create_task(_hear(live, link, socket))
        try:

            async def deliver(taken: Taken) -> None:
                await socket.send_text(message(taken))

            await serve(live, link, deliver)
            await socket.close(GOING_AWAY)
        except WebSocketDisconnect:
            pass  # it hung up while something was sent
        except asyncio.CancelledError:
            if not link.cut:
                raise
        finally:
            hearing.cancel()
            live.leave(link)

    return endpoint


async def _hear(live: Live, link: Link, socket: WebSocket) -> None:
    """What the client sends, until it hangs up; then the task that serves it is ended."""
    while True:
        received = await socket.receive()
        if received["type"] == "websocket.disconnect":
            break
        text = received.get("text")
        asked = read_message(text if text is not None else received.get("bytes") or b"")
        if isinstance(asked, Subscribe):
            made = live.hub.subscribe(link.client, asked, _sees(link))
            if isinstance(made, Problem):
                link.client.say(made)
        elif isinstance(asked, Unsubscribe):
            live.hub.unsubscribe(link.client, asked.id)
        elif isinstance(asked, Problem):
            link.client.say(asked)
        link.woken.set()
    link.end()
