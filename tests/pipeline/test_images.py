"""The offloaded mark, and that nothing else of a message changes."""

import msgspec
import pytest
from msgspec import Raw

from pipeline.images import offload

IMAGE = b'{"type":"image","attachment":{"bytes":1e400,"name":"\\u00e9"}}'
MARKED = b'{"type":"image","attachment":{"bytes":1e400,"name":"\\u00e9"},"offloaded":true}'
TEXT = b'{"type":"text","text":"a image","big":12345678901234567890123}'


def message(*blocks: bytes) -> Raw:
    return Raw(b'{"id":"m","content":[' + b",".join(blocks) + b'],"source":{"x": 1.0}}')


def test_images_are_counted_depth_first_through_tool_results() -> None:
    def wrapper(*inner: bytes) -> bytes:
        return b'{"type":"tool-result","content":[' + b",".join(inner) + b"]}"

    whole = message(IMAGE, wrapper(TEXT, IMAGE, IMAGE), TEXT, IMAGE)
    assert offload(whole, {0, 2, 3}) == message(MARKED, wrapper(TEXT, IMAGE, MARKED), TEXT, MARKED)
    assert offload(whole, {9}) == whole


def test_a_mark_that_is_there_counts_and_is_set_to_true() -> None:
    there = b'{"type":"image","offloaded":false}'
    assert offload(message(there, IMAGE), {0}) == message(
        b'{"type":"image","offloaded":true}', IMAGE
    )


def test_unpaired_surrogate_escapes_survive() -> None:
    text = b'{"type":"text","text":"\\ud800 \\\\ud800 \\uDBFF\\uDFFF <surrogate 0>"}'
    assert offload(message(text, IMAGE), {0}) == message(text, MARKED)
    named = IMAGE.replace(b"\\u00e9", b"\\udc00")
    assert b'"\\udc00"},"offloaded":true' in bytes(offload(message(named), {0}))


@pytest.mark.parametrize(
    "odd", [b"null", b'"text"', b"{}", b'{"content":null}', b'{"content":[1,null,{"type":7}]}']
)
def test_what_is_no_message_with_images_is_left(odd: bytes) -> None:
    assert msgspec.json.decode(offload(Raw(odd), {0})) == msgspec.json.decode(odd)
