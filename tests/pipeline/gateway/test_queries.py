"""Readers' questions over HTTP: the answers of the command line, and nothing of hidden sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from operators.readers.money import Card, Rate
from operators.readers.references import address, mention
from pipeline.gateway import routes_families, routes_queries
from pipeline.gateway.security import Token
from pipeline.readers.parameters import EVENT_PARAMETERS, SESSION_PARAMETERS
from pipeline.simulate import SHAPES, simulate
from tests.operators.build import numbered
from tests.operators.records import call, checkpoint, replacing, result, say, user
from tests.pipeline.gateway.asking import Client, bearer, lines_of, rules
from tests.pipeline.gateway.query_agreement import differences
from tests.pipeline.gateway.stage import Stage

RECORDS = [
    user("find me"),
    say("there", calls=("a",)),
    call("a"),
    result("a", "FIND  me\ttoo"),
    user("ctx", source={"kind": "runtime-context"}),
    checkpoint(0, 3, [0, 1, 3]),
    user("last"),
]
#: root → fork → child → grandchild; other is alone; orphan's parent is nowhere
FAMILY = {"root": None, "fork": "root", "child": "fork", "grand/child": "child", "orphan": "gone"}


def header(session: str, parent: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "session", "version": 4, "id": session, "createdAt": 5}
    return told | {"cwd": f"/{session}"} | ({} if parent is None else {"parentSession": parent})


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = Stage(tmp_path_factory.mktemp("queries"))
    stage.feed(lines_of("s-1", [header("s-1", None), *numbered(RECORDS)]))
    for session, parent in FAMILY.items():
        stage.feed(lines_of(session, [header(session, parent), *numbered([user(session)])]))
    stage.run()
    stage.read_on()
    return stage


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_those_of_the_log(tmp_path: Path, shape: str) -> None:
    session, stage = simulate(21, events=500, shape=shape), Stage(tmp_path)
    stage.play([session])
    assert differences(Client(stage), session.id, session.lines) == []


def test_a_search_goes_on_where_it_stopped(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "/v1/sessions/s-1/query/search?text=find+ME"
    every = client.json(url)
    assert [hit["seq"] for hit in every["hits"]] == [0, 3]
    assert (every["next"], every["first_held"]) == (None, 0)
    assert [hit["surface"] for hit in every["hits"]] == ["shadowed", "shadowed"]
    first = client.json(url + "&limit=1")
    assert ([hit["seq"] for hit in first["hits"]], first["next"]) == ([0], 1)
    monkeypatch.setattr(routes_queries, "MOST_LINES", 2)
    assert [hit["seq"] for hit in client.json(url + "&seq=3..9&seq=..3")["hits"]] == [3]
    assert client.json(url + "&seq=-99999999999999999999..-1")["hits"] == []
    assert client.json(url + "&seq=99999999999999999999..")["hits"] == []
    seqs: list[int] = []
    at: int | None = 0
    while at is not None:
        page = client.json(f"{url}&first={at}")
        seqs += [hit["seq"] for hit in page["hits"]]
        at = page["next"]
    assert seqs == [0, 3]


def test_what_the_fold_refused_is_not_found_and_a_gap_is_passed_over(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    refused = replacing(user("find me too", id_="x"), 90, 91)
    logged_only = {**call("a"), "sourceEventSeqs": [0]}
    records = [user("find me"), refused, logged_only, user("find me, late", id_="m", seq=9)]
    stage.feed(lines_of("s", numbered(records)))
    stage.run()
    stage.read_on()
    client = Client(stage)
    url = "/v1/sessions/s/query/search?text=find+me"
    assert [hit["seq"] for hit in client.json(url)["hits"]] == [0, 9]
    for first in (1, 5, 9):
        assert [hit["seq"] for hit in client.json(f"{url}&first={first}")["hits"]] == [9]
    stage.feed(lines_of("s", numbered([user("find me", id_="n")], 20)))
    stage.run()
    stage.read_on()
    assert [hit["seq"] for hit in client.json(f"{url}&first=15")["hits"]] == [20]
    window = client.json("/v1/sessions/s/query/window?at=1&around=1")["events"]
    assert [each["seq"] for each in window] == [0]


@pytest.mark.parametrize(
    "asked",
    [
        "search?seq=9..3",
        "search?time=x",
        "search?surface=odd",
        "search?text=%20",
        "search?kind=user",
        "window",
        "window?at=1&around=-1",
        "trace?at=-1",
    ],
)
def test_what_cannot_be_asked(client: Client, asked: str) -> None:
    answer = client.get(f"/v1/sessions/s-1/query/{asked}")
    assert answer.status_code == 400
    assert answer.json()["detail"]


def test_a_seq_that_there_is_not(client: Client) -> None:
    assert client.get("/v1/sessions/s-1/query/trace?at=99").status_code == 404
    assert client.json("/v1/sessions/s-1/query/window?at=99")["events"] == []


def test_parameters_are_those_of_the_command_line() -> None:
    for parameters, asked in (
        (EVENT_PARAMETERS, routes_queries.SearchParameters),
        (SESSION_PARAMETERS, routes_families.SessionsParameters),
    ):
        assert {each.name for each in parameters} < set(asked.__struct_fields__)


# --- many sessions --------------------------------------------------------------------------------


def test_sessions_by_what_their_headers_say(client: Client) -> None:
    found = client.json("/v1/query/sessions?parent=root&parent=(none)")["sessions"]
    assert {each["id"] for each in found} == {"s-1", "root", "fork"}
    assert client.json("/v1/query/sessions?cwd=/root&created=4..5")["sessions"][0]["id"] == "root"
    assert client.json("/v1/query/sessions?availability=persisted")["sessions"] == []
    assert len(client.json("/v1/query/sessions?limit=2")["sessions"]) == 2
    assert client.get("/v1/query/sessions?created=x").status_code == 400


def test_lineage_up_and_down(client: Client) -> None:
    found = client.json("/v1/sessions/fork/query/lineage")
    assert [each["id"] for each in found["ancestors"]] == ["root"]
    below = [(each["id"], each["depth"]) for each in found["descendants"]]
    assert below == [("child", 1), ("grand/child", 2)]
    assert (found["complete"], found["root"]) == (True, "root")
    orphan = client.json("/v1/sessions/orphan/query/lineage")
    assert (orphan["complete"], orphan["unresolved"]) == (False, "gone")


def test_a_circle_of_parents_is_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for session, parent in (("a", "b"), ("b", "a")):
        stage.feed(lines_of(session, [header(session, parent), *numbered([user("x")])]))
    stage.run()
    stage.read_on()
    found = Client(stage).json("/v1/sessions/a/query/lineage")
    assert (found["cycle_at"], [each["id"] for each in found["descendants"]]) == ("a", ["b"])


def test_costs_are_of_all_or_of_a_family(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    one, two = simulate(3, events=200), simulate(4, events=200)
    stage.play([one, two])
    unpriced = Client(stage).json("/v1/query/cost")
    assert unpriced["total"]["sessions"] == 2
    assert unpriced["total"]["currency"] is None
    tokens = {each["session"]: each["tokens"] for each in unpriced["sessions"]}
    assert min(tokens.values()) > 0
    assert unpriced["total"]["tokens"] == unpriced["total"]["unpriced"] == sum(tokens.values())
    (route, *_) = unpriced["sessions"][0]["routes"]
    rate = Rate(route["provider"], route["model"], 10**6, 10**6, 10**6, 10**6)
    priced = Client(stage, card=Card("USD", "2026-02-01", (rate,)))
    found = priced.json(f"/v1/query/cost?family={one.id}&limit=1")
    assert found["total"]["tokens"] == tokens[one.id]
    assert (found["total"]["currency"], found["left_out"]) == ("USD", 0)
    assert priced.json("/v1/query/cost?limit=1")["left_out"] == 1
    assert priced.json("/v1/query/cost")["total"]["micro"] > 0


# --- quoting --------------------------------------------------------------------------------------


def test_a_session_is_quoted_within_its_bytes(client: Client) -> None:
    found = client.json("/v1/sessions/s-1/reference?label=a%5Db")
    assert found["mention"] == mention("s-1", "a]b")
    assert found["address"] == address("s-1")
    assert found["reference"]["data"]["label"] == "a]b"
    assert found["reference"]["data"]["capturedThroughSeq"] == 6
    assert [each["role"] for each in found["reference"]["data"]["conversation"]][-1] == "user"
    assert client.json("/v1/sessions/s-1/reference?max_bytes=5")["reference"] is None
    assert client.get("/v1/sessions/s-1/reference?max_bytes=-1").status_code == 400


def test_an_address_names_a_session_everywhere(client: Client) -> None:
    for path in ("transcript", "reference", "query/lineage"):
        named = client.json(f"/v1/sessions/grand%2Fchild/{path}")
        assert client.json(f"/v1/sessions/{address('grand/child')}/{path}") == named
    answer = client.get(f"/v1/sessions/{address('s-1')}=/reference")
    assert answer.status_code == 404
    assert "canonical" in answer.json()["detail"]


def test_what_a_message_mentions_is_quoted(client: Client) -> None:
    text = f"{mention('root', 'it')} {mention('none', 'x')} {mention('fork', '')} and s-1"
    found = client.json(f"/v1/references?text={quote(text)}&own=fork")
    assert [each["session"] for each in found["quotations"]] == ["root"]
    assert found["quotations"][0]["reference"]["data"]["label"] == "it"
    assert found["missing"] == ["none"]
    assert client.get("/v1/references?text=@[x](dsh-session:xx)").status_code == 400


# --- what may be seen -----------------------------------------------------------------------------

SOME = Token("some", "s" * 32, sessions=("fork", "grand/child", "s-1"), raw=False)
RAW = Token("raw", "r" * 32, sessions=("fork",))


@pytest.fixture
def limited(stage: Stage) -> Client:
    return Client(stage, rules([SOME, RAW]))


def test_families_end_at_what_may_not_be_seen(limited: Client) -> None:
    found = limited.json("/v1/sessions/fork/query/lineage", **bearer(SOME))
    assert found["ancestors"] == found["descendants"] == []
    assert (found["complete"], found["unresolved"], found["root"]) == (False, "root", None)
    ids = {each["id"] for each in limited.json("/v1/query/sessions", **bearer(SOME))["sessions"]}
    assert ids == {"fork", "grand/child", "s-1"}
    every = limited.json("/v1/query/cost", **bearer(SOME))
    assert every["total"]["sessions"] == 3
    family = limited.json("/v1/query/cost?family=fork", **bearer(SOME))
    assert [each["session"] for each in family["sessions"]] == ["fork"]
    hidden = limited.get("/v1/query/cost?family=root", **bearer(SOME))
    unknown = limited.get("/v1/query/cost?family=none", **bearer(SOME))
    assert hidden.status_code == unknown.status_code == 404
    text = quote(mention("root", "x") + mention("none", "y"))
    told = limited.json(f"/v1/references?text={text}", **bearer(SOME))
    assert (told["quotations"], told["missing"]) == ([], ["root", "none"])


def test_an_address_is_no_way_around(limited: Client) -> None:
    for path in ("transcript", "reference", "query/lineage"):
        url = f"/v1/sessions/{address('root')}/{path}"
        assert limited.get(url, **bearer(SOME)).status_code == 404


@pytest.mark.parametrize("asked", ["search", "window?at=0", "contexts"])
def test_raw_events_are_asked_with_their_own_right(limited: Client, asked: str) -> None:
    url = f"/v1/sessions/fork/query/{asked}"
    assert limited.get(url, **bearer(SOME)).status_code == 404
    assert limited.get(url, **bearer(RAW)).status_code == 200
    assert limited.get("/v1/sessions/fork/query/cuts", **bearer(SOME)).status_code == 200
