"""What the headers of an input record say beside its line."""

from __future__ import annotations

import pytest

from operators.parking import Mark
from pipeline.envelope import (
    EnvelopeError,
    Place,
    first_place,
    original,
    parse_place,
    read_envelope,
)
from pipeline.patterns import matcher
from pipeline.ports import InRecord


def record(*headers: tuple[str, bytes | None]) -> InRecord:
    return InRecord("sessions.events", 3, 100, 0, b"s", b"{}", headers)


def test_without_headers_it_is_the_first_epoch_and_no_replay() -> None:
    assert read_envelope(record()) == (0, None)
    assert first_place(record()) == Place("sessions.events", 3, 100)


def test_a_record_sent_again_says_where_it_stood_and_what_is_done_about_it() -> None:
    sent = record(
        ("epoch", b"2"),
        ("replay", b"sessions.events/3/7"),
        ("skip", b"1"),
        ("through", b"sessions.events/3/9"),
        ("trace", b"x"),
    )
    assert read_envelope(sent) == (2, Mark(7, True, True, 9))
    assert str(first_place(sent)) == "sessions.events/3/7"
    assert original(sent.headers) == [("epoch", b"2"), ("trace", b"x")]


def test_skip_and_through_mean_nothing_by_themselves() -> None:
    assert read_envelope(record(("skip", b"1"), ("through", b"?"))) == (0, None)


def test_a_copy_of_the_topic_under_another_name_is_read_alike() -> None:
    assert read_envelope(record(("replay", b"other.events/3/7")))[1] == Mark(7, True)


@pytest.mark.parametrize(
    "place",
    [None, b"", b"7", b"e/3", b"e/3/x", b"e/3/-1", b"e/3/100", b"e/2/7", b"e/3/7\n", b"\xff/3/7"],
)
def test_no_place_before_the_record_in_its_partition_is_a_bad_envelope(
    place: bytes | None,
) -> None:
    for name in ("replay", "through"):
        headers = [("replay", b"sessions.events/3/7"), (name, place)]
        with pytest.raises(EnvelopeError, match=f"the header `{name}` is no place before"):
            read_envelope(record(*headers))


@pytest.mark.parametrize("text", ["", "a/b/c", "sessions.events/0", "a b/0/1", "e/0/1/2"])
def test_what_is_no_place(text: str) -> None:
    assert parse_place(text) is None


def test_patterns_of_sessions() -> None:
    some, every, none = matcher(("prod-*", "x?")), matcher(("*",)), matcher(())
    wanted = {"prod-1": True, "xy": True, "x": False, "Prod-1": False, "a\nb": False}
    assert {session: some(session) for session in wanted} == wanted
    assert every("a\nb")
    assert not none("")
