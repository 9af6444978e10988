"""What the service answers: the contracts of streams.md §4, asked as a client asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pipeline.gateway.store import offsets
from pipeline.simulate import simulate
from tests.pipeline.gateway.asking import NOW, Client
from tests.pipeline.gateway.stage import Stage


def pages(client: Client, url: str) -> list[Any]:
    """The sessions of every page."""
    found: list[Any] = []
    after = ""
    while True:
        page = client.json(url + after)
        found += page["sessions"]
        if page["next"] is None:
            return found
        after = "&after=" + page["next"]


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ["activity", "created", "title", "tokens", "errors"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_the_list_is_paged_by_key_in_any_order(client: Client, sort: str, order: str) -> None:
    found = pages(client, f"/v1/sessions?limit=3&sort={sort}&order={order}")
    assert len(found) == 14 == len({each["session"] for each in found})
    if sort == "created":
        times = [each["created_at"] for each in found]
        assert times == sorted(times, reverse=order == "desc")
    assert found == pages(client, f"/v1/sessions?limit=500&sort={sort}&order={order}")


def test_the_list_is_filtered_by_state_words_and_parent(client: Client) -> None:
    every = pages(client, "/v1/sessions?limit=500")
    idle = pages(client, "/v1/sessions?limit=2&state=idle")
    assert idle == [each for each in every if each["state"] == "idle"]
    word = every[3]["session"].upper()
    assert [s["session"] for s in pages(client, f"/v1/sessions?limit=2&q={word}")] == [
        every[3]["session"]
    ]
    assert client.json("/v1/sessions?q=no-such-word-at-all")["sessions"] == []
    assert client.json("/v1/sessions?parent=nobody")["sessions"] == []


def test_counts_are_of_all_sessions_however_few_a_page_shows(client: Client) -> None:
    page = client.json("/v1/sessions?limit=1")
    assert sum(page["counts"].values()) == 14
    assert client.json("/v1/overview")["states"] == page["counts"]


def test_an_open_turn_that_is_silent_is_stalled(client: Client) -> None:
    every = pages(client, "/v1/sessions?limit=500")
    assert {each["state"] in ("running", "compacting") for each in every} == {True, False}
    for each in every:
        assert each["stalled"] is (each["state"] in ("running", "compacting"))
        assert each["last_time"] < NOW


@pytest.mark.parametrize("after", ["x", "WzEsMl0", "%F0%9F%98%80", "bm90aGluZw"])
def test_a_place_to_go_on_from_that_is_none(client: Client, after: str) -> None:
    assert client.get(f"/v1/sessions?after={after}").status_code == 400


def test_a_place_of_another_order_is_refused(client: Client) -> None:
    token = client.json("/v1/sessions?limit=1&sort=tokens")["next"]
    assert client.get(f"/v1/sessions?sort=title&after={token}").status_code == 400


# --- history --------------------------------------------------------------------------------------


def test_links_lead_through_the_whole_transcript(client: Client) -> None:
    session = pages(client, "/v1/sessions?limit=1")[0]["session"]
    url = f"/v1/sessions/{session}/transcript?max_messages=2"
    tail = client.json(url)
    rows, page = list(tail["rows"]), tail
    while page["older"]:
        page = client.json(page["older"])
        assert page["overview"] is None
        assert page["cursor"] is None
        rows[:0] = page["rows"]
    assert rows == client.json(f"/v1/sessions/{session}/transcript?max_messages=1000")["rows"]
    back = list(page["rows"])
    while page["newer"]:
        page = client.json(page["newer"])
        back += page["rows"]
    assert back == rows
    keys = [(row["anchor_seq"], row["anchor_rank"], row["key"]) for row in rows]
    assert keys == sorted(keys)


def test_links_lead_through_all_raw_events(client: Client) -> None:
    session = pages(client, "/v1/sessions?limit=1")[0]["session"]
    url = f"/v1/sessions/{session}/events"
    page = client.json(f"{url}?max_messages=3&max_bytes=4000")
    assert "max_bytes=4000" in page["older"]
    events = list(page["events"])
    while page["older"]:
        page = client.json(page["older"])
        assert sum(len(json.dumps(each)) for each in page["events"]) < 12_000
        events[:0] = page["events"]
    assert events == client.json(f"{url}?max_messages=1000")["events"]


def test_the_tail_page_has_the_overview_and_the_cursor_of_its_moment(client: Client) -> None:
    session = pages(client, "/v1/sessions?limit=1")[0]["session"]
    tail = client.json(f"/v1/sessions/{session}/transcript")
    assert tail["overview"]["as_of_seq"] == tail["as_of_seq"]
    log, places, epochs = json.loads(tail["cursor"])
    assert log == client.json("/v1/status")["log"]
    assert epochs == {session: 0}
    assert {place.rpartition("-")[0] for place in places} == {"transcript", "partials", "overview"}
    with client.service.store.read() as connection:
        held = offsets(connection)
    assert places.items() <= {f"{role}-{p}": at for (role, p), at in held.items()}.items()


def test_a_page_that_a_client_has_is_not_sent_again(client: Client) -> None:
    session = pages(client, "/v1/sessions?limit=1")[0]["session"]
    url = f"/v1/sessions/{session}/transcript?before=50"
    first = client.get(url)
    again = client.get(url, headers={"If-None-Match": f'"x", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(url, headers={"If-None-Match": "*"}).status_code == 304
    other = client.get(url, headers={"If-None-Match": '"x"'})
    assert other.status_code == 200


def test_large_bodies_are_left_out_and_served_by_their_reference(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    text = "長い" * 30_000
    line = {
        "type": "user/message",
        "seq": 0,
        "time": 1,
        "surfaceOp": "append",
        "data": {"id": "m", "role": "user", "source": {"kind": "user"},
                 "content": [{"type": "text", "text": text}]},
    }  # fmt: skip
    stage.feed([("big/one", json.dumps(line).encode())])
    stage.run()
    stage.read_on()
    client = Client(stage)
    base = f"/v1/sessions/{quote('big/one', safe='')}"
    (row,) = client.json(f"{base}/transcript")["rows"]
    left = row["data"]["content"]
    assert set(left) == {"ref", "bytes", "preview"}
    whole = client.json(f"{base}/bodies/{quote(left['ref'], safe='')}")
    assert whole == line["data"]["content"]  # type: ignore[index]
    assert client.json(f"{base}/rows/{quote(row['key'])}")["data"]["content"] == whole
    (node,) = client.json(f"{base}/surface")["nodes"]
    message = client.json(f"{base}/bodies/{quote(node['message']['ref'], safe='')}")
    assert message["content"] == whole
    assert client.get(f"{base}/bodies/user:0%2Fnothing").status_code == 404
    assert client.get(f"{base}/rows/user:1").status_code == 404


def test_what_strict_readers_would_misread(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    content = (
        r'[{"type":"text","text":"half \ud83d"},{"type":"x","n":123456789012345678901,"f":1e400}]'
    )
    line = (
        '{"type":"user/message","seq":0,"time":1,"surfaceOp":"append","data":{"id":"m",'
        f'"role":"user","source":{{"kind":"user"}},"content":{content}}}}}'
    )
    stage.feed([("s", line.encode()), ("s", b'{"type":"x","seq":1,"time":2,"n":"\xff"}')])
    stage.run()
    stage.read_on()
    client = Client(stage)
    for url in ("transcript", "events", "surface"):
        body = client.get(f"/v1/sessions/s/{url}").content
        text = body.decode("utf-8")
        assert "half \ufffd" in text
        assert '"123456789012345678901"' in text
        assert '"1e400"' in text
        json.loads(text)
    assert client.json("/v1/sessions/s/events")["events"][1]["n"] == "\ufffd"


def test_a_session_that_begins_anew_leaves_nothing_of_before(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    old, new = simulate(1, events=80), simulate(2, events=40)
    stage.feed([("s", line) for line in old.lines[1:]])
    stage.run()
    stage.read_on()
    client = Client(stage)
    before = client.json("/v1/sessions/s/transcript?max_messages=1000")
    stage.feed([("s", line) for line in new.lines[1:]], epoch=1)
    stage.run()
    stage.read_on()
    after = client.json("/v1/sessions/s/transcript?max_messages=1000")
    assert (before["epoch"], after["epoch"]) == (0, 1)
    assert {row["epoch"] for row in after["rows"]} == {1}
    events = client.json("/v1/sessions/s/events?max_messages=1000")["events"]
    assert len(events) == len(new.lines) - 1
    nodes = [node["seq"] for node in client.json("/v1/sessions/s/surface")["nodes"]]
    assert max(nodes) <= new.events
    assert [heard.raised for heard in stage.heard if heard.raised] == [{"s": 1}]


# --- the surface ----------------------------------------------------------------------------------


def test_the_surface_its_differences_and_chains_tell_one_story(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    session = simulate(21, events=500)
    stage.play([session])
    client, base = Client(stage), f"/v1/sessions/{session.id}"
    end = client.json(base)["next_seq"]
    now = client.json(f"{base}/surface")
    assert client.json(f"{base}/surface?at={end + 5}")["nodes"] == now["nodes"]
    marks = client.json(f"{base}/classification")["marks"]
    assert [seq for seq, mark in enumerate(marks) if mark == "C"] == sorted(
        node["seq"] for node in now["nodes"]
    )
    part = client.json(f"{base}/classification?first=10&last=19")
    assert (part["first"], part["marks"]) == (10, marks[10:20])
    shadowed = marks.index("S")
    chain = client.json(f"{base}/query/trace?at={shadowed}")
    assert chain["surface"] == "shadowed"
    assert chain["replaced_by"] == chain["chain"][0]
    by = client.json(f"{base}/query/trace?at={chain['chain'][0]}")
    assert shadowed in by["replaced"]
    diff = client.json(f"{base}/surface/diff?from={chain['chain'][0] - 1}&to={chain['chain'][0]}")
    assert [node["seq"] for node in diff["came"]] == [chain["chain"][0]]
    assert shadowed in [node["seq"] for node in diff["went"]]
    assert client.get(f"{base}/surface/diff?from=9&to=3").status_code == 400
    assert client.get(f"{base}/surface/diff?from=9").status_code == 400


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "/v1/sessions?limit=0",
        "/v1/sessions?limit=501",
        "/v1/sessions?limit=ten",
        "/v1/sessions?limit=1&limit=2",
        "/v1/sessions?state=odd",
        "/v1/sessions?sort=size",
        "/v1/sessions?colour=red",
        "/v1/sessions/x/transcript?before=-1",
        "/v1/sessions/x/transcript?before=9007199254740992",
        "/v1/sessions/x/transcript?before=1&around=2",
        "/v1/sessions/x/transcript?max_bytes=99999999999",
        "/v1/sessions/%ff/transcript",
        "/v1/search",
        "/v1/search?q=%20",
        "/v1/search?q=x&after=%00",
    ],
)
def test_what_cannot_be_answered_says_why(client: Client, url: str) -> None:
    answer = client.get(url)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 400
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "url",
    ["/v1/sessions/none", "/v1/sessions/none/transcript", "/v1/nothing", "/v1/sessions/%00/events"],
)
def test_what_there_is_not(client: Client, url: str) -> None:
    answer = client.get(url)
    assert answer.status_code == 404
    assert answer.json()["title"] == "Not Found"


def test_other_methods_are_refused(client: Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = client.send(method, "/v1/sessions")
        assert answer.status_code == 405
        assert answer.json()["status"] == 405


def test_before_anything_can_be_served_it_says_so(tmp_path: Path) -> None:
    client = Client(Stage(tmp_path))
    answer = client.get("/v1/sessions")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
