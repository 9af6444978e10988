"""Who may ask, from where, and what they are shown."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import ConfigError
from pipeline.errors import Fatal
from pipeline.gateway.security import Principal, Token, known, read_tokens, rules_for
from pipeline.health import Address
from tests.pipeline.gateway.asking import HERE, Client, bearer, rules
from tests.pipeline.gateway.stage import Stage

ALL = Token("all", "a" * 32)
ONE = Token("one", "b" * 32, sessions=("sim-*2",), raw=False)


@pytest.fixture
def guarded(stage: Stage) -> Client:
    return Client(stage, rules([ALL, ONE]))


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1", "localhost:81", "127.0.0.1:8080.evil"],
)
def test_a_name_that_was_pointed_here_is_not_served(client: Client, host: str) -> None:
    answer = client.get("/v1/sessions", headers={"Host": host})
    assert answer.status_code == 421
    assert answer.json()["status"] == 421


@pytest.mark.parametrize("host", [HERE, "localhost:8080", "LOCALHOST:8080", "[::1]:8080"])
def test_its_own_names_are_served(client: Client, host: str) -> None:
    assert client.get("/v1/sessions", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:81"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
def test_pages_of_another_site_ask_in_vain(client: Client, headers: dict[str, str]) -> None:
    assert client.get("/v1/sessions", headers=headers).status_code == 403


def test_its_own_page_may_ask(client: Client) -> None:
    headers = {"Origin": f"http://{HERE}", "Sec-Fetch-Site": "same-origin"}
    assert client.get("/v1/sessions", headers=headers).status_code == 200


def test_without_tokens_only_this_machine_is_served(client: Client) -> None:
    assert client.get("/v1/sessions", client=("192.0.2.7", 9)).status_code == 401
    with pytest.raises(Fatal, match="token-file"):
        rules_for(Address("0.0.0.0", 8080), 8080)
    assert rules_for(Address("0.0.0.0", 8080), 8080, (ALL,)).tokens


def test_with_tokens_everybody_needs_one(guarded: Client) -> None:
    answer = guarded.get("/v1/sessions")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    for wrong in ("", "Bearer", "Bearer ", "Bearer " + "a" * 31, "Basic " + ALL.token, ALL.token):
        assert guarded.get("/v1/sessions", headers={"Authorization": wrong}).status_code == 401
    assert guarded.get("/v1/sessions", **bearer(ALL)).status_code == 200
    assert guarded.get("/metrics").status_code == 401
    for open_to_all in ("/healthz", "/readyz", "/v1/openapi.json"):
        assert guarded.get(open_to_all).status_code == 200


def test_a_token_in_a_url_is_refused_even_if_it_is_right(guarded: Client) -> None:
    for name in ("token", "access_token", "Authorization", "api_key"):
        answer = guarded.get(f"/v1/sessions?{name}={ALL.token}", **bearer(ALL))
        assert answer.status_code == 400
        assert "URL" in answer.json()["detail"]
        assert ALL.token not in answer.text


def test_logging_in_sets_a_cookie_that_no_script_reads(guarded: Client) -> None:
    assert guarded.send("POST", "/v1/login", json={"token": "x" * 32}).status_code == 401
    assert guarded.send("POST", "/v1/login", data={"token": ALL.token}).status_code == 415
    assert guarded.send("POST", "/v1/login", json={}).status_code == 400
    assert guarded.send("POST", "/v1/login", json={"token": "x" * 9_000}).status_code == 413
    answer = guarded.send("POST", "/v1/login", json={"token": ALL.token})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    asked = guarded.get("/v1/sessions", headers={"Cookie": cookie.partition(";")[0]})
    assert asked.status_code == 200
    assert guarded.get("/v1/sessions", headers={"Cookie": "foldstream="}).status_code == 401


def test_a_principal_sees_its_sessions_alone_everywhere(stage: Stage, guarded: Client) -> None:
    mine = bearer(ONE)
    listed = guarded.json("/v1/sessions?limit=500", **mine)
    ids = {each["session"] for each in listed["sessions"]}
    every = {
        s["session"] for s in guarded.json("/v1/sessions?limit=500", **bearer(ALL))["sessions"]
    }
    assert ids == {each for each in every if each.endswith("2")}
    assert 0 < len(ids) < len(every)
    assert sum(listed["counts"].values()) == len(ids)
    assert guarded.json("/v1/overview", **mine)["sessions"] == len(ids)
    hidden = min(every - ids)
    for url in (
        "",
        "/transcript",
        "/events",
        "/surface",
        "/surface/diff?from=1&to=2",
        "/query/trace?at=3",
        "/query/search?text=e",
        "/query/window?at=3",
        "/query/contexts",
        "/query/cuts",
        "/query/lineage",
        "/reference",
        "/classification",
        "/rows/user:4",
        "/bodies/user:4%2Fcontent",
        "/export?format=jsonl",
    ):
        answer = guarded.get(f"/v1/sessions/{hidden}{url}", **mine)
        unknown = guarded.get(f"/v1/sessions/unknown{url}", **mine)
        assert answer.status_code == unknown.status_code == 404, url
        assert answer.json()["detail"].replace(hidden, "unknown") == unknown.json()["detail"]
    found = guarded.json("/v1/search?q=e&limit=500", **mine)["hits"]
    assert {hit["session"] for hit in found} == ids


def test_raw_events_need_their_own_right(guarded: Client) -> None:
    session = guarded.json("/v1/sessions", **bearer(ONE))["sessions"][0]["session"]
    url = f"/v1/sessions/{session}/events"
    assert guarded.get(url, **bearer(ONE)).status_code == 404
    assert guarded.get(url, **bearer(ALL)).status_code == 200


def test_a_hook_decides_besides_the_patterns(stage: Stage) -> None:
    asked: list[Principal] = []

    def hook(principal: Principal, session: str) -> bool:
        asked.append(principal)
        return session.endswith("42")

    client = Client(stage, rules([ALL, ONE], hook))
    assert len(client.json("/v1/sessions", **bearer(ALL))["sessions"]) == 1
    assert {principal.name for principal in asked} == {"all"}


def no_answer(_: Principal, session: str) -> bool:
    raise LookupError(session)


async def answer_later(_: Principal, __: str) -> bool:
    return True


@pytest.mark.parametrize("hook", [no_answer, answer_later, lambda *_: "yes", lambda *_: None])
def test_a_hook_that_does_not_say_yes_says_no(
    stage: Stage, hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It raises, forgot its await, or answers something else: closed, and said in the log."""
    client = Client(stage, rules([ALL], hook))
    listed = client.json("/v1/sessions", **bearer(ALL))
    assert (listed["sessions"], listed["counts"]) == ([], {})
    assert client.json("/v1/search?q=e", **bearer(ALL))["hits"] == []
    assert client.json("/v1/query/cost", **bearer(ALL))["total"]["sessions"] == 0
    assert client.get("/v1/sessions/sim-00000031", **bearer(ALL)).status_code == 404
    assert "denied" in caplog.text


def test_one_session_that_a_hook_fails_at_hides_no_other(stage: Stage) -> None:
    def hook(_: Principal, session: str) -> bool:
        if session == "sim-00000033":
            raise ValueError
        return True

    listed = Client(stage, rules([ALL], hook)).json("/v1/sessions", **bearer(ALL))
    assert len(listed["sessions"]) == 13


def test_every_token_is_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which token is right, and how much of one, does not show in how long it takes."""
    compared: list[bytes] = []
    right = hmac.compare_digest

    def spy(given: bytes, token: bytes) -> bool:
        compared.append(token)
        return right(given, token)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    tokens = (ALL, ONE, Token("third", "t" * 32))
    for given in (ALL.token, "t" * 32, "x", "a" * 31 + "b", "\udcff"):
        compared.clear()
        found = known(given, tokens)
        assert compared == [each.token.encode() for each in tokens]
        assert (found is None) == (given not in [each.token for each in tokens])


def test_every_answer_is_hardened(guarded: Client) -> None:
    for answer in (
        guarded.get("/v1/sessions", **bearer(ALL)),
        guarded.get("/v1/sessions"),
        guarded.get("/nothing", **bearer(ALL)),
        guarded.get("/v1/sessions", headers={"Host": "evil"}),
    ):
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


def test_a_token_file_is_a_line_or_a_table(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("a" * 32 + "\n")
    assert read_tokens(file) == (Token("token", "a" * 32),)
    file.write_text('[[token]]\nname = "ann"\ntoken = "%s"\nsessions = ["x-*"]\n' % ("c" * 20))
    assert read_tokens(file) == (Token("ann", "c" * 20, ("x-*",)),)
    for bad in ("", "short", 'token = "x"', "[[token]]\nname = 1", "a" * 20 + "; x", "\xff" * 40):
        file.write_text(bad)
        with pytest.raises(ConfigError):
            read_tokens(file)
    with pytest.raises(ConfigError):
        read_tokens(tmp_path / "none")
