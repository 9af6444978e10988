"""Every format shape of a record → its one meaning (projection.md §2, session-log.md §2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from operators import events as e
from operators.events import Shape
from schemas.inbound import read_line

#: What a metering event says.
METER: Any = {"shadowedRange": {"start": 3, "end": 5}, "shadowedTokenCount": 9}
TEXT = [{"type": "text", "text": "hi"}]


def read(type_: str, data: Any = None, **keys: Any) -> Any:
    """The event of such a row; untyped, since each test knows which body it has."""
    row = {"type": type_, "seq": 7, "time": 5, "data": data} | keys
    found = read_line(json.dumps(row, separators=(",", ":")).encode())
    assert isinstance(found, e.Event), found
    return found


def body(type_: str, data: Any = None, **keys: Any) -> Any:
    return read(type_, data, **keys).body


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value, separators=(",", ":")).encode())


# --- user messages --------------------------------------------------------------------------------


def test_a_user_message_is_its_data() -> None:
    data = {"id": "m", "role": "user", "content": TEXT, "source": {"kind": "user"}}
    found = body("user/message", data, surfaceOp="append")
    source = e.Source(raw({"kind": "user"}), "user")
    assert found == e.UserMessage(raw(data), "m", raw(TEXT), source)


def test_a_flat_user_message_is_wrapped() -> None:
    data = {"content": TEXT, "source": {"kind": "plugin", "plugin": "p"}}
    found = read("user/message", data, surfaceOp="append")
    assert found.body.id == "legacy:7"
    assert found.body.message == raw({"id": "legacy:7", "role": "user"} | data)
    assert found.shapes == 0


@pytest.mark.parametrize("part", [{"id": "m"}, {"role": "user"}, {"id": None}])
def test_a_message_with_id_or_role_is_not_flat(part: dict[str, Any]) -> None:
    data = part | {"content": TEXT}
    assert body("user/message", data, surfaceOp="append").message == raw(data)


@pytest.mark.parametrize("data", [None, {}, "text", [1], {"content": "text"}])
def test_a_message_without_what_it_needs_has_nulls(data: Any) -> None:
    found = body("user/message", data, surfaceOp="append")
    assert (found.id, found.source.kind, found.source.producer) == (None, "", None)
    assert found.message == raw(data)


@pytest.mark.parametrize(
    ("type_", "kind", "steering"),
    [("steering/message", "user", True), ("context/message", "context", False)],
)
def test_legacy_user_messages(type_: str, kind: str, steering: bool) -> None:
    found = read(type_, {"content": TEXT}, surfaceOp="append")
    assert (found.type, found.shapes) == ("user/message", Shape.LEGACY_NAMES)
    assert (found.body.source.kind, found.body.steering) == (kind, steering)
    assert found.body.message == raw(
        {"id": "legacy:7", "role": "user", "content": TEXT, "source": {"kind": kind}}
    )
    own = {"content": TEXT, "source": {"kind": "goal"}}
    assert body(type_, own, surfaceOp="append").source.kind == "goal"
    for log_only in (read(type_, own), read(type_, {"content": "x"}, surfaceOp="append")):
        assert (log_only.type, log_only.body, log_only.shapes) == (type_, e.LogOnly(), 0)


@pytest.mark.parametrize(
    ("source", "producer", "form"),
    [
        ({"kind": "user", "form": "notice"}, None, "notice"),
        ({"kind": "plugin", "plugin": "hooks", "form": "snapshot"}, "hooks", "snapshot"),
        ({"kind": "plugin", "plugin": ""}, "plugin", None),
        ({"kind": "goal", "form": "else"}, "goal", None),
        ({"kind": "skill-invocation", "name": "pdf"}, "pdf", None),
        ({"kind": "skill-invocation"}, "skill-invocation", None),
        (
            {
                "kind": "session-reference",
                "references": [{"label": "a"}, {"label": ""}, {"label": "b"}, {"label": "a"}, 3],
            },
            "a, b",
            None,
        ),
        ({"kind": "session-reference", "references": "x"}, "session-reference", None),
        ({"kind": "agent-instructions", "changes": [{"path": "A.md"}]}, "A.md", None),
        ({"kind": "workspace-instructions", "changes": [{"path": "B.md"}]}, "B.md", None),
        ({"kind": "agent-instructions", "changes": []}, "agent-instructions", None),
        ({"plugin": "p"}, None, None),
        ("user", None, None),
    ],
)
def test_producers_and_forms(source: Any, producer: str | None, form: str | None) -> None:
    data = {"id": "m", "role": "user", "content": TEXT, "source": source}
    found = body("user/message", data, surfaceOp="append").source
    assert (found.producer, found.form, found.raw) == (producer, form, raw(source))


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ({"kind": "plugin", "plugin": "compact"}, Shape.CHECKPOINT_PLUGIN),
        ({"kind": "compact-checkpoint"}, Shape.CHECKPOINT_PRODUCER),
    ],
)
def test_the_compaction_source_in_both_shapes(source: dict[str, str], shape: Shape) -> None:
    ids = {"compactionId": "c", "sourceCommandId": "k"}
    data = {"id": "m", "role": "user", "content": TEXT, "source": source | ids}
    replace = {"op": "replace", "startSeq": 1, "endSeq": 2}
    found = read("user/message", data, surfaceOp=replace)
    assert found.body.source.checkpoint == e.Checkpoint("c", "k")
    assert found.shapes == shape | Shape.REPLACE_START_SEQ
    # The same source on an append is injected context.
    assert read("user/message", data, surfaceOp="append").shapes == 0
    data["source"] = source
    assert body("user/message", data).source.checkpoint == e.Checkpoint(None, None)


def test_a_plugin_of_nearly_that_name_is_no_checkpoint() -> None:
    data = {"id": "m", "role": "user", "source": {"kind": "plugin", "plugin": "Compact"}}
    assert body("user/message", data).source.checkpoint is None


# --- assistant messages, their blocks and streams -------------------------------------------------


def assistant(content: Any, **keys: Any) -> Any:
    source = {"kind": "model", "provider": "p", "model": "m"}
    message = {"id": "a", "role": "assistant", "content": content, "source": source}
    return body("assistant/message", {"turn": 1, "step": 2, "message": message} | keys)


@pytest.mark.parametrize(
    ("content", "empty", "calls", "has_text", "visible"),
    [
        ([], True, (), False, False),
        (TEXT, False, (), True, True),
        ([{"type": "text", "text": " \u00a0\ufeff\u2028\n"}], False, (), False, False),
        ([{"type": "text", "text": "\u0085"}], False, (), True, True),
        ([{"type": "text", "text": "\u001f"}], False, (), True, True),
        ([{"type": "reasoning", "text": "r"}], False, (), False, True),
        ([{"type": "reasoning", "text": " "}], False, (), False, False),
        ([{"type": "tool-call", "id": "c"}, {"type": "tool-call"}], False, ("c",), False, False),
        ([{"type": "image"}], False, (), False, True),
        ([{"type": "text"}, 5], False, (), False, True),
        ("text", False, (), False, False),
    ],
)
def test_what_is_in_an_assistant_message(
    content: Any, empty: bool, calls: tuple[str, ...], has_text: bool, visible: bool
) -> None:
    found = assistant(content)
    facts = (found.empty, found.calls, found.has_text, found.visible)
    assert facts == (empty, calls, has_text, visible)
    assert found.content == raw(content)
    assert (found.provider, found.model, found.turn, found.step) == ("p", "m", 1, 2)


@pytest.mark.parametrize("route", [None, {"provider": "p", "model": "m"}])
def test_a_flat_assistant_message_is_wrapped(route: dict[str, str] | None) -> None:
    data = {"turn": 1, "step": 1, "content": TEXT} | ({"provenance": route} if route else {})
    found = body("assistant/message", data)
    source = {"kind": "model"} | (route or {})
    wrapped = {"id": "legacy:7", "role": "assistant", "content": TEXT, "source": source}
    assert (found.id, found.message) == ("legacy:7", raw(wrapped))
    assert found.has_text
    assert found.provider == (route or {}).get("provider")


@pytest.mark.parametrize(
    ("usage", "buckets"),
    [
        (
            {"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 3, "cacheWriteTokens": 4},
            (1, 2, 3, 4, 0, True),
        ),
        ({"inputTokens": 1.0, "outputTokens": 0}, (1, 0, 0, 0, 0, True)),
        ({"outputTokens": -1, "reasoningTokens": 5}, (0, -1, 0, 0, 5, False)),
        ({"inputTokens": "9", "outputTokens": None}, (0, 0, 0, 0, 0, False)),
        ({"outputTokens": 10**400}, (0, 0, 0, 0, 0, False)),
        ({}, (0, 0, 0, 0, 0, False)),
    ],
)
def test_usage(usage: Any, buckets: tuple[Any, ...]) -> None:
    found = assistant(TEXT, usage=usage)
    assert found.usage == e.Usage(*buckets)
    assert found.usage_raw == raw(usage)


@pytest.mark.parametrize("usage", [None, "9", [1]])
def test_a_usage_that_is_no_object_is_none(usage: Any) -> None:
    found = assistant(TEXT, usage=usage)
    assert (found.usage, found.usage_raw) == (None, None)


@pytest.mark.parametrize(("flag", "is_one"), [(True, True), (False, False), (1, False)])
def test_interrupted_is_the_literal_true(flag: Any, is_one: bool) -> None:
    assert assistant(TEXT, interrupted=flag).interrupted is is_one


def text_run(*texts: str, kind: str = "text", **keys: Any) -> dict[str, Any]:
    dt = [10] * (len(texts) - 1)
    return {"type": f"{kind}-chunks", "time0": 100, "index": 0, "dt": dt, "texts": texts} | keys


def tool_run(*args: str, **keys: Any) -> dict[str, Any]:
    run = {"type": "tool-call-chunks", "time0": 100, "index": 1, "dt": [10] * (len(args) - 1)}
    return run | {"id": "c", "args": args} | keys


def one(time: int, **chunk: Any) -> dict[str, Any]:
    return {"type": "chunk", "time": time, "chunk": chunk}


@pytest.mark.parametrize(
    ("records", "first"),
    [
        ([text_run("a", "b")], 100),
        ([text_run("", "", "c")], 120),
        ([text_run(""), text_run("x", time0=300)], 300),
        ([text_run("a", kind="reasoning")], 100),
        ([tool_run("")], None),
        ([tool_run("", "{")], 110),
        ([tool_run("", name="")], 100),
        ([tool_run("", name=None), text_run("x", time0=9)], 9),
        ([one(50, type="block-start", index=0, blockType="text"), text_run("a")], 100),
        ([one(50, type="text-delta", index=0, text="")], None),
        ([one(50, type="reasoning-delta", index=0, text="x")], 50),
        ([one(50, type="tool-call-delta", index=0, id="", argumentsDelta="")], None),
        ([one(50, type="tool-call-delta", index=0, name="", argumentsDelta="")], 50),
        ([7, {"type": "new"}, text_run("a")], 100),
        ([text_run("a", time0=None), text_run("b")], None),
    ],
)
def test_first_token_of_an_embedded_stream(records: list[Any], first: int | None) -> None:
    assert assistant(TEXT, stream=records).stream.first_token_time == first


def test_the_last_usage_sample_of_a_stream() -> None:
    samples = [one(1, type="usage", usage={"outputTokens": n}) for n in (3, 4)]
    found = assistant(TEXT, stream=samples).stream
    assert (found.usage_raw, found.usage.output) == (raw({"outputTokens": 4}), 4)
    own = assistant(TEXT, stream=samples, usage={"outputTokens": 4})
    assert own.stream.usage == own.usage


def test_streams_that_are_empty_or_none() -> None:
    place = {"turn": 1, "step": 1}
    message = {"message": {"id": "a", "content": TEXT}}
    shapes = {}
    for stream in ([], None, [text_run("a")]):
        found = read("assistant/message", place | message | {"stream": stream})
        shapes[str(stream)[:2]] = (found.shapes, found.body.stream)
    assert shapes["[]"] == (0, e.Stream())
    assert shapes["No"] == (0, None)
    whole = raw([text_run("a")])
    assert shapes["[{"] == (Shape.EMBEDDED_STREAM, e.Stream(100, raw=whole))
    assert assistant(TEXT).stream is None


def test_an_attempt_is_its_records() -> None:
    stream = [
        one(90, type="block-start", index=0, blockType="text"),
        text_run("a", "", "b", dt=[10, -5]),
        tool_run("{", "}", name="read", dt=[1, 2, 3]),
        text_run("x", "y", dt=[]),
        text_run(),
        one(130, type="finish", reason={"kind": "stop"}),
        one(140, type="novel"),
    ]
    found = read("assistant/attempt", {"turn": 1, "step": 2, "stream": stream})
    assert found.shapes == Shape.EMBEDDED_STREAM
    assert found.body.records == (
        e.Timed(90, e.BlockStart(0, "text")),
        e.Timed(100, e.Run(0, "text", ("a", "", "b"), (100, 110, 105))),
        e.Timed(100, e.Run(1, "tool-call", ("{", "}"), (100, 101), "c", "read")),
        e.Timed(100, e.Run(0, "text", ("x", "y"), (100, None))),
        e.Timed(130, e.OtherChunk("finish")),
    )
    assert found.body.stream == e.Stream(100, raw=raw(stream))


# --- chunks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk", "meaning"),
    [
        ({"type": "text-delta", "index": 0, "text": "a"}, e.TextDelta(0, "text", "a")),
        ({"type": "reasoning-delta", "index": 1, "text": ""}, e.TextDelta(1, "reasoning", "")),
        (
            {"type": "tool-call-delta", "index": 0, "id": "c", "name": "", "argumentsDelta": "{"},
            e.ToolDelta(0, "c", "", "{"),
        ),
        (
            {"type": "tool-call-delta", "index": 0, "id": "c", "argumentsDelta": "}"},
            e.ToolDelta(0, "c", None, "}"),
        ),
        ({"type": "block-start", "index": 2, "blockType": "image"}, e.BlockStart(2, "image")),
        (
            {"type": "block-end", "index": 0, "block": {"type": "text", "text": " "}},
            e.BlockEnd(0, raw({"type": "text", "text": " "}), "text", True),
        ),
        (
            {"type": "block-end", "index": 0, "block": {"type": "tool-call", "id": "c"}},
            e.BlockEnd(0, raw({"type": "tool-call", "id": "c"}), "tool-call", True, "c"),
        ),
        (
            {"type": "usage", "usage": {"inputTokens": 3}},
            e.UsageChunk(raw({"inputTokens": 3}), e.Usage(3)),
        ),
        ({"type": "finish", "reason": {"kind": "stop"}}, e.OtherChunk("finish")),
        ({"type": "finish", "reason": {"kind": "max-tokens"}}, e.OtherChunk("finish", True)),
        ({"type": "finish", "reason": 5}, e.OtherChunk("finish")),
        ({"type": "text-delta", "text": "a"}, e.OtherChunk("")),
        (None, e.OtherChunk("")),
    ],
)
def test_chunk_events(chunk: Any, meaning: e.Chunk) -> None:
    found = read("assistant/chunk", {"turn": 1, "step": 2, "chunk": chunk})
    assert found.body == e.AssistantChunk(1, 2, meaning)
    assert found.shapes == Shape.CHUNK_EVENTS


def packed(type_: str, data: dict[str, Any], **keys: Any) -> e.Line:
    return read_line(
        json.dumps({"type": type_, "seq0": 7, "time0": 100, "data": data} | keys).encode()
    )


RUN = {"turn": 1, "step": 2, "index": 0, "dt": [5, -9], "texts": ["a", "", "b"]}
TOOL = {"turn": 1, "step": 2, "index": 0, "id": "c", "dt": [], "args": ["{"]}


def test_packed_rows_are_one_event_of_many_members() -> None:
    for kind in ("text", "reasoning"):
        found = packed(f"{kind}-chunks", RUN)
        assert isinstance(found, e.Event)
        run = e.Run(0, kind, ("a", "", "b"), (100, 105, 96))
        assert found.body == e.AssistantChunk(1, 2, run)
        assert (found.seq, found.time, found.count) == (7, 100, 3)
        assert (found.type, found.shapes) == ("assistant/chunk", Shape.PACKED_ROWS)
    found = packed("tool-call-chunks", TOOL | {"name": "n"})
    assert isinstance(found, e.Event)
    assert found.body == e.AssistantChunk(1, 2, e.Run(0, "tool-call", ("{",), (100,), "c", "n"))


@pytest.mark.parametrize(
    ("type_", "data", "keys"),
    [
        ("text-chunks", RUN | {"dt": [5]}, {}),
        ("text-chunks", RUN | {"dt": [], "texts": []}, {}),
        ("text-chunks", RUN | {"texts": ["a", 1, "b"]}, {}),
        ("text-chunks", RUN | {"dt": [5, 0.5]}, {}),
        ("text-chunks", RUN | {"more": 1}, {}),
        ("text-chunks", RUN | {"turn": "1"}, {}),
        ("reasoning-chunks", RUN, {"seq0": -1}),
        ("reasoning-chunks", RUN, {"seq0": e.MAX_SEQ - 1}),
        ("reasoning-chunks", RUN, {"time0": None}),
        ("reasoning-chunks", RUN, {"seq": 7}),
        ("tool-call-chunks", {k: v for k, v in TOOL.items() if k != "id"}, {}),
        ("tool-call-chunks", TOOL | {"name": None}, {}),
        ("tool-call-chunks", RUN, {}),
        ("text-chunks", {}, {}),
    ],
)
def test_a_malformed_packed_row_takes_no_seq(
    type_: str, data: dict[str, Any], keys: dict[str, Any]
) -> None:
    found = packed(type_, data, **keys)
    assert isinstance(found, e.Fault)
    assert (found.reason, found.seq) == ("packed-row-invalid", None)


def test_a_packed_row_without_seq0_is_malformed_outside_of_fixtures() -> None:
    found = read_line(json.dumps({"type": "text-chunks", "data": RUN}).encode())
    assert isinstance(found, e.Fault)


# --- tool results ---------------------------------------------------------------------------------

INNER = [{"type": "text", "text": "out"}]
FLAT = {"turn": 1, "step": 2, "callId": "c", "content": INNER, "isError": True}
WRAPPED = {
    "turn": 1,
    "step": 2,
    "message": {
        "id": "t",
        "role": "user",
        "source": {"kind": "tool", "callId": "c"},
        "content": [{"type": "tool-result", "toolCallId": "c", "content": INNER, "isError": True}],
    },
}
DIRECT = {
    "turn": 1,
    "step": 2,
    "message": {
        "id": "t",
        "role": "tool",
        "source": {"kind": "tool", "callId": "c"},
        "toolCallId": "c",
        "content": INNER,
        "isError": True,
    },
}


@pytest.mark.parametrize(
    ("data", "shape", "message_id"),
    [
        (FLAT, Shape.RESULT_FLAT, "legacy:7"),
        (WRAPPED, Shape.RESULT_WRAPPED, "t"),
        (DIRECT, Shape.RESULT_DIRECT, "t"),
    ],
)
@pytest.mark.parametrize("odd", [{}, {"futureField": 1}])
def test_tool_results_in_three_shapes(
    data: dict[str, Any], shape: Shape, message_id: str, odd: dict[str, Any]
) -> None:
    error = {"name": "E", "code": "X"}
    found = read("tool/result", data | {"error": error, "meta": None} | odd, surfaceOp="append")
    result = found.body
    assert (result.turn, result.step, result.call_id) == (1, 2, "c")
    assert (result.message_id, result.is_error, result.content) == (message_id, True, raw(INNER))
    assert (result.error, result.meta, found.shapes) == (raw(error), None, shape)
    if "message" in data:
        assert result.message == raw(data["message"])


def test_a_flat_result_projects_to_its_wrapper() -> None:
    message = json.loads(bytes(body("tool/result", FLAT).message))
    assert message == WRAPPED["message"] | {"id": "legacy:7"}  # type: ignore[operator]


@pytest.mark.parametrize("flag", [False, None, 1, "true"])
def test_only_the_literal_true_is_an_error(flag: Any) -> None:
    assert not body("tool/result", FLAT | {"isError": flag}).is_error


def test_the_call_id_is_the_sources_else_the_tool_call_id() -> None:
    def of(**source: str) -> str | None:
        message = {"role": "tool", "toolCallId": "b", "content": [], "source": source}
        call: str | None = body("tool/result", {"message": message}).call_id
        return call

    assert (of(kind="tool", callId="a"), of(kind="tool"), of()) == ("a", "b", "b")


@pytest.mark.parametrize("data", [None, 5, {}, {"message": None}, {"message": []}, {"turn": 1}])
def test_a_result_that_says_nothing(data: Any) -> None:
    found = read("tool/result", data, surfaceOp="append")
    assert (found.body.call_id, found.body.content, found.shapes) == (None, e.NULL, 0)


def change(data: dict[str, Any], *path: Any, **to: Any) -> dict[str, Any]:
    """A copy with keys set (or, by ``...``, removed) in the object at ``path``."""
    copy: dict[str, Any] = json.loads(json.dumps(data))
    place: Any = copy
    for key in path:
        place = place[key]
    for key, value in to.items():
        place[key] = value
        if value is ...:
            del place[key]
    return copy


BLOCK = ("message", "content", 0)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (change(WRAPPED, *BLOCK, content=[]), True),
        (change(WRAPPED, *BLOCK, content=...), True),
        (change(WRAPPED, *BLOCK, content="x"), True),
        (change(WRAPPED, "message", content=[WRAPPED["message"]["content"][0], 5]), True),  # type: ignore[index]
        (change(WRAPPED, turn=1.0), True),
        (change(WRAPPED, turn=2), False),
        (change(WRAPPED, step=...), False),
        (change(WRAPPED, *BLOCK, isError=1), False),
        (change(WRAPPED, *BLOCK, isError=False), False),
        (change(WRAPPED, *BLOCK, isError=...), False),
        (change(WRAPPED, *BLOCK, more=1), False),
        (change(WRAPPED, *BLOCK, toolCallId="d"), False),
        (change(WRAPPED, "message", id="u"), False),
        (change(WRAPPED, "message", more=None), False),
        (change(WRAPPED, "message", content=[]), False),
        (change(WRAPPED, "message", "source", more=1), False),
        (change(WRAPPED, meta=None), False),
        (change(WRAPPED, futureField=1), False),
        (change(WRAPPED, error={"name": "E"}), False),
        (DIRECT, False),
    ],
)
def test_what_a_rewrite_may_change(changed: dict[str, Any], same: bool) -> None:
    original = body("tool/result", WRAPPED).identity
    assert (body("tool/result", changed).identity == original) is same


def test_a_direct_and_a_flat_result_may_change_their_content_alone() -> None:
    direct = body("tool/result", DIRECT).identity
    assert body("tool/result", change(DIRECT, "message", content=[])).identity == direct
    assert body("tool/result", change(DIRECT, "message", isError=False)).identity != direct
    flat = read("tool/result", FLAT)
    later = read_line(json.dumps({"type": "tool/result", "seq": 9, "data": FLAT}).encode())
    assert isinstance(later, e.Event)
    assert isinstance(later.body, e.ToolResult)
    assert later.body.identity == flat.body.identity  # the ids made for them differ
    assert body("tool/result", FLAT | {"content": []}).identity == flat.body.identity
    assert body("tool/result", FLAT | {"isError": False}).identity != flat.body.identity


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        (1, True, False),
        ({"a": None}, {}, False),
        (2**60, float(2**60), True),
        ("é", "e\u0301", False),
    ],
)
@pytest.mark.parametrize("odd", [{}, {"futureField": 1}])
def test_meta_is_compared_by_json_value(
    left: Any, right: Any, same: bool, odd: dict[str, Any]
) -> None:
    pair = [body("tool/result", WRAPPED | odd | {"meta": meta}).identity for meta in (left, right)]
    assert (pair[0] == pair[1]) is same


def test_key_order_does_not_show_in_an_identity() -> None:
    turned = {key: WRAPPED[key] for key in reversed(WRAPPED)}
    assert body("tool/result", turned).identity == body("tool/result", WRAPPED).identity


# --- everything else ------------------------------------------------------------------------------

NOWHERE: dict[str, Any] = {}
MESSAGE = {"id": "m", "role": "system", "content": [], "source": {"kind": "system-prompt"}}
SYSTEM = e.Source(raw(MESSAGE["source"]), "system-prompt", "system-prompt")


@pytest.mark.parametrize(
    ("type_", "data", "meaning"),
    [
        ("turn/start", {"turn": 1, "trigger": {"kind": "message"}}, e.TurnStart(1)),
        ("step/start", {"turn": 1, "step": "2"}, e.StepStart(1, None)),
        ("step/end", {"turn": 1, "step": 2}, e.StepEnd(1, 2)),
        ("turn/end", {"turn": 1}, e.TurnEnd(1, None, None)),
        (
            "turn/end",
            {"turn": 1, "reason": {"kind": "aborted"}},
            e.TurnEnd(1, "aborted", raw({"kind": "aborted"})),
        ),
        *(
            ("turn/end", {"turn": 1, "reason": r}, e.TurnEnd(1, "error", raw(r), "m", code))
            for r, code in (
                ({"kind": "error", "error": {"message": "m", "code": "C"}}, "C"),
                ({"kind": "error", "step": 2, "failure": {"message": "m", "code": "C"}}, "C"),
                ({"kind": "error", "step": 2, "message": "m"}, None),
            )
        ),
        (
            "system/message",
            {"turn": 1, "step": 2, "message": MESSAGE},
            e.SystemMessage(1, 2, raw(MESSAGE), "m", e.EMPTY_LIST, SYSTEM, True),
        ),
        (
            "developer/message",
            {"message": MESSAGE | {"content": TEXT}},
            e.DeveloperMessage(
                None, None, raw(MESSAGE | {"content": TEXT}), "m", raw(TEXT), SYSTEM, False
            ),
        ),
        (
            "tool/call",
            {"turn": 1, "step": 2, "callId": "c", "name": "n", "arguments": "{"},
            e.ToolCall(1, 2, "c", "n", "{"),
        ),
        ("tool/call", {"callId": 5, "arguments": {}}, e.ToolCall(None, None, None, None, None)),
        (
            "request/header",
            {"header": {"config": {"provider": "p", "model": "m"}, "tools": "{{tools}}"}},
            e.RequestHeader(
                "p", "m", raw({"config": {"provider": "p", "model": "m"}, "tools": "{{tools}}"})
            ),
        ),
        ("request/header", {"header": "odd"}, e.RequestHeader(None, None, raw("odd"))),
        ("request/header", {"header": None}, e.RequestHeader(None, None)),
        ("compaction/prune", METER, e.Prune(e.Claim(3, 5, 9))),
        ("compaction/prune", METER | {"shadowedTokenCount": -1}, e.Prune()),
        ("compaction/prune", METER | {"shadowedRange": {"start": 3}}, e.Prune()),
        ("todo/write", {"todos": []}, e.Fact(raw({"todos": []}))),
        ("plan/mode", "odd", e.Fact(raw("odd"))),
        (
            "request/context",
            {"provider": "p", "model": "m", "contextWindow": 1e5},
            e.RequestContext("p", "m", 100_000),
        ),
        (
            "llm/retry",
            {"turn": 1, "step": 2, "retryId": "", "retry": 1, "delayMs": 5, "failure": {"code": 1}},
            e.Retry(1, 2, None, None, None, 1, None, 5, raw({"code": 1})),
        ),
        ("llm/retry-started", {"retryId": "r", "retry": 2}, e.RetryStarted(None, None, "r", 2)),
        (
            "agent/inbox/spliced",
            {
                "target": "next-step",
                "start": 1,
                "removedCount": 2,
                "inserted": [{"id": "a"}, {}, 5],
            },
            e.InboxSplice(True, 1, 2, ("a", None, None), False),
        ),
        (
            "agent/inbox/spliced",
            {"target": "next-turn", "start": -1, "outcome": "canceled"},
            e.InboxSplice(False, -1, 0, (), True),
        ),
        ("agent/inbox/spliced", {"target": "x"}, e.InboxSplice(None, 0, 0, (), False)),
        (
            "command/run",
            {"commandId": "k", "name": "compact", "args": " x"},
            e.CommandRun("k", "compact", " x"),
        ),
        (
            "command/done",
            {"commandId": "k", "kind": "success", "text": "t", "sourceEventSeq": 4.0},
            e.CommandDone("k", True, "t", 4),
        ),
        (
            "command/done",
            {"commandId": "k", "kind": "error", "sourceEventSeq": 4},
            e.CommandDone("k", False, None, None),
        ),
        ("session/end-seed", {"inherited": True}, e.EndSeed(True)),
        ("session/end-seed", {"inherited": 1}, e.EndSeed(False)),
        ("session/title", {"title": "t"}, e.Title("t", raw({"title": "t"}))),
        (
            "image/offload",
            {"targets": [{"seq": 3, "imageIndexes": [0, 2]}, {"seq": "3"}, 7]},
            e.ImageOffload((e.ImageTarget(3, (0, 2)), *[e.ImageTarget(None, ())] * 2)),
        ),
        ("image/offload", {"targets": "x"}, e.ImageOffload(())),
    ],
)
def test_meanings(type_: str, data: Any, meaning: e.Body) -> None:
    assert body(type_, data) == meaning


SUMMARY = {
    "compactionId": "c",
    "sourceCommandId": "k",
    "summary": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
    "shadowedSeqs": [3, 4],
    "shadowedTokenCount": 9,
    "usage": {"outputTokens": 1},
}


@pytest.mark.parametrize(("prefix", "bits"), [("compaction", 0), ("compact", Shape.LEGACY_NAMES)])
def test_compactions_under_both_names(prefix: str, bits: int) -> None:
    found = [
        read(f"{prefix}/start", {"compactionId": "c", "sourceCommandId": "k", "turn": None}),
        read(f"{prefix}/summary", SUMMARY),
        read(f"{prefix}/end", {"turn": 1, "error": "no"}),
    ]
    names = ["compaction/start", "compaction/summary", "compaction/end"]
    assert [event.type for event in found] == names
    assert {event.shapes for event in found} == {bits}
    assert [event.body for event in found] == [
        e.CompactionStart("c", "k", None),
        e.CompactionSummary("c", "k", "ab", 2, 9, e.Usage(output=1, has_output=True)),
        e.CompactionEnd(None, None, 1, "no"),
    ]


def test_whom_a_summary_was_asked_of_and_what_it_meters() -> None:
    found = body("compaction/summary", SUMMARY | METER | {"provider": "p", "model": "m"})
    assert (found.provider, found.model, found.claim) == ("p", "m", e.Claim(3, 5, 9))


@pytest.mark.parametrize(
    ("keys", "meaning"),
    [
        ({"summary": [{"type": "text", "text": " \ufeff"}]}, (None, 2, 9)),
        ({"summary": "x", "shadowedSeqs": [1, 2.0, 3]}, (None, 3, 9)),
        ({"shadowedSeqs": [1, -1], "shadowedTokenCount": -1}, ("ab", None, None)),
        ({"shadowedSeqs": 5, "shadowedTokenCount": 1.5}, ("ab", None, None)),
    ],
)
def test_a_summary_that_does_not_say(keys: Any, meaning: tuple[Any, ...]) -> None:
    found = body("compaction/summary", SUMMARY | keys)
    assert (found.text, found.item_count, found.token_count) == meaning


@pytest.mark.parametrize(
    ("error", "text"), [(None, None), ("no", "no"), ("", ""), ({"code": 1}, '{"code":1}')]
)
def test_how_a_compaction_failed(error: Any, text: str | None) -> None:
    assert body("compaction/end", {"error": error}).error == text


@pytest.mark.parametrize("old", [True, False])
def test_nested_calls_under_both_names(old: bool) -> None:
    name = "tool/code-dispatch" if old else "tool/ptc-dispatch"
    ids = {"rootCallId": "r", "parentCallId": "p", "subCallId": "s", "name": "n"}
    start = read(f"{name}-start", ids | {"arguments": {"a": 1}})
    done = read(name, ids | {"isError": True, "content": INNER, "error": {"code": 1}})
    assert start.type == "tool/code-dispatch-start"
    assert done.type == "tool/code-dispatch"
    assert start.body == e.Dispatch("r", "p", "s", "n", raw({"a": 1}), False)
    assert done.body == e.Dispatch(
        "r", "p", "s", "n", None, True, True, raw(INNER), raw({"code": 1})
    )
    early = body(name, {"parentCallId": "p", "rootCallId": None})
    assert (early.root_call_id, early.is_error, early.content) == (None, False, None)
