"""Figures of small logs, one trap each (readers.md §2, §3, §5; cache breaks)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from operators.readers import values
from operators.readers.usage import MOST_ROUTES, Route
from tests.operators.build import numbered
from tests.operators.readers.figuring import Figuring, figure, read_all, restored

Json = dict[str, Any]
STEP = {"turn": 1, "step": 1}


def row(kind: str, data: Any = None, **envelope: Any) -> Json:
    return {"type": kind, "data": data or {}, **envelope}


def text(told: str) -> list[Json]:
    return [{"type": "text", "text": told}]


def user(told: str = "abcd", source: Json | None = None, op: Any = "append", **more: Any) -> Json:
    message = {"id": "u", "role": "user", "content": text(told)}
    return row(
        "user/message", message | {"source": source or {"kind": "user"}}, surfaceOp=op, **more
    )


def say(told: str = "abcd", usage: Json | None = None, op: Any = "append", **more: Any) -> Json:
    data: Json = {**STEP, "message": {"id": "a", "role": "assistant", "content": text(told)}}
    if "source" in more:
        data["message"]["source"] = more.pop("source")
    place = {key: more.pop(key) for key in ("turn", "step", "stream") if key in more}
    data |= place | ({"usage": usage} if usage else {})
    return row("assistant/message", data, surfaceOp=op, **more)


def chunk(told: Json) -> Json:
    return row("assistant/chunk", STEP | {"chunk": told})


def usage(given: int, out: int = 0, **more: int) -> Json:
    return {"inputTokens": given, "outputTokens": out, **more}


def reported(given: int, out: int = 0) -> Json:
    return chunk({"type": "usage", "usage": usage(given, out)})


def route(provider: str, model: str, **more: Any) -> Json:
    return row(
        "request/header", {"header": {"config": {"provider": provider, "model": model}, **more}}
    )


def replace(start: int, end: int) -> Json:
    return {"op": "replace", "start": start, "end": end}


def told(*rows: Json, reference: bool = False) -> Figuring:
    lines = [json.dumps(one).encode() for one in numbered(rows)]
    return figure(lines, reference=reference)


def refs(figuring: Figuring) -> Json:
    return values.reference(figuring.readers, figuring.session.surface)


def ours(figuring: Figuring) -> Json:
    told: Json = json.loads(msgspec.json.encode(figuring.session.overview()))
    return told


# --- statistics -----------------------------------------------------------------------------------


def test_a_turn_has_figures_of_its_own() -> None:
    first = (row("turn/start", {"turn": 1}), row("step/start", STEP))
    again = {"turn": 2, "step": 1}
    figuring = told(
        *first,
        chunk({"type": "text-delta", "index": 0, "text": "x"}),
        say(usage=usage(1, 6)),
        row("step/end", STEP),
        row("turn/end", {"turn": 1}),
        row("turn/start", {"turn": 2}),
        row("step/start", again),
        row("tool/call", again | {"callId": "c", "name": "n", "arguments": "{}"}),
        row("step/end", again),
    )
    whole = figuring.readers.statistics.times
    assert (whole.turns, whole.steps, whole.llm_ms, whole.ttft_ms, whole.decode_ms) == (
        2,
        2,
        20,
        10,
        10,
    )
    assert whole.decode_tokens == 6


def test_an_id_that_is_a_name_of_every_object_is_no_call() -> None:
    data = {"message": {"role": "tool", "toolCallId": "constructor", "content": []}}
    assert refs(told(row("tool/result", data, surfaceOp="append")))["sessionStats"]["toolMs"] == 0


# --- usage ----------------------------------------------------------------------------------------


def test_the_last_report_of_an_attempt_is_billed() -> None:
    """ccusage#389 adds 1 + 7 + 9, ccusage#897 keeps the 1."""
    figuring = told(
        row("step/start", STEP),
        reported(5, 1),
        reported(5, 7),
        say(usage=usage(5, 9)),
    )
    assert ours(figuring)["billed"][0]["usage"]["output"] == 9
    assert refs(figuring)["tokenUsage"]["outputTokens"] == 9


def test_a_retried_attempt_is_billed_and_the_reference_loses_it() -> None:
    retry = STEP | {"retryId": "r", "retry": 1, "maxRetries": 2, "delayMs": 0, "failure": {}}
    figuring = told(
        row("turn/start", {"turn": 1}),
        row("step/start", STEP),
        reported(5, 1),
        row("llm/retry", retry),
        row("llm/retry-started", retry),
        say(usage=usage(7, 2)),
    )
    assert refs(figuring)["tokenUsage"]["outputTokens"] == 2
    assert ours(figuring)["billed"][0]["usage"]["output"] == 3


def test_a_copy_is_not_billed_and_the_reference_adds_it() -> None:
    figuring = told(
        say(usage=usage(5, 1)),
        say(usage=usage(6, 1), step=2),
        say(usage=usage(5, 1), op=replace(0, 0), sourceEventSeqs=[0]),
    )
    assert refs(figuring)["tokenUsage"]["uncachedInputTokens"] == 16
    assert ours(figuring)["billed"][0]["usage"]["uncached_input"] == 11


def test_usage_goes_to_the_route_that_was_asked() -> None:
    figuring = told(
        route("p", "one"),
        say(usage=usage(5, 1)),
        route("p", "two"),
        say(usage=usage(7, 2), step=2),
        row("compaction/summary", {"usage": usage(9, 3), "provider": "q", "model": "small"}),
        route("p", "one"),
        say(usage=usage(1, 1), step=3),
    )
    rows = {r["model"]: (r["usage"], r["compaction_usage"]) for r in ours(figuring)["billed"]}
    told_of = {name: [b["uncached_input"] for b in pair] for name, pair in rows.items()}
    assert told_of == {"one": [6, 0], "two": [7, 0], "small": [0, 9]}


def test_a_report_that_another_route_takes_over_moves_whole() -> None:
    """The stream's report came under the header's name, the message says who answered."""
    figuring = told(
        route("p", "alias"),
        row("step/start", STEP),
        reported(5, 1),
        say(usage=usage(5, 4), source={"kind": "model", "provider": "p", "model": "real"}),
    )
    rows = {r["model"]: r["usage"]["output"] for r in ours(figuring)["billed"]}
    assert rows == {"alias": 0, "real": 4}


def test_a_restart_in_between_does_not_show() -> None:
    """A slot, a claim and a route are remembered over a snapshot."""
    rows = (
        route("p", "alias"),
        row("step/start", STEP),
        reported(5, 1),
        say(usage=usage(5, 4), source={"kind": "model", "provider": "p", "model": "real"}),
        row("compaction/prune", {"shadowedRange": {"start": 3, "end": 3}, "shadowedTokenCount": 5}),
        user("other", op=replace(3, 3), sourceEventSeqs=[3]),
    )
    lines = [json.dumps(one).encode() for one in numbered(rows)]
    whole, stopping = figure(lines), Figuring()
    for one in read_all(lines):
        stopping = restored(stopping)
        stopping.take(one)
    assert refs(stopping) == refs(whole)
    assert ours(stopping) == ours(whole)
    assert ours(whole)["last_cache_break"]["cause"] == "prune"


def test_routes_beyond_the_most_are_billed_to_none() -> None:
    rows = []
    for number in range(MOST_ROUTES + 5):
        rows += [route("p", f"m{number}"), say(usage=usage(1), step=number)]
    table = told(*rows).readers.billing.table()
    assert len(table) == MOST_ROUTES + 1
    assert dict(table)[Route()].usage.uncached_input == 5


# --- context --------------------------------------------------------------------------------------


def test_what_is_absent_is_absent() -> None:
    assert refs(told(user()))["contextPressure"] == {}
    window = row("request/context", {"provider": "p", "model": "m", "contextWindow": 100})
    without = row("request/context", {"provider": "p", "model": "m"})
    assert refs(told(window))["contextPressure"] == {"contextWindow": 100}
    assert refs(told(window, without))["contextPressure"] == {}


def compacted(tokens: Any = 18, end: int = 1) -> list[Json]:
    summary = {"shadowedRange": {"start": 0, "end": end}, "shadowedSeqs": [0, 1]}
    source = {"kind": "plugin", "plugin": "compact", "compactionId": "k"}
    return [
        user(),
        say(usage=usage(50)),
        row("compaction/summary", summary | {"shadowedTokenCount": tokens, "compactionId": "k"}),
        user("ab", source, replace(0, 1), sourceEventSeqs=[0, 1]),
    ]


def test_the_gauge_knows_of_a_compaction() -> None:
    """A context meter that stays where it was after a compaction is the reported fault."""
    found = refs(told(*compacted()))
    assert found["contextPressure"] == {"pressureTokens": 50, "projectedTokens": 50 + 9 - 9}
    assert found["contextBreakdown"]["messageTokens"] == 9
    assert ours(told(*compacted()))["metered_difference"] == 0


def test_a_count_that_is_none_claims_nothing() -> None:
    for tokens in (-5, 1.5, "18", None):
        figuring = told(*compacted(tokens))
        assert refs(figuring)["contextBreakdown"]["messageTokens"] == 18
        assert ours(figuring) | {"surface_tokens": 9, "metered_difference": 9} == ours(figuring)


def test_a_claim_for_another_range_is_noted() -> None:
    figuring = told(*compacted(18, end=0))
    assert figuring.session.quality["reader:contextBreakdown"] == 1
    assert ours(figuring)["surface_tokens"] == 9


def test_a_claim_is_good_for_the_next_event_alone() -> None:
    rows = compacted()
    rows.insert(3, row("turn/start", {"turn": 1}))
    assert refs(told(*rows))["contextBreakdown"]["messageTokens"] == 18


def test_the_system_message_counts_for_itself() -> None:
    message = {"id": "s", "role": "system", "content": text("abcdefgh")}
    system = row("system/message", STEP | {"message": message}, surfaceOp="append")
    found = refs(told(system, user(), reference=True))
    assert found["contextBreakdown"] == {"systemTokens": 6, "toolsTokens": 0, "messageTokens": 9}


def test_measure_believes_the_provider_if_it_says_more() -> None:
    head = (route("p", "m", system="abcd"), row("step/start", STEP), user())
    many = refs(told(*head, say(usage=usage(1_000, 20)), user(), reference=True))["measure"]
    assert many["baseline"] == {"kind": "usage", "tokens": 1_020}
    assert (many["surfaceDeltaTokens"], many["totalTokens"]) == (18, 1_038)
    few = refs(told(*head, say(usage=usage(1)), reference=True))["measure"]
    assert few["baseline"]["kind"] == "estimated"


def test_another_header_is_another_measure() -> None:
    rows = (route("p", "m"), row("step/start", STEP), say(usage=usage(1_000)), route("p", "n"))
    found = refs(told(*rows, reference=True))["measure"]
    assert found["baseline"] == {"kind": "estimated", "tokens": 9}


# --- where context was lost -----------------------------------------------------------------------


def lost(figuring: Figuring) -> list[tuple[Any, ...]]:
    return [
        (b.seq, b.cause, b.prefix, b.prefix_tokens, b.invalidated)
        for b in figuring.readers.breaks or []
    ]


def test_a_compaction_loses_what_stood_behind_the_first_message_it_took() -> None:
    source = {"kind": "plugin", "plugin": "compact"}
    figuring = told(
        *(user() for _ in range(4)),
        user("abcdefgh", source, replace(1, 2), sourceEventSeqs=[1, 2]),
        user(),
        reference=True,
    )
    assert lost(figuring) == [(4, "compaction", 1, 9, 27)]
    (loss,) = ours(figuring)["cache_breaks"]
    assert loss == {"cause": "compaction", "breaks": 1, "invalidated_tokens": 27}


def test_every_cause_has_its_name() -> None:
    result = {"kind": "tool", "callId": "c"}
    message = {"id": "t", "role": "tool", "toolCallId": "c", "source": result}
    prune = {"shadowedRange": {"start": 2, "end": 2}, "shadowedTokenCount": 9}
    figuring = told(
        user(),
        say(),
        row("tool/result", {"message": message | {"content": text("abcd")}}, surfaceOp="append"),
        row("compaction/prune", prune),
        row(
            "tool/result",
            {"message": message | {"content": text("")}},
            surfaceOp=replace(2, 2),
            sourceEventSeqs=[2],
        ),
        say("other", op=replace(1, 1), sourceEventSeqs=[1]),
        user("other", op=replace(0, 0), sourceEventSeqs=[0]),
        route("p", "m"),
        route("p", "m"),
        route("p", "n", system="abcd"),
        reference=True,
    )
    assert [(seq, cause, prefix) for seq, cause, prefix, *_ in lost(figuring)] == [
        (4, "prune", 2),
        (5, "regenerate", 1),
        (6, "other", 0),
        (9, "header", 0),
    ]
    assert lost(figuring)[-1][4] == 10 + 10 + 8  # all of it


def test_offloaded_images_change_a_message_in_place() -> None:
    image = {"type": "image", "source": {"kind": "file"}}
    figuring = told(
        user(),
        user(),
        row(
            "user/message",
            {"id": "i", "content": [image], "source": {"kind": "user"}},
            surfaceOp="append",
        ),
        user(),
        row("image/offload", {"targets": [{"seq": 2, "imageIndexes": [0]}]}),
        reference=True,
    )
    (found,) = lost(figuring)
    assert found[:4] == (4, "images", 2, 18)
    assert found[4] == figuring.session.surface.tokens - 18


@pytest.mark.parametrize("deep", [400, 100_000])
def test_content_too_deep_to_read_is_noted(deep: int) -> None:
    content = b"[" * deep + b"]" * deep
    line = (
        b'{"type":"user/message","seq":0,"time":0,"surfaceOp":"append","data":{"id":"u",'
        b'"content":[{"type":"odd","x":%b}],"source":{"kind":"user"}}}' % content
    )
    figuring = figure([line])
    assert figuring.session.surface.tokens >= 0
