from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from operators import changes as c
from schemas.bounds import bound, bound_row, encode_within
from schemas.codec import decode_change
from schemas.outbound import encode
from tests.schemas.samples import SAMPLES, row

PREFIX = 4096


def opaque(size: int, letter: str = "x") -> Raw:
    return Raw(json.dumps([letter * size], ensure_ascii=False).encode())


def tool(**fields: Any) -> c.TranscriptRow:
    return row("tool", c.ToolData("c-1", "bash", **({"arguments": "", "status": "ok"} | fields)))


def text_of(data: Any) -> c.ToolData:
    assert isinstance(data, c.ToolData)
    return data


@pytest.mark.parametrize("subject", ["surface", "transcript", "partials", "overview"])
def test_what_fits_is_left_alone(subject: str) -> None:
    for change in SAMPLES[subject]:
        size = len(encode(change))
        assert bound(change, size) is change
        assert encode_within(change, size) == encode(change)


def test_the_largest_field_is_cut_first_and_the_rest_kept() -> None:
    whole = tool(content=opaque(50_000), arguments="a" * 30_000, meta=opaque(6_000))
    bounded = bound_row(whole, 45_000)
    data = text_of(bounded.data)
    assert bounded.truncated == (c.Truncated("content", 50_004),)
    assert json.loads(bytes(data.content)) == bytes(opaque(50_000)).decode()[:PREFIX]
    assert (data.arguments, data.meta) == (text_of(whole.data).arguments, opaque(6_000))
    assert structs.replace(bounded, data=None, truncated=()) == structs.replace(whole, data=None)


def test_truncated_is_in_record_order() -> None:
    whole = tool(content=opaque(50_000), arguments="a" * 60_000, meta=opaque(6_000))
    bounded = bound_row(whole, 20_000)
    assert [t.field for t in bounded.truncated] == ["arguments", "content"]
    assert text_of(bounded.data).arguments == "a" * PREFIX


def test_the_cut_counts_code_points_and_the_entry_bytes() -> None:
    whole = tool(content=opaque(9_000, "😀"), arguments="é" * 5_000)
    bounded = bound_row(whole, 1)
    data = text_of(bounded.data)
    assert json.loads(bytes(data.content)) == '["' + "😀" * (PREFIX - 2)
    assert data.arguments == "é" * PREFIX
    assert bounded.truncated == (c.Truncated("arguments", 10_000), c.Truncated("content", 36_004))


def test_a_text_within_its_first_code_points_is_never_cut() -> None:
    whole = tool(content=opaque(PREFIX - 4), arguments="a" * PREFIX)
    assert bound_row(whole, 1) == whole


def test_texts_inside_are_named_by_their_path() -> None:
    inner = c.SubCall("n", None, None, "ok", opaque(20_000), None, 1, 2)
    outer = c.SubCall("o", None, opaque(9_000), "ok", None, None, 1, 2, (inner,))
    bounded = bound_row(tool(sub_calls=(inner, outer)), 30_000)
    assert [t.field for t in bounded.truncated] == [
        "sub_calls[0].content",
        "sub_calls[1].sub_calls[0].content",
    ]
    command = structs.replace(SAMPLES["transcript"][5].data)
    command = structs.replace(
        command, compaction=structs.replace(command.compaction, summary="s" * 9_000)
    )
    assert bound_row(row("command", command), 8_000).truncated == (
        c.Truncated("compaction.summary", 9_000),
    )


def test_sub_calls_too_many_keep_the_first() -> None:
    calls = tuple(
        c.SubCall(f"n-{i}", None, None, "ok", opaque(200 + 9_000 * (i == 700)), None, i, i)
        for i in range(800)
    )
    whole = tool(sub_calls=calls, content=opaque(9_000))
    bounded = bound_row(whole, 100_000)
    kept = text_of(bounded.data).sub_calls
    assert kept == calls[: len(kept)]
    assert 300 < len(kept) < 500
    assert 99_000 < len(encode(bounded)) <= 100_000
    assert [t.field for t in bounded.truncated] == ["content", "sub_calls"]
    assert bounded.truncated[1].bytes > 160_000


def test_attempts_too_many_keep_the_first() -> None:
    attempts = tuple(c.Attempt(i, 1, i, None, 5, Raw(b'{"code":"RATE"}')) for i in range(5_000))
    bounded = bound_row(row("retry", c.RetryData("r", None, None, "started", attempts)), 20_000)
    assert isinstance(bounded.data, c.RetryData)
    assert bounded.data.attempts == attempts[: len(bounded.data.attempts)]
    assert 19_900 < len(encode(bounded)) <= 20_000


def test_nested_calls_at_full_depth_are_cut() -> None:
    call = c.SubCall("c", None, None, "ok", opaque(9_000), None, 1, 2)
    for _ in range(255):
        call = c.SubCall("c", None, None, "ok", None, None, 1, 2, (call,))
    bounded = bound_row(tool(sub_calls=(call,)), 9_000)
    assert len(encode(bounded)) <= 9_000
    assert len(bounded.truncated) == 1


SIZES = st.integers(0, 3).map(lambda n: n * 3_000)


@given(
    st.lists(SIZES, min_size=3, max_size=3),
    st.sampled_from(['"', "é", "😀"]),
    st.integers(2_000, 40_000),
)
def test_a_bounded_row_can_be_read_and_is_bounded_once(
    sizes: list[int], letter: str, limit: int
) -> None:
    content, meta, arguments = sizes
    whole = tool(content=opaque(content, letter), meta=opaque(meta), arguments=letter * arguments)
    bounded = bound_row(whole, limit)
    assert decode_change(encode(bounded)) == bounded
    assert len(encode(bounded)) <= max(limit, 45_000)
    assert len(encode(bounded)) <= len(encode(whole))
    assert bound_row(bounded, max(limit, len(encode(bounded)))) == bounded


# --- the other records ----------------------------------------------------------------------------


def test_a_model_message_too_large_is_a_string() -> None:
    change = structs.replace(SAMPLES["surface"][1], message=opaque(90_000))
    bounded = bound(change, 20_000)
    assert isinstance(bounded, c.SurfaceChange)
    assert bounded.message is not None
    assert json.loads(bytes(bounded.message)) == bytes(opaque(90_000)).decode()[:PREFIX]
    assert structs.replace(bounded, message=change.message) == change


def test_a_replacement_of_too_many_nodes_says_that_it_is_partial() -> None:
    change = structs.replace(
        SAMPLES["surface"][1], shadowed=tuple(range(50_000)), partial=False, message=opaque(10)
    )
    bounded = bound(change, 20_000)
    assert bounded == structs.replace(change, shadowed=(), targets=(), partial=True)


def test_a_partial_too_large_leaves_a_gap() -> None:
    change = structs.replace(SAMPLES["partials"][0], text="a" * 50_000)
    assert bound(change, 10_000) == structs.replace(change, text="a" * PREFIX)


def test_an_overview_too_large_cuts_its_texts_and_adds_up_its_counts() -> None:
    long = "turns_" + "r" * 5_000
    change = structs.replace(
        SAMPLES["overview"][0], title="t" * 50_000, counts={long + "1": 2, long + "2": 3, "user": 1}
    )
    bounded = bound(change, 20_000)
    assert isinstance(bounded, c.SessionOverview)
    assert bounded.title == "t" * PREFIX
    assert bounded.counts == {long[:PREFIX]: 5, "user": 1}
    assert structs.replace(bounded, title=change.title, counts=change.counts) == change


def test_an_overview_with_too_many_end_reasons_has_one() -> None:
    counts = {f"turns_{i}": 1 for i in range(5_000)} | {"user": 7}
    bounded = bound(structs.replace(SAMPLES["overview"][0], counts=counts), 20_000)
    assert isinstance(bounded, c.SessionOverview)
    assert bounded.counts == {"turns_other": 5_000, "user": 7}


def test_an_overview_with_too_many_instructions_keeps_the_first() -> None:
    some = tuple(c.InstructionData("set", f"s-{n}", "p" * 50, None) for n in range(1_000))
    whole = structs.replace(SAMPLES["overview"][0], instructions=some, todos=Raw(b"[" * 90_000))
    bounded = bound(whole, 20_000)
    assert isinstance(bounded, c.SessionOverview)
    assert 20_000 - 100 < len(encode(bounded)) <= 20_000
    assert bounded.instructions == some[: len(bounded.instructions)]
    assert (len(bounded.billed), bounded.goal) == (2, whole.goal)


@pytest.mark.parametrize("subject", ["surface", "transcript", "partials", "overview"])
def test_a_limit_nothing_can_meet_still_gives_a_change(subject: str) -> None:
    for change in SAMPLES[subject]:
        assert decode_change(encode_within(change, 1)).session == change.session  # type: ignore[union-attr]
