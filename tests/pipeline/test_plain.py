"""Text from logs on a terminal: nothing in it steers."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pipeline.plain import steerless

HOSTILE = "\x9b31m \u202e \u2028 \u200b \U000e0041 \u009d0;title\u009c"


def test_json_for_a_terminal_is_the_same_value_without_what_steers() -> None:
    document = json.dumps({"text": HOSTILE}, ensure_ascii=False).encode()
    shown = steerless(document)
    assert json.loads(shown) == {"text": HOSTILE}
    assert shown.isascii()


@given(st.text())
def test_any_json_keeps_its_value(text: str) -> None:
    document = json.dumps([text], ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert json.loads(steerless(document).decode("utf-8", "surrogatepass")) == [text]
