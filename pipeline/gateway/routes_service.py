"""For supervisors and for logging in: health, readiness, metrics, the cookie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from anyio import to_thread
from msgspec import Struct
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .metrics import registry
from .operations import JSON, Answer, Operation
from .problems import Problem, bad_request
from .routes_sessions import NoParameters
from .security import known, set_cookie
from .service import Asking, Service

MOST_LOGIN = 4_096  #: bytes of a login


class Health(Struct, frozen=True):
    """``why`` it is not so, empty when it is."""

    ok: bool
    why: list[str]


def healthz(_: Asking, __: NoParameters) -> Answer:
    return Answer(msgspec.json.encode(Health(True, [])))


def ready(service: Service) -> Health:
    """Whether everything that was there at the start is served, and is still followed."""
    status = service.status
    if status.state == "live":
        return Health(True, [])
    said = {
        "starting": f"nothing can be served yet: {status.why or 'the read model is being opened'}",
        "catching-up": f"{status.done} of {status.total} offsets are read",
        "stale": f"stale since {status.stale_since}: {status.why}",
    }
    return Health(False, [said.get(status.state, status.state)])


OPERATIONS = (
    Operation(
        "/healthz",
        "healthz",
        "The process answers",
        NoParameters,
        {JSON: Health},
        healthz,
    ),
)


def routes(service: Service) -> Sequence[BaseRoute]:
    return (
        Route("/readyz", _readyz(service)),
        Route("/metrics", _metrics(service)),
        Route("/v1/login", _login(service), methods=["POST"]),
    )


def _readyz(service: Service) -> Callable[[Request], Any]:
    async def readyz(_: Request) -> Response:
        health = ready(service)
        status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(msgspec.json.encode(health), status, {"Cache-Control": "no-store"}, JSON)

    return readyz


def _metrics(service: Service) -> Callable[[Request], Any]:
    async def metrics(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        body = await to_thread.run_sync(encode, registry(service))
        return Response(body, headers={"Content-Type": kind, "Cache-Control": "no-store"})

    return metrics


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    token: str


def _login(service: Service) -> Callable[[Request], Any]:
    async def login(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a login is {JSON}")
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_LOGIN:
                raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a login is smaller")
        try:
            asked = msgspec.json.decode(body, type=Login)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise bad_request('a login is {"token": "…"}') from None
        if known(asked.token, service.rules.tokens) is None:
            raise Problem(HTTPStatus.UNAUTHORIZED, "that token is none of this service's")
        cookie = set_cookie(asked.token, secure=request.url.scheme == "https")
        return Response(status_code=HTTPStatus.NO_CONTENT, headers={"Set-Cookie": cookie})

    return login
