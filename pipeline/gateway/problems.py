"""Errors as they leave: problem documents (RFC 9457), never a bare 500 for what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

MEDIA = "application/problem+json"


class Problem(Exception):  # noqa: N818 - named by what leaves
    """``detail``: what is wrong, where, and what would do."""

    def __init__(
        self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> Response:
        return Response(document(self.status, self.detail), self.status, self.headers, MEDIA)


def document(status: HTTPStatus, detail: str) -> bytes:
    shown = detail.encode("utf-8", "replace").decode()
    return msgspec.json.encode(
        {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": shown}
    )


def bad_request(detail: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, detail)


def not_found(detail: str) -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, detail)


def away(detail: str) -> Problem:
    """What is asked cannot be answered at the moment."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": "1"})
