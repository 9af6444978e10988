"""What a person sees of rows and surfaces, and that no log can do anything to the terminal."""

import io
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from operators import changes as c
from operators.changes import RowData, SurfaceChange, TranscriptRow
from pipeline import render
from pipeline.plain import visible, visible_line
from pipeline.surfaces import SurfaceView

HOSTILE = "\x1b[31mred\x07\r\x08 \u202eevil\u2066 \x9b2J \u200bx\ufeff \ud800 \u2028 \U000e0041"


def shown(*things: RenderableType, width: int = 60) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, emoji=False)
    for thing in things:
        console.print(thing)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def row(kind: str, data: RowData, **fields: Any) -> TranscriptRow:
    whole: dict[str, Any] = {
        "session": "s", "epoch": 0, "seq": 7, "key": f"{kind}:7", "kind": kind, "anchor_seq": 7,
        "anchor_rank": 0, "rev": 7, "visibility": "transcript", "turn": 1, "step": 1, "time": 1000,
        "deleted": False, "truncated": (), "data": data,
    }  # fmt: skip
    return TranscriptRow(**whole | fields)


TOOL = c.ToolData("call", "read", '{"path":"a"}', "ok", raw([text_block("one\ntwo")]))
MARKER = c.CompactionData("k", "auto", "landed", summary="We did things.", item_count=4)


@pytest.mark.parametrize(
    ("kind", "data", "wanted"),
    [
        ("user", c.MessageData("m", raw([text_block("hello")]), raw({})), ["user  #7", "  hello"]),
        ("context", c.MessageData("m", raw("flat"), raw({}), "hooks"), ["context (hooks)", "flat"]),
        (
            "assistant",
            c.AssistantData(
                "interrupted",
                blocks=raw(
                    [
                        {"type": "reasoning", "text": "hm"},
                        {"type": "tool-call", "name": "read", "arguments": "{}"},
                        {"type": "image", "attachment": {"mediaType": "image/png"}},
                        {"type": "new-thing"},
                    ]
                ),
            ),
            ["assistant (interrupted)", "hm", "→ read {}", "[image image/png]", "[new-thing]"],
        ),
        ("tool", TOOL, ["tool read: ok", '{"path":"a"}', "one", "two"]),
        (
            "tool",
            c.ToolData("x", None, None, "interrupted", sub_calls=(
                c.SubCall("y", "inner", None, "ok", None, None, 1, 2),)),
            ["tool (unknown): interrupted", "inner: ok"],
        ),
        ("compaction", MARKER, ["compacted · auto · 4 items"]),
        (
            "command",
            c.CommandData("i", "compact", " now", "success", "done", compaction=MARKER),
            ["/compact now · compacted · auto · 4 items"],
        ),
        (
            "retry",
            c.RetryData("r", "p", None, "started", (
                c.Attempt(1, 0, 1, 3, 10, raw({"code": "TIMEOUT", "message": "slow"})),)),
            ["retry 1 (started)", "TIMEOUT: slow"],
        ),
        ("turn-error", c.TurnErrorData(None, "AUTH", masked=True), ["error AUTH", "withheld"]),
        ("max-tokens", c.MaxTokensData(None), ["output limit reached"]),
        ("gap", c.GapData(3, 9), ["events 3 to 9 are unknown"]),
        ("unknown", c.UnknownData("plugin:x", ignorable=True), ["plugin:x (unknown event)"]),
    ],
)  # fmt: skip
def test_each_kind_of_row_says_what_it_is(kind: str, data: RowData, wanted: list[str]) -> None:
    text = shown(render.render_row(row(kind, data)), width=80)
    for part in wanted:
        assert part in text
    assert "#7  1970-01-01 00:00:01" in text


def test_auxiliary_rows_are_shown_when_asked_for() -> None:
    rows = [row("user", c.MessageData(None, raw([]), raw({}))), row("gap", c.GapData(1, 2))]
    rows[1] = msgspec.structs.replace(rows[1], visibility="auxiliary")
    gone = msgspec.structs.replace(rows[0], deleted=True, data=None)
    assert len(list(render.transcript([*rows, gone]))) == 1
    assert len(list(render.transcript([*rows, gone], auxiliary=True))) == 2


def test_a_long_output_is_cut_and_says_so() -> None:
    output = raw([text_block("\n".join(str(n) for n in range(100)))])
    text = shown(render.render_row(row("tool", msgspec.structs.replace(TOOL, content=output))))
    assert f"… {100 - render.TOOL_LINES} more lines" in text
    assert "\n  11\n" in text
    assert "\n  12\n" not in text


def test_a_compaction_is_one_line_and_says_what_the_log_says() -> None:
    whole = c.CompactionData(
        *("k", "manual", "landed", 9, "A summary.\n" * 30, 8, 1234, 987654),
        *(2, 1000, 3000, 12_345),
    )
    joined = c.CommandData("i", "compact", None, "success", "done", compaction=whole)
    both: list[tuple[RowData, str]] = [(whole, "compaction"), (joined, "command")]
    for data, kind in both:
        text = shown(render.render_row(row(kind, data)), width=80)
        assert text.count("\n") == 2  # itself, and the blank one between rows
        assert "compacted · manual · 1234 items · 987654 tokens · 12.3 s" in text
    unknown = shown(render.render_row(row("compaction", c.CompactionData(None, None, "landed"))))
    assert unknown.startswith("compacted  #7")
    heading = render.render_row(row("compaction", whole))
    assert isinstance(heading, Group)
    assert isinstance(heading.renderables[0], Text)
    assert heading.renderables[0].style == "dim"
    failed = c.CompactionData("k", "auto", "failed", error="no room")
    assert "no room" in shown(render.render_row(row("compaction", failed)))


def test_a_compaction_that_failed_says_so_in_its_command() -> None:
    failed = c.CommandData("i", "compact", None, "error", "it broke", compaction=MARKER)
    text = shown(render.render_row(row("command", failed)))
    assert all(part in text for part in ("/compact: error", "it broke", "compacted · auto"))


def test_what_nobody_reads_is_cut_and_says_so() -> None:
    word = "A" * 1_000_000
    text = shown(
        render.render_row(row("user", c.MessageData(None, raw(f"see {word} ok"), raw({}))))
    )
    assert len(text) < 1000
    assert "(999800 more" in text
    assert " ok" in text
    chinese = "压缩的会话。" * 500
    whole = shown(render.render_row(row("user", c.MessageData(None, raw(chinese), raw({})))))
    assert "".join(whole.split()).count("压缩的会话。") == 500
    long = msgspec.structs.replace(TOOL, arguments="x y " * 5_000, content=raw("out put " * 5_000))
    assert len(shown(render.render_row(row("tool", long)))) < 6_000


def test_a_pile_of_marks_is_no_higher_than_a_script_needs() -> None:
    assert visible("a" + "\u0301" * 50 + "b") == "a" + "\u0301" * 4 + "b"
    assert visible("ạ̈́ é") == "ạ̈́ é"


def test_a_card_says_how_long_its_call_took() -> None:
    data = msgspec.structs.replace(TOOL, call_time=1000, result_time=3250)
    assert "tool read: ok, 2.2 s" in shown(render.render_row(row("tool", data)))


def test_what_was_shown_before_says_so() -> None:
    assert "(changed)" in shown(render.render_row(row("tool", TOOL), again=True))
    gone = msgspec.structs.replace(row("compaction", MARKER), deleted=True, data=None)
    assert shown(render.render_row(gone, again=True)).startswith("withdrawn: compaction  #7")


def test_a_time_that_no_clock_shows_is_a_number() -> None:
    data = c.GapData(1, 2)
    assert f"  {2**53} ms" in shown(render.render_row(row("gap", data, time=2**53)))
    assert shown(render.render_row(row("gap", data, time=0))).split("\n")[0].rstrip().endswith("#7")


def change(seq: int, op: str, message: Any, **fields: Any) -> SurfaceChange:
    body = None if message is None else raw(message)
    return SurfaceChange("s", 0, seq, op, "user/message", 0, message=body, **fields)


def test_a_surface_is_shown_in_its_own_order() -> None:
    view = SurfaceView()
    view.apply(change(0, "append", {"role": "user", "content": [text_block("old")]}))
    view.apply(change(1, "append", None))
    checkpoint = {"role": "user", "content": [text_block("summary")]}
    view.apply(change(9, "replace", checkpoint, shadowed=(0,), position=0, generation=1))
    text = shown(*render.surface(view, view.nodes))
    assert text.index("user  #9  user/message") < text.index("#1  user/message")
    assert "old" not in text
    assert "(no message)" in text


def _harmless(text: str) -> bool:
    return not any(
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(char) in ("LRE", "RLE", "LRO", "RLO", "PDF")
        or unicodedata.bidirectional(char) in ("LRI", "RLI", "FSI", "PDI")
        for char in text.replace("\n", "")
    )


def test_hostile_text_is_shown_as_what_it_is() -> None:
    assert visible(HOSTILE) == (
        "␛[31mred␇␍␈ <U+202E>evil<U+2066> <U+009B>2J <U+200B>x<U+FEFF> \ufffd <U+2028> <U+E0041>"
    )
    assert visible("a\r\nb\tc") == "a\nb    c"
    assert visible_line("a\nb") == "a␊b"
    family = "👨\u200d👩\u200d👧 नमस्ते"
    assert visible(family) == family


@given(st.text(st.characters(), max_size=80))
def test_no_text_reaches_the_terminal_raw(text: str) -> None:
    assert _harmless(visible(text))
    assert "\n" not in visible_line(text)


def test_every_string_of_a_row_is_made_harmless() -> None:
    h = HOSTILE.replace("\ud800", "")
    blocks = raw([text_block(h), {"type": h}, {"type": "tool-call", "name": h, "arguments": h}])
    failure = raw({"code": h, "message": h})
    marker = c.CompactionData(h, h, "failed", summary=h, error=h)
    datas: list[RowData] = [
        c.MessageData(h, blocks, raw({}), h, h),
        c.AssistantData(h, h, blocks),
        c.ToolData(h, h, h, "ok", blocks, sub_calls=(
            c.SubCall(h, h, blocks, h, blocks, None, 1, 2),)),
        c.CommandData(h, h, h, h, h, compaction=marker),
        marker,
        c.RetryData(h, h, h, h, (c.Attempt(1, 0, 1, 1, 1, failure),)),
        c.TurnErrorData(h, h, masked=False),
        c.TurnData(h, None, 1, 1, 1, None, 0, 0, 0, 0, 0, None),
        c.UnknownData(h, ignorable=False),
    ]  # fmt: skip
    for data in datas:
        assert _harmless(shown(render.render_row(row("x" + h, data))))
    view = SurfaceView()
    view.apply(change(0, "append", {"role": h, "content": [text_block(h)]}))
    view.types[0] = h
    assert _harmless(shown(*render.surface(view, [0])))


@pytest.mark.parametrize("odd", [b'"\\ud800"', b"1e999", b"9" * 5000, b"[" * 500 + b"]" * 500])
def test_opaque_json_of_any_kind_is_shown_somehow(odd: bytes) -> None:
    assert shown(render.render_row(row("user", c.MessageData(None, Raw(odd), Raw(b"{}")))))


def test_wide_characters_keep_to_the_width() -> None:
    data = c.MessageData(None, raw([text_block("漢字🙂" * 40)]), raw({}))
    lines = shown(render.render_row(row("user", data)), width=31).split("\n")
    assert all(cell_len(line) <= 31 for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert len(lines) > 8
