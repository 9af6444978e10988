"""Search finds every row that holds the words, whatever they are written in, and lands on a seq."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from operators.readers.text import folded, spaced
from pipeline.gateway import search
from pipeline.gateway import store_tables as t
from pipeline.gateway.search import Asked, Hit
from pipeline.gateway.sessions import TokenError
from pipeline.simulate import fleet
from tests.pipeline.gateway.stage import Stage

TEXTS = [
    "Fix the Parser, please",
    "解析器在第三行失败了",
    "the PARSER\n\n  failed: Straße 3",
    "go",
    'a "quoted" word and 100% of_it',
    "nul \x00 and half",
    "Ünïcode ÉCLAIR ok",
    "会議の議事録をまとめて",
]


def said(texts: list[str]) -> Iterator[bytes]:
    yield b'{"type":"session","version":4,"id":"s","createdAt":1}'
    for seq, text in enumerate(texts):
        yield json.dumps(
            {
                "type": "user/message",
                "seq": seq,
                "time": 1_000 + seq,
                "surfaceOp": "append",
                "data": {
                    "id": f"m{seq}",
                    "role": "user",
                    "source": {"kind": "user"},
                    "content": [{"type": "text", "text": text}],
                },
            }
        ).encode()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.feed(("s", line) for line in said(TEXTS))
    stage.run()
    stage.read_on()
    return stage


def hits(stage: Stage, words: str, **asked: Any) -> list[Hit]:
    """Over all pages, of two each."""
    found: list[Hit] = []
    after = None
    with stage.store.read() as connection:
        while True:
            page = search.search(connection, Asked(words, after=after, limit=2, **asked), None)
            found += page.hits
            after = page.next
            if after is None:
                return found


@pytest.mark.parametrize(
    ("words", "seqs"),
    [
        ("parser", [2, 0]),
        ("parser failed", [2]),
        ('"the parser, please"', [0]),
        ('"parser failed"', [2]),  # white space of any kind and length
        ("解析", [1]),
        ("失败了", [1]),
        ("第", [1]),
        ("議事録", [7]),
        ("go", [3]),
        ("GO", [3]),
        ("straße", [2]),
        ("strasse", []),
        ('"quoted', [4]),  # a quote that is not closed is a character
        ("100%", [4]),
        ("of_it", [4]),
        ("oflit", []),
        ("éclair", [6]),
        ("ok", [6]),
        ("nul", [5]),
        ("   ", []),
        ("x" * 5_000, []),
        ("' OR 1=1 --", []),
        ("NEAR(parser failed)", []),
        ("par*", []),
    ],
)
def test_what_is_found(stage: Stage, words: str, seqs: list[int]) -> None:
    assert [hit.seq for hit in hits(stage, words)] == seqs


def test_a_hit_shows_where_it_is(stage: Stage) -> None:
    (hit,) = hits(stage, "失败了")
    assert (hit.session, hit.key, hit.kind, hit.time) == ("s", "user:1", "user", 1_001)
    assert hit.before + hit.match + hit.behind == TEXTS[1]
    assert (hit.match, hit.cut) == ("失败了", (False, False))


def test_only_what_one_may_see_and_asks_for(stage: Stage) -> None:
    assert hits(stage, "parser", kinds=("tool",)) == []
    assert hits(stage, "parser", session="other") == []
    with stage.store.read() as connection:
        assert search.search(connection, Asked("parser"), lambda _: False).hits == []


def test_a_place_to_go_on_from_that_is_none(stage: Stage) -> None:
    with stage.store.read() as connection:
        for token in ("x", "é", "bm90IGpzb24", "WzEsMl0"):
            with pytest.raises(TokenError):
                search.search(connection, Asked("parser", after=token), None)


@pytest.mark.parametrize("words", ["the", "re", "e", "tool result", "a er"])
def test_the_index_finds_what_a_look_at_every_row_finds(tmp_path: Path, words: str) -> None:
    stage = Stage(tmp_path)
    stage.play(fleet(8, 6, events=120))
    with stage.store.read() as connection:
        d = t.documents.c
        every = connection.execute(select(d.session, d.key, d.text)).all()
    wanted = {
        (session, key)
        for session, key, text in every
        if all(folded(word) in folded(spaced(text)) for word in words.split())
    }
    assert {(hit.session, hit.key) for hit in hits(stage, words)} == wanted
    assert wanted
