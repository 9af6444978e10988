"""Whatever is asked: a clear refusal or an answer, never a fault of the service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.gateway.status import Status
from pipeline.simulate import simulate
from tests.pipeline.gateway.asking import Client
from tests.pipeline.gateway.stage import Stage
from tests.pipeline.gateway.test_search import said

SESSION = simulate(3, events=80)
S = f"/v1/sessions/{SESSION.id}"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/sessions?limit=1000000000", 400),
        ("/v1/sessions?limit=-1", 400),
        ("/v1/sessions?limit=99999999999999999999999999", 400),
        ("/v1/sessions?limit=1e3", 400),
        ("/v1/sessions?after=nonsense", 400),
        ("/v1/sessions?after=%FF%FE", 400),
        ("/v1/sessions?state=%00", 400),
        ("/v1/sessions/nobody", 404),
        ("/v1/sessions/nobody/transcript", 404),
        ("/v1/sessions/nobody/export?format=md", 404),
        ("/v1/sessions/%00", 404),
        ("/v1/sessions/%FF", 400),
        ("/v1/sessions/%ED%A0%80", 400),
        (f"{S}/transcript?max_bytes=1000000000000", 400),
        (f"{S}/transcript?before=18446744073709551616", 400),
        (f"{S}/transcript?around=-5", 400),
        (f"{S}/transcript?after=9007199254740993", 400),
        (f"{S}/transcript?before=1&after=2", 400),
        (f"{S}/surface?at=18446744073709551616", 400),
        (f"{S}/rows/none", 404),
        (f"{S}/rows/%FF", 400),
        (f"{S}/export?format=exe", 400),
        ("/v1/search?q=", 400),
        ("/v1/stream?session=x", 404),
    ],
)
def test_it_is_refused_with_a_reason(tmp_path: Path, path: str, status: int) -> None:
    stage = Stage(tmp_path)
    stage.play([SESSION])
    answer = Client(stage).get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions?q=%FF%ED%A0%80",
        "/v1/sessions?q=%00",
        "/v1/search?q=%FF%00a",
        "/v1/search?q=%25_%5C'%22",
    ],
)
def test_what_finds_nothing_is_no_fault(tmp_path: Path, path: str) -> None:
    stage = Stage(tmp_path)
    stage.play([SESSION])
    answer = Client(stage).get(path)
    assert answer.status_code == 200, answer.text


def test_large_integers_and_half_characters_are_told_as_text(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    header, line = said(["half \ud800 and"])
    line = line.replace(b'"content"', b'"n": 9007199254740993, "content"')
    stage.feed([("s", header), ("s", line)])
    stage.run()
    stage.read_on()
    client = Client(stage)
    for path in ("", "/transcript", "/surface", "/classification", "/rows/user:0"):
        answer = client.get(f"/v1/sessions/s{path}")
        assert answer.status_code == 200, path
        json.loads(answer.content.decode("utf-8"))
        assert b"\\ud800" not in answer.content, path
    assert "half \ufffd and" in client.get("/v1/sessions/s/transcript").text
    assert client.get("/v1/sessions/s/export?format=jsonl").status_code == 200
    assert '"9007199254740993"' in client.get("/v1/sessions/s/surface").text
    (hit,) = client.json("/v1/search?q=half")["hits"]
    assert hit["seq"] == 0


@pytest.mark.parametrize("path", ["nobody", "nobody/transcript", "nobody/surface"])
def test_nobody_is_unknown_while_history_is_still_being_read(tmp_path: Path, path: str) -> None:
    stage = Stage(tmp_path)
    stage.play([SESSION])
    stage.feeding.board.put(Status("catching-up", done=3, total=10, lag=7))
    answer = Client(stage).get(f"/v1/sessions/{path}")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "3 of 10 offsets are read" in answer.json()["detail"]
    assert Client(stage).get(S).status_code == 200
