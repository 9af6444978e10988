"""Rows of the gateway are drawn as `foldstream show` draws those of the fold."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from operators.changes import TranscriptRow
from operators.history import bounded
from operators.session import fold
from pipeline import render
from pipeline.gateway.jsonout import safe
from pipeline.simulate import SHAPES, simulate
from pipeline.watch.rows import drawn, elsewhere, typed_row
from schemas.inbound import read_line


def rows(seed: int, shape: str) -> list[TranscriptRow]:
    session = simulate(seed, events=300, shape=shape)
    return list(fold((read_line(line) for line in session.lines), session.id).rows)


def text(shown: RenderableType) -> str:
    console = Console(width=80, color_system=None)
    with console.capture() as got:
        console.print(shown)
    return got.get()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_is_drawn_as_show_draws_it(shape: str) -> None:
    kinds = set()
    for row in rows(4, shape) + rows(9, shape):
        came: dict[str, Any] = json.loads(safe(msgspec.json.encode(row)))
        kinds.add(row.kind)
        assert text(drawn(came)) == text(render.render_row(row))
        typed_row(came)  # and not as something unknown
    assert {"user", "assistant", "tool", "turn"} <= kinds


LONG = "\n".join(f"line {n}" for n in range(4000))


def first_tool(output: str) -> dict[str, Any]:
    row = next(row for row in rows(4, "v4") if getattr(row.data, "status", "") == "ok")
    content = msgspec.Raw(json.dumps([{"type": "text", "text": output}]).encode())
    assert row.data is not None
    long = msgspec.structs.replace(row, data=msgspec.structs.replace(row.data, content=content))
    found: dict[str, Any] = json.loads(bytes(bounded(long)))
    return found


def test_a_body_that_is_elsewhere_says_so() -> None:
    row = first_tool(LONG)
    assert elsewhere(row["data"])
    assert "bytes: Enter shows all of it" in text(drawn(row))


def test_a_tool_shows_the_beginning_of_its_output_or_all() -> None:
    row = first_tool("\n".join(f"line {n}" for n in range(40)))
    assert not elsewhere(row["data"])
    assert "line 39" not in text(drawn(row))
    assert "28 more lines" in text(drawn(row))
    assert "line 39" in text(drawn(row, whole=True))


def test_what_was_summarised_is_shown_on_request() -> None:
    row = next(row for row in rows(9, "v4") + rows(4, "v4") if getattr(row.data, "summary", None))
    came = json.loads(safe(msgspec.json.encode(row)))
    words = came["data"]["summary"].split()[0]
    assert len(text(drawn(came, whole=True)).splitlines()) > len(text(drawn(came)).splitlines())
    assert words in text(drawn(came, whole=True))


@pytest.mark.parametrize(
    "change", [{"kind": "later"}, {"data": {"other": "\x1b[2J"}}, {"data": {"content": 7, "x": {}}}]
)
def test_a_row_of_a_later_version_is_shown_as_it_came(change: dict[str, Any]) -> None:
    row = json.loads(safe(msgspec.json.encode(next(iter(rows(4, "v4")))))) | change
    shown = text(drawn(row))
    assert f"#{row['anchor_seq']}" in shown
    assert "\x1b" not in shown
