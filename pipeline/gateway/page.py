"""The web page: static files as they lie in the wheel, and where they are found.

The page itself holds nothing of any session, so it is served to whoever is there; what it shows it
asks for like every other client.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"


class _Files(StaticFiles):
    """Browsers ask each time whether a file changed: a page never runs beside older scripts."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


def routes() -> Sequence[BaseRoute]:
    return (Route("/", _index), Mount("/static", _Files(directory=STATIC)))
