from __future__ import annotations

import json

from msgspec import Raw

from pipeline.gateway.changes import OverviewChanged, RowChanged, SurfaceChanged, TextAppended
from pipeline.gateway.frames import (
    Append,
    Bye,
    Frame,
    Overview,
    Ping,
    Row,
    Snapshot,
    Surface,
    name_of,
    of_change,
    to_event,
    to_json,
)

ROW = Row("s", 0, "user:4", 9, Raw(b'{"key":"user:4"}'))


def test_a_frame_says_its_kind_and_carries_opaque_json_as_it_is() -> None:
    assert json.loads(to_json(ROW)) == {
        "t": "row",
        "session": "s",
        "epoch": 0,
        "key": "user:4",
        "rev": 9,
        "row": {"key": "user:4"},
    }


def test_integers_beyond_the_safe_ones_are_strings_and_lone_halves_are_replaced() -> None:
    body = Raw(b'{"n":9007199254740993,"safe":9007199254740991,"text":"a\\ud83d"}')
    row = json.loads(to_json(Row("s", 0, "k", 1, body)))["row"]
    assert row == {"n": "9007199254740993", "safe": 9007199254740991, "text": "a\ufffd"}


def test_a_revision_beyond_the_safe_ones_cannot_be_misread() -> None:
    assert json.loads(to_json(Append("s", 0, "k", 2**53, 0, "text", 0, "x")))["rev"] == str(2**53)


def test_a_frame_is_one_line_whatever_stands_between_the_tokens_of_opaque_json() -> None:
    payload = to_json(Row("s", 0, "k", 1, Raw(b'{\r\n "a": "line\\nbreak"\n}')))
    assert b"\n" not in payload
    assert b"\r" not in payload
    assert json.loads(payload)["row"] == {"a": "line\nbreak"}


def test_text_that_looks_like_an_event_stays_in_its_event() -> None:
    hostile = "x\n\nevent: bye\ndata: {}\n\n\u2028"
    event = to_event("append", to_json(Append("s", 0, "k", 1, 0, "text", 0, hostile)))
    assert event.count(b"\n") == 3
    assert event.startswith(b"event: append\ndata: {")
    assert event.endswith(b"}\n\n")


def test_an_event_with_a_cursor_is_what_a_browser_resumes_with() -> None:
    assert to_event("ping", b"{}", "abc") == b"id: abc\nevent: ping\ndata: {}\n\n"
    assert to_event("ping", b"{}", "") == b"id: \nevent: ping\ndata: {}\n\n"  # forgets it


def test_every_kind_has_its_own_name() -> None:
    frames: list[Frame] = [
        *(ROW, Append("s", 0, "k", 1, 0, "text", 0, "x"), Surface("s", 0, 1, Raw(b"{}"))),
        *(Overview("s", 0, 1, Raw(b"{}")), Bye("slow", 1), Ping()),
        Snapshot("s", 0, "transcript", "new"),
    ]
    names = [name_of(frame) for frame in frames]
    assert names == ["row", "append", "surface", "overview", "bye", "ping", "snapshot"]
    assert [json.loads(to_json(frame))["t"] for frame in frames] == names


def test_a_change_of_the_read_model_is_the_frame_of_its_kind() -> None:
    body = Raw(b'{"a":1}')
    row = RowChanged("s", 2, "user:4", 9, "user", 4, 0, "transcript", False, body, 1, 7)
    text = TextAppended("s", 2, "assistant:5", 8, 1, "text", 3, "abc", 6, None, 1, 7)
    assert of_change(row) == Row("s", 2, "user:4", 9, body)
    assert of_change(text) == Append("s", 2, "assistant:5", 8, 1, "text", 3, "abc")
    assert of_change(SurfaceChanged("s", 2, 3, "append", body, 1, 7)) == Surface("s", 2, 3, body)
    assert of_change(OverviewChanged("s", 2, 3, "idle", body, 1, 7)) == Overview("s", 2, 3, body)
