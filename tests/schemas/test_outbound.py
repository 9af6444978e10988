from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec import Raw, structs

from operators import changes
from schemas.catalog import load
from schemas.codec import decode
from schemas.outbound import encode, headers_of, key_of, subject_of
from schemas.wire import single_object_prefix
from tests.schemas import made
from tests.schemas.samples import SAMPLES

ROW = SAMPLES["transcript"][0]


@pytest.mark.parametrize("subject", ["surface", "transcript", "partials", "overview"])
def test_a_change_goes_to_its_subject_under_its_newest_schema(subject: str) -> None:
    for change in SAMPLES[subject]:
        assert subject_of(change) == subject
        prefix = single_object_prefix(load().latest(subject).fingerprint)
        assert encode(change).startswith(prefix)


def test_keys() -> None:
    row = structs.replace(ROW, session="sitzung-ä", key="tool:7")
    assert key_of(row) == b"sitzung-\xc3\xa4\x1ftool:7"
    for subject in ("surface", "partials", "overview"):
        assert key_of(structs.replace(SAMPLES[subject][0], session="s-1")) == b"s-1"


def test_headers_are_text_any_client_can_show() -> None:
    change = structs.replace(SAMPLES["surface"][0], session="ä", epoch=12, seq=-1)
    assert headers_of(change) == [("session", "ä".encode()), ("epoch", b"12"), ("seq", b"-1")]


@given(made.every_change(made.WILD_TEXT))
def test_nothing_a_log_holds_stops_the_door(change: Any) -> None:
    assert "\ud800" not in str(decode(encode(change)))
    key_of(change)
    headers_of(change)


def test_opaque_json_leaves_byte_for_byte() -> None:
    odd = '{"n":1e400, "n":12345678901234567890123,"half":"\\ud83d"}'
    row = structs.replace(ROW, data=changes.MessageData("m", Raw(odd.encode()), Raw(b"null")))
    assert decode(encode(row))["data"]["content"] == odd


def test_one_odd_string_leaves_the_others_as_they_are() -> None:
    row = structs.replace(ROW, data=changes.UnknownData("x\ud83d", ignorable=True), turn=2**70)
    decoded = decode(encode(row))
    assert decoded["data"] == {"type": "x\ufffd", "ignorable": True}
    assert decoded["turn"] is None
    assert decoded["key"] == row.key


@pytest.mark.parametrize("function", [encode, key_of, headers_of])
def test_a_session_without_id_has_no_place_on_a_topic(function: Any) -> None:
    with pytest.raises(ValueError, match="no header"):
        function(structs.replace(ROW, session=None))


@pytest.mark.parametrize("function", [encode, key_of, headers_of, subject_of])
def test_a_refused_line_is_not_published(function: Any) -> None:
    with pytest.raises(TypeError, match="Refused"):
        function(changes.Refused("late", "seq 3 came late", 3))
