"""White space as JavaScript trims it, surrogate halves, JSON of blocks: projection.md §5.1."""

import json

import pytest
from msgspec import Raw

from operators.text import JS_SPACE, is_blank, pair, to_json, well_formed


@pytest.mark.parametrize("space", list(JS_SPACE))
def test_javascript_trims_it(space: str) -> None:
    assert is_blank(space)


@pytest.mark.parametrize("kept", ["\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u200b", "\u180e", "a"])
def test_javascript_keeps_it(kept: str) -> None:
    assert not is_blank(f" {kept} ")


def test_nothing_is_blank() -> None:
    assert is_blank("")


def test_an_unpaired_half_is_replaced_and_a_pair_is_kept() -> None:
    assert well_formed("a\ud83db🙂\ude42") == "a\ufffdb🙂\ufffd"
    assert pair("\ud83d" + "\ude42") == "🙂"
    assert pair("\ude42\ud83d") == "\ude42\ud83d"


def test_json_keeps_opaque_parts_and_halves() -> None:
    assert bytes(to_json([Raw(b'{"a":1e400}'), {"é": "x"}])) == '[{"a":1e400},{"é":"x"}]'.encode()
    assert bytes(to_json({"t": "é\ud83d"})) == '{"t":"é\\ud83d"}'.encode()
    both = to_json([Raw(b'{"n": 1}'), "\ude42"])
    assert json.loads(bytes(both)) == [{"n": 1}, "\ude42"]
