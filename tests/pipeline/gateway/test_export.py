"""Exports hold every row that a person reads, and nothing in them acts."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from pipeline.simulate import simulate
from tests.pipeline.gateway.asking import Client
from tests.pipeline.gateway.stage import Stage

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre><img src=x onerror=alert(1)>",
    "```\n</code><script>alert(2)</script>\n```` ````` <b>",
    "[click](javascript:alert(1)) ![x](http://evil.example/x.png)",
    "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \u2066",
    "# heading\n\n<details open ontoggle=alert(1)>",
]


def message(seq: int, text: str) -> bytes:
    return json.dumps(
        {
            "type": "user/message",
            "seq": seq,
            "time": 1_764_500_000_000,
            "surfaceOp": "append",
            "data": {
                "id": f"m{seq}",
                "role": "user",
                "source": {"kind": "user"},
                "content": [{"type": "text", "text": text}],
            },
        }
    ).encode()


def title(seq: int, text: str) -> bytes:
    event = {"type": "session/title", "seq": seq, "time": 1, "data": {"title": text}}
    return json.dumps(event).encode()


@pytest.fixture
def client(tmp_path: Path) -> Client:
    stage = Stage(tmp_path)
    lines = [title(0, "<script>alert(0)</script>")]
    lines += [message(seq, text) for seq, text in enumerate(HOSTILE, 1)]
    stage.feed(("a/<b>", line) for line in lines)
    stage.play([simulate(5, events=200)])
    return Client(stage)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


URL = "/v1/sessions/a%2F%3Cb%3E/export?format="


def test_nothing_in_the_html_acts(client: Client) -> None:
    answer = client.get(URL + "html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"a__b_.html\"; filename*=UTF-8''a%2F%3Cb%3E.html"
    )
    assert "sandbox" in answer.headers["content-security-policy"]
    tags = Tags()
    tags.feed(answer.text)
    assert tags.tags == {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "code", "pre"
    }  # fmt: skip
    assert not [name for name in tags.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in "".join(tags.text)
    assert "\x1b" not in answer.text
    assert "\u202e" not in answer.text


def test_nothing_in_the_markdown_acts(client: Client) -> None:
    answer = client.get(URL + "md")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    tags = Tags()
    tags.feed(MarkdownIt("commonmark", {"html": True}).render(answer.text))
    assert tags.tags <= {"h1", "h2", "p", "a", "pre", "code", "em"}
    assert tags.attributes <= {"id", "class"}
    assert "\x1b" not in answer.text


def test_json_lines_are_the_whole_rows(client: Client) -> None:
    url = "/v1/sessions/sim-00000005"
    answer = client.get(f"{url}/export?format=jsonl")
    rows = [json.loads(line) for line in answer.text.split("\n")[:-1]]
    keys = [row["key"] for row in client.json(f"{url}/transcript?max_messages=1000")["rows"]]
    assert [row["key"] for row in rows] == keys
    one: Any = client.json(f"{url}/rows/{rows[3]['key']}")
    assert rows[3] == one


@pytest.mark.parametrize("format_", ["md", "html"])
def test_every_row_that_a_person_reads_is_there(client: Client, format_: str) -> None:
    url = "/v1/sessions/sim-00000005"
    text = client.get(f"{url}/export?format={format_}").text
    for row in client.json(f"{url}/transcript?max_messages=1000")["rows"]:
        there = f'id="seq-{row["anchor_seq"]}"' in text
        assert there or row["visibility"] == "auxiliary"


def test_what_cannot_be_exported(client: Client) -> None:
    assert client.get(URL + "pdf").status_code == 400
    assert client.get("/v1/sessions/none/export").status_code == 404
