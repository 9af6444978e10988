"""The page's files: found, typed, served before anybody has logged in, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from pipeline.gateway import page
from pipeline.gateway.security import OPEN, OPEN_BELOW


def get(path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=page.routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get(path, headers=headers)

    return anyio.run(ask)


def test_the_page_stands_at_the_root() -> None:
    answer = get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-cache"
    assert "/static/js/main.js" in answer.text


@pytest.mark.parametrize(
    ("path", "kind"),
    [("js/main.js", "javascript"), ("css/page.css", "text/css"), ("icon.svg", "image/svg")],
)
def test_files_say_what_they_are(path: str, kind: str) -> None:
    answer = get(f"/static/{path}")
    assert kind in answer.headers["content-type"]
    assert answer.headers["cache-control"] == "no-cache"
    again = get(f"/static/{path}", **{"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("path", ["../page.py", "%2e%2e/page.py", "js", "js/none.js"])
def test_nothing_else_is_served(path: str) -> None:
    assert get(f"/static/{path}").status_code == 404


def test_whatever_the_page_names_is_there_and_open_to_all() -> None:
    assert "/" in OPEN
    for each in page.STATIC.rglob("*"):
        assert f"/static/{each.relative_to(page.STATIC)}".startswith(OPEN_BELOW)
    text = (page.STATIC / "index.html").read_text("utf-8")
    named = [part.split('"')[0] for part in text.split('="/static/')[1:]]
    assert named
    assert [name for name in named if not (page.STATIC / Path(name)).is_file()] == []
