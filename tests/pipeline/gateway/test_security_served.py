"""The fences of a gateway that serves: its own server, real sockets, raw requests.

What a browser, a proxy or `curl` can send goes over the wire here; `test_security.py` asks the
application itself.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from httpx_sse import aconnect_sse
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from operators.readers.references import mention
from pipeline.gateway.app import OPERATIONS
from pipeline.gateway.live import Live, Pace
from pipeline.gateway.running import Settings, serving, streaming
from pipeline.gateway.security import Authorise, Token
from pipeline.health import Address
from pipeline.simulate import fleet
from tests.operators.build import numbered
from tests.operators.records import call, checkpoint, result, say, user
from tests.pipeline.gateway.asking import lines_of
from tests.pipeline.gateway.stage import Stage

WAIT_S = 30.0
ALL = Token("all", "a" * 32)
ONE = Token("one", "b" * 32, sessions=("sim-*2", "kid"), raw=False)
MINE, HIDDEN = "sim-00000002", "sim-00000003"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b]0;own\x07\u202e"


class Served:
    def __init__(self, url: str) -> None:
        self.url = url
        self.host = urlsplit(url).netloc

    def get(self, path: str, token: Token | None = None, **headers: str) -> httpx.Response:
        if token is not None:
            headers["Authorization"] = f"Bearer {token.token}"
        return httpx.get(self.url + path, headers=headers, timeout=WAIT_S)

    def json(self, path: str, token: Token | None = None) -> Any:
        answer = self.get(path, token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def raw(self, request: str) -> bytes:
        """What comes back for these bytes, until the server closes."""
        name, _, port = self.host.rpartition(":")
        with socket.create_connection((name, int(port)), WAIT_S) as sent:
            sent.sendall(request.encode())
            return b"".join(iter(lambda: sent.recv(65_536), b""))


def header(session: str, parent: str | None = None, cwd: str = "/w") -> dict[str, Any]:
    told: dict[str, Any] = {"type": "session", "version": 4, "id": session, "createdAt": 5}
    return told | {"cwd": cwd} | ({} if parent is None else {"parentSession": parent})


def hostile() -> list[dict[str, Any]]:
    """Script in every text that a log has."""
    title = {"type": "session/title", "data": {"title": SCRIPT, "source": {"kind": "user"}}}
    command = {"type": "command/run", "data": {"id": SCRIPT, "name": SCRIPT, "args": SCRIPT}}
    todo = {"type": "todo/write", "data": {"todos": [{"content": SCRIPT, "status": SCRIPT}]}}
    error = {"message": SCRIPT, "name": SCRIPT}
    failed = {"type": "turn/end", "data": {"turn": 1, "reason": "error", "error": error}}
    request = {"type": "request/context", "data": {"provider": SCRIPT, "model": SCRIPT}}
    records = [
        title,
        request,
        user(SCRIPT, source={"kind": "user"}),
        say(SCRIPT, calls=(SCRIPT,)),
        call(SCRIPT),
        result(SCRIPT, SCRIPT),
        user(SCRIPT, source={"kind": SCRIPT, "plugin": SCRIPT, "form": SCRIPT}),
        command,
        todo,
        failed,
        {"type": f"x/{SCRIPT}", "ignorable": True, "data": {SCRIPT: SCRIPT}},
    ]
    return [header(SCRIPT, SCRIPT + "p", SCRIPT), *numbered(records)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage(tmp_path_factory.mktemp("served"))
    stage.feed(
        lines_of("kid", [header("kid", HIDDEN), *numbered([user("kid"), checkpoint(0, 0, [0])])])
    )
    stage.feed(lines_of("grand", [header("grand", "kid"), *numbered([user("grand")])]))
    stage.feed(lines_of(SCRIPT, hostile()))
    stage.play(fleet(1, 12, events=60))
    return stage


@contextmanager
def serve(
    stage: Stage,
    folder: Path,
    tokens: tuple[Token, ...] = (),
    authorise: Authorise | None = None,
    pace: Pace | None = None,
) -> Iterator[Served]:
    settings = Settings(
        f"sqlite:///{folder}/served.db", Address("127.0.0.1", 0), tokens, authorise=authorise
    )
    with serving(settings, stage.tail, streaming(Live(pace))) as running:
        served = Served(running.url)
        while served.get("/readyz").status_code != 200:
            pass  # the feed reads; each answer is one look
        yield served


@pytest.fixture(scope="module")
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def served(stage: Stage, tmp_path_factory: pytest.TempPathFactory, ends: ExitStack) -> Served:
    return ends.enter_context(serve(stage, tmp_path_factory.mktemp("open")))


@pytest.fixture(scope="module")
def guarded(stage: Stage, tmp_path_factory: pytest.TempPathFactory, ends: ExitStack) -> Served:
    return ends.enter_context(serve(stage, tmp_path_factory.mktemp("guarded"), (ALL, ONE)))


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await work

    asyncio.run(bounded())


# --- DNS rebinding, other sites -------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        "GET {path} HTTP/1.1\r\nHost: evil.example\r\n",
        "GET {path} HTTP/1.1\r\nHost: {host}.evil.example\r\n",
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET {path} HTTP/1.1\r\n",
        "GET {path} HTTP/1.0\r\n",
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n",
        "GET {path} HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: {host}\r\n",
        "GET http://evil.example{path} HTTP/1.1\r\nHost: evil.example\r\n",
    ],
)
@pytest.mark.parametrize("path", ["/v1/sessions", "/", "/v1/overview/stream", "/metrics"])
def test_a_name_that_was_pointed_here_gets_nothing(served: Served, head: str, path: str) -> None:
    answer = served.raw(head.format(path=path, host=served.host) + "Connection: close\r\n\r\n")
    status = answer.split(b" ", 2)[1]
    assert status in (b"421", b"400"), answer[:200]
    assert b"sim-0" not in answer


def test_a_websocket_of_another_site_is_refused(served: Served) -> None:
    async def work() -> None:
        url = f"ws://{served.host}/v1/ws"
        for origin in ("http://evil.example", "null", f"http://{served.host}.evil.example"):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, origin=origin)  # type: ignore[arg-type]
            assert refused.value.response.status_code == 403
        with pytest.raises(InvalidStatus):
            await connect(url, additional_headers={"Sec-Fetch-Site": "cross-site"})
        async with connect(url, origin=f"http://{served.host}") as mine:  # type: ignore[arg-type]
            assert json.loads(await mine.recv())["frames"][0]["t"] == "hello"

    run(work())


@pytest.mark.parametrize("path", ["/v1/sessions", f"/v1/stream?session={MINE}", "/metrics"])
def test_a_page_of_another_site_reads_nothing(served: Served, path: str) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ):
        answer = served.get(path, None, **headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


# --- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["token", "access_token", "Authorization", "api_key"])
def test_a_token_in_a_url_is_refused_on_every_way_in(guarded: Served, name: str) -> None:
    for path in ("/v1/sessions", f"/v1/stream?session={MINE}", "/v1/overview/stream", "/"):
        joint = "&" if "?" in path else "?"
        answer = guarded.get(f"{path}{joint}{name}={ALL.token}", ALL)
        assert answer.status_code == 400
        assert ALL.token not in answer.text

    async def work() -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{guarded.host}/v1/ws?{name}={ALL.token}")
        assert refused.value.response.status_code in (400, 403)

    run(work())


def test_without_a_token_nothing_is_served_but_the_page(guarded: Served) -> None:
    for operation in OPERATIONS:
        path = operation.path.format(id=MINE, key="user:1", ref="user:1%2Fcontent")
        expected = 200 if operation.path == "/healthz" else 401
        assert guarded.get(path).status_code == expected, path
    for path in ("/metrics", f"/v1/stream?session={MINE}", "/v1/overview/stream"):
        assert guarded.get(path).status_code == 401
    for path in ("/static/../../security.py", "/static/%2e%2e/security.py", "/static/..%2fapp.py"):
        answer = guarded.raw(
            f"GET {path} HTTP/1.1\r\nHost: {guarded.host}\r\nConnection: close\r\n\r\n"
        )
        assert answer.split(b" ", 2)[1] in (b"404", b"401")
        assert b"import" not in answer

    async def work() -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{guarded.host}/v1/ws")
        assert refused.value.response.status_code in (401, 403)

    run(work())


# --- what one principal sees of another's sessions ------------------------------------------------


def test_lists_counts_and_search_show_ones_own_alone(guarded: Served) -> None:
    listed = guarded.json("/v1/sessions?limit=500", ONE)
    ids = {each["session"] for each in listed["sessions"]}
    assert ids == {MINE, "sim-00000012", "kid"}
    assert sum(listed["counts"].values()) == guarded.json("/v1/overview", ONE)["sessions"] == 3
    for url in ("/v1/search?q=e&limit=500", f"/v1/search?q=e&session={HIDDEN}"):
        assert {hit["session"] for hit in guarded.json(url, ONE)["hits"]} <= ids
    children = guarded.json(f"/v1/sessions?parent={HIDDEN}", ONE)["sessions"]
    assert [each["session"] for each in children] == ["kid"]
    assert guarded.json("/v1/sessions?parent=kid", ONE)["sessions"] == []


def test_no_way_to_a_hidden_session_tells_it_from_none(guarded: Served) -> None:
    ways = [each.path for each in OPERATIONS if "{id}" in each.path]
    assert len(ways) > 12
    queries = {"surface/diff": "?from=1&to=2", "window": "?at=1", "trace": "?at=1"}
    for path in [*ways, "/v1/stream?session={id}", "/v1/query/cost?family={id}"]:
        last = next((more for name, more in queries.items() if path.endswith(name)), "")
        asked = path.replace("{key}", "user:1").replace("{ref}", "user:1%2Fcontent") + last
        hidden = guarded.get(asked.replace("{id}", HIDDEN), ONE)
        unknown = guarded.get(asked.replace("{id}", "unknown"), ONE)
        assert hidden.status_code == unknown.status_code == 404, asked
        assert hidden.text.replace(HIDDEN, "unknown") == unknown.text
        assert hidden.headers.keys() == unknown.headers.keys()


def test_lineage_costs_and_mentions_end_at_ones_own(guarded: Served) -> None:
    lineage = guarded.json("/v1/sessions/kid/query/lineage", ONE)
    assert (lineage["ancestors"], lineage["descendants"]) == ([], [])
    assert {each["id"] for each in guarded.json("/v1/query/sessions", ONE)["sessions"]} == {
        MINE, "sim-00000012", "kid"
    }  # fmt: skip
    assert guarded.json("/v1/query/cost", ONE)["total"]["sessions"] == 3
    assert guarded.json("/v1/query/cost?family=kid", ONE)["total"]["sessions"] == 1
    assert guarded.json("/v1/query/cost?family=kid", ALL)["total"]["sessions"] == 2
    text = quote(mention(HIDDEN, "x") + mention(MINE, "y"))
    found = guarded.json(f"/v1/references?text={text}", ONE)
    assert [each["session"] for each in found["quotations"]] == [MINE]


def test_streams_tell_of_ones_own_alone(guarded: Served) -> None:
    mine = {"Authorization": f"Bearer {ONE.token}"}

    async def work() -> None:
        async with httpx.AsyncClient(timeout=WAIT_S, headers=mine) as http:
            url = f"{guarded.url}/v1/overview/stream"
            async with aconnect_sse(http, "GET", url) as stream:
                async for event in stream.aiter_sse():
                    assert "sim-00000004" not in event.data
                    if "sim-" in event.data:
                        break
        async with connect(f"ws://{guarded.host}/v1/ws", additional_headers=mine) as socket_:
            asked = {"op": "subscribe", "id": "1", "gen": 1, "view": "transcript"}
            await socket_.send(json.dumps(asked | {"sessions": [HIDDEN, "unknown"]}))
            told = ""
            while told.count("unknown-session") < 2:
                told += str(await socket_.recv())
            assert '"rows"' not in told
            assert told.count(HIDDEN) == told.count('"unknown"')

    run(work())


# --- hooks, caps ----------------------------------------------------------------------------------


def test_a_hook_that_fails_closes_every_door(stage: Stage, tmp_path: Path) -> None:
    def hook(_: object, session: str) -> bool:
        raise RuntimeError(session)

    with serve(stage, tmp_path, (ALL,), hook) as served:
        assert served.json("/v1/sessions", ALL)["sessions"] == []
        assert served.get(f"/v1/sessions/{MINE}/transcript", ALL).status_code == 404
        assert served.get(f"/v1/stream?session={MINE}", ALL).status_code == 404
        assert served.json("/v1/search?q=e", ALL)["hits"] == []


def test_connections_of_a_principal_are_capped_whichever_their_kind(
    stage: Stage, tmp_path: Path
) -> None:
    async def work(served: Served) -> None:
        url = f"{served.url}/v1/stream?session={MINE}"
        own = [{"Authorization": f"Bearer {each.token}"} for each in (ALL, ONE)]
        async with httpx.AsyncClient(timeout=WAIT_S) as http:
            async with http.stream("GET", url, headers=own[0]) as first:
                assert first.status_code == 200
                async with connect(f"ws://{served.host}/v1/ws", additional_headers=own[0]):
                    third = await http.get(url, headers=own[0])
                    assert third.status_code == 429
                    assert third.headers["retry-after"]
                    with pytest.raises((InvalidStatus, ConnectionClosed)):
                        async with connect(
                            f"ws://{served.host}/v1/ws", additional_headers=own[0]
                        ) as fourth:
                            await fourth.recv()
                    async with http.stream("GET", url, headers=own[1]) as other:
                        assert other.status_code == 200
            status = 429
            while status == 429:  # a place is free as soon as the server sees that one has gone
                async with http.stream("GET", url, headers=own[0]) as again:
                    status = again.status_code
            assert status == 200

    with serve(stage, tmp_path, (ALL, ONE), pace=Pace(connections=2)) as served:
        run(work(served))


# --- hostile text ---------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: str(each.name))
def test_script_in_any_text_stays_text(served: Served, operation: Any) -> None:
    queries = {
        "surface/diff": "?from=0&to=9",
        "window": "?at=3&around=9",
        "trace": "?at=2",
        "export": "?format=html",
        "/v1/search": "?q=alert",
        "references": "?text=x",
    }
    rows = served.json(f"/v1/sessions/{quote(SCRIPT, safe='')}/transcript")["rows"]
    path = operation.path.replace("{key}", quote(rows[0]["key"], safe="")).replace("{ref}", "x")
    path = path.replace("{id}", quote(SCRIPT, safe=""))
    path += next((more for name, more in queries.items() if operation.path.endswith(name)), "")
    answer = served.get(path, Accept="text/html")
    assert answer.status_code == (404 if operation.name == "body" else 200), answer.text[:300]
    kind = answer.headers["content-type"].partition(";")[0]
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'unsafe" not in policy
    if kind == "text/html":
        assert operation.name == "export"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "<script" not in answer.text
        assert "<img" not in answer.text
    else:
        assert kind in ("application/json", "application/problem+json")
        answer.json()
        assert "\x1b" not in answer.text


def test_script_in_what_is_asked_stays_text(served: Served) -> None:
    for path in (f"/v1/sessions/{quote(SCRIPT + 'x', safe='')}", f"/v1/sessions?{quote(SCRIPT)}=1",
                 f"/{quote(SCRIPT, safe='')}", f"/v1/sessions?after={quote(SCRIPT)}"):  # fmt: skip
        answer = served.get(path, Accept="text/html")
        assert answer.status_code in (400, 404)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_runs_its_own_scripts_alone(served: Served) -> None:
    page = served.get("/")
    directives = dict(
        each.strip().split(" ", 1) for each in page.headers["content-security-policy"].split(";")
    )
    assert directives["script-src"] == "'self'"
    assert directives["frame-ancestors"] == directives["base-uri"] == "'none'"
    tags = re.findall(r"<[^>]*>", page.text)
    assert not [tag for tag in tags if re.search(r"\son\w+=|javascript:", tag)]
    assert all(" src=" in tag for tag in tags if tag.startswith("<script"))


@pytest.mark.parametrize("format_", ["md", "html"])
def test_exports_steer_no_terminal(served: Served, format_: str) -> None:
    text = served.get(f"/v1/sessions/{quote(SCRIPT, safe='')}/export?format={format_}").text
    assert "alert(1)" in text
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2066"} & set(text)
