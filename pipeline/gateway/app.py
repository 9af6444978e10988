"""The HTTP application: operations as routes, errors as problem documents, the guard before all.

Operations are plain functions over the database; each runs on a thread, so that none keeps the
event loop from the streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from . import (
    openapi,
    routes_events,
    routes_export,
    routes_families,
    routes_queries,
    routes_references,
    routes_rows,
    routes_search,
    routes_service,
    routes_sessions,
    routes_surface,
    routes_transcript,
)
from .operations import JSON, Answer, Operation, read_parameters
from .problems import Problem, bad_request, document
from .security import Guard
from .service import Asking, Service

OPERATIONS: tuple[Operation, ...] = (
    *routes_sessions.OPERATIONS,
    *routes_transcript.OPERATIONS,
    *routes_events.OPERATIONS,
    *routes_rows.OPERATIONS,
    *routes_surface.OPERATIONS,
    *routes_queries.OPERATIONS,
    *routes_references.OPERATIONS,
    *routes_families.OPERATIONS,
    *routes_search.OPERATIONS,
    *routes_export.OPERATIONS,
    *routes_service.OPERATIONS,
)


def application(service: Service, more: Sequence[BaseRoute] = ()) -> Starlette:
    """``more``: routes of the live streams and of the page."""
    description = msgspec.json.encode(openapi.document(OPERATIONS, service.version))

    async def described(_: Request) -> Response:
        return Response(description, media_type=JSON)

    routes: list[BaseRoute] = [
        *more,
        *(Route(each.path, _endpoint(service, each)) for each in OPERATIONS),
        Route("/v1/openapi.json", described),
        *routes_service.routes(service),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, rules=service.rules), Middleware(RawPaths)],
        exception_handlers={Problem: _problem, HTTPException: _refused, 500: _bug},
    )


class RawPaths:
    """Routes see the path as it was sent, so that an encoded slash stays part of its segment."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (raw := scope.get("raw_path")):
            scope = {**scope, "path": raw.decode("ascii", "replace")}
        await self._app(scope, receive, send)


def _endpoint(service: Service, operation: Operation) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        in_path = {name: _decoded(value) for name, value in request.path_params.items()}
        asked = read_parameters(operation, in_path, request.query_params)
        asking = Asking(service, request.state.principal)
        answer = await to_thread.run_sync(partial(operation.handle, asking, asked))
        return _response(answer, request)

    return endpoint


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise bad_request(f"{segment!r} in the path is no UTF-8") from None


def _response(answer: Answer, request: Request) -> Response:
    headers = dict(answer.headers)
    if answer.stream is not None:
        return StreamingResponse(
            _unbroken(answer.stream), HTTPStatus.OK, headers, media_type=answer.media
        )
    headers["Cache-Control"] = "private, no-cache" if answer.history else "no-store"
    if answer.history:
        headers["ETag"] = answer.etag
        if not {answer.etag, "*"}.isdisjoint(_etags(request)):
            return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    return Response(answer.body, HTTPStatus.OK, headers, answer.media)


def _unbroken(stream: Iterator[bytes]) -> Iterator[bytes]:
    yield from stream


def _etags(request: Request) -> list[str]:
    given = ",".join(request.headers.getlist("if-none-match"))
    return [each.strip().removeprefix("W/") for each in given.split(",")]


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _refused(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: no such path, another method."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = {
        HTTPStatus.NOT_FOUND: "there is no such path: GET /v1/openapi.json tells those there are",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.method} is not for this path",
    }.get(status, error.detail)
    headers = dict(error.headers or {})
    return Response(document(status, detail), status, headers, "application/problem+json")


async def _bug(_: Request, error: Exception) -> Response:
    """A fault of ours: it is logged with its trace by the server, and shown without."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    detail = f"a fault of the service ({type(error).__name__}); its log says more"
    return Response(document(status, detail), status, media_type="application/problem+json")
